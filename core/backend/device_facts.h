// Facts about a device and the libraries around it, for bug reports. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::backend {

struct DeviceFacts {
  int code = 0;           // capability for which the running code was compiled: 90 is 9.0
  bool overlaps = false;  // kernels may start before the kernels ahead have ended
  std::string attention;  // whose attention kernels this build has
  std::string products;   // cuBLASLt's file; empty: it was not found
  std::string products_trouble;
  uint64_t products_version = 0;  // 130100
  bool has_nvml = false;
};

#ifdef PLIMSOLL_HAS_CUDA
/// Facts about a device that list_devices() lists. Makes a context on it.
DeviceFacts device_facts(int index);
#else
inline DeviceFacts device_facts(int) {
  return {};
}
#endif

}  // namespace plimsoll::backend
