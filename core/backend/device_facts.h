// What a bug report wants to know of a device and the libraries around it. A build without CUDA
// knows nothing.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::backend {

struct DeviceFacts {
  int code = 0;           // capability that the code which runs was compiled for: 90 is 9.0
  bool overlaps = false;  // kernels may start before the ones ahead have ended
  std::string attention;  // whose kernels this build has
  std::string products;   // cuBLASLt's file; empty: it was not found
  std::string products_trouble;
  uint64_t products_version = 0;  // 130100
  bool has_nvml = false;
};

#ifdef PLIMSOLL_HAS_CUDA
/// Of a device that list_devices() lists. Takes a context on it.
DeviceFacts device_facts(int index);
#else
inline DeviceFacts device_facts(int) {
  return {};
}
#endif

}  // namespace plimsoll::backend
