// Which instruction sets there are and which this processor has.
#include <array>

#include "backend/cpu/kernels.h"

namespace plimsoll::backend {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512bf16"};

}  // namespace

std::string_view isa_name(CpuIsa isa) {
  return kNames[static_cast<size_t>(isa)];
}

std::optional<CpuIsa> isa_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<CpuIsa>(i);
  return std::nullopt;
}

CpuIsa detect_isa() {
#if defined(__x86_64__)
  // The compiler's support library asks the operating system too whether it saves the registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c"))
    return CpuIsa::portable;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return CpuIsa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? CpuIsa::avx512bf16 : CpuIsa::avx512;
#else
  return CpuIsa::portable;
#endif
}

const Kernels& kernels_for(CpuIsa isa) {
#if defined(__x86_64__)
  if (isa == CpuIsa::avx2) return kAvx2Kernels;
  if (isa == CpuIsa::avx512) return kAvx512Kernels;
  if (isa == CpuIsa::avx512bf16) return kAvx512Bf16Kernels;
#endif
  static_cast<void>(isa);
  return kPortableKernels;
}

}  // namespace plimsoll::backend
