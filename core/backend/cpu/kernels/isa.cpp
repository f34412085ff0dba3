// Instruction sets by name, and those that this processor has.
#include <array>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backend/cpu/kernels/dots/bf16_tiles.h"
#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/dots/integer.h"
#include "backend/cpu/kernels/kernels.h"

namespace plimsoll::backend {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512bf16"};

#if defined(__x86_64__)
/// Tiles are large, so that Linux saves them for programs alone that ask for it
/// (Documentation/arch/x86/xstate.rst).
bool ask_for_tiles() {
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;     // XFEATURE_XTILE_DATA
  static const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
}

bool has_tiles() {
  return __builtin_cpu_supports("amx-tile") != 0 && ask_for_tiles();
}

bool has_vnni(CpuIsa isa) {
  return isa >= CpuIsa::avx512 && __builtin_cpu_supports("avx512vnni") != 0;
}
#endif

}  // namespace

std::string_view isa_name(CpuIsa isa) {
  return kNames[static_cast<size_t>(isa)];
}

std::optional<CpuIsa> isa_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<CpuIsa>(i);
  return std::nullopt;
}

bool has_isa(CpuIsa isa) {
  if (isa == CpuIsa::portable) return true;
#if defined(__x86_64__)
  // The compiler's support library asks the operating system too whether it saves the registers.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("f16c") != 0;
  const bool avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  if (isa == CpuIsa::avx2) return avx2;
  if (isa == CpuIsa::avx512) return avx2 && avx512;
  return avx2 && avx512 && __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

CpuIsa detect_isa() {
#if defined(__x86_64__)
  if (has_isa(CpuIsa::avx512bf16) && __builtin_cpu_is("intel") == 0) return CpuIsa::avx512bf16;
#endif
  for (const CpuIsa isa : {CpuIsa::avx512, CpuIsa::avx2})
    if (has_isa(isa)) return isa;
  return CpuIsa::portable;
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

TileProduct bf16_tiles(CpuIsa isa) {
#if defined(__x86_64__)
  const bool tiles = __builtin_cpu_supports("amx-bf16") != 0 && has_tiles();
  if (isa == CpuIsa::avx512 && tiles) return bf16_amx;
#endif
  static_cast<void>(isa);
  return nullptr;
}

const FixedKernels* fixed_kernels(CpuIsa isa) {
#if defined(__x86_64__)
  if (has_vnni(isa)) return &kFixedVnni;
  if (isa >= CpuIsa::avx2) return &kFixedAvx2;
#endif
  static_cast<void>(isa);
  return nullptr;
}

int64_t asked_ahead() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel") != 0) return 4096;
#endif
  return 0;
}

IntegerProduct integer_product(CpuIsa isa) {
#if defined(__x86_64__)
  const bool tiles = __builtin_cpu_supports("amx-int8") != 0 && has_tiles();
  if (has_vnni(isa)) return tiles ? integer_amx : integer_vnni;
#endif
  static_cast<void>(isa);
  return nullptr;
}

}  // namespace plimsoll::backend
