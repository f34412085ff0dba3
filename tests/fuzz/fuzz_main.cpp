// The function that libFuzzer calls; PLIMSOLL_FUZZ_TARGET is the target of this program.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plimsoll::fuzz::PLIMSOLL_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
