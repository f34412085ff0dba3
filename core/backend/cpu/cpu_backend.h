// The CPU backend: reference and default where there is no GPU.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "backend/backend.h"

namespace plimsoll::backend {

/// Instruction sets that kernels are written for, best last.
enum class CpuIsa : uint8_t { portable, avx2, avx512, avx512bf16 };

/// "portable", "avx2", "avx512", "avx512bf16".
std::string_view isa_name(CpuIsa isa);
std::optional<CpuIsa> isa_from_name(std::string_view name);
bool has_isa(CpuIsa isa);
/// The fastest instruction set of this processor. On Intel's that is not avx512bf16: there
/// vdpbf16ps does no more work in a cycle than two float multiply-adds, or half as much.
CpuIsa detect_isa();

struct Bf16Tile;
struct IntegerTile;

struct CpuOptions {
  CpuIsa isa = CpuIsa::portable;  // must be has_isa()
  int threads = 1;
  /// Products in tiles in place of the processor's own, for tests; null: the processor's.
  void (*bf16_tiles)(const Bf16Tile&) = nullptr;
  void (*integer_tiles)(const IntegerTile&) = nullptr;
};

/// Sizes of the CPU backend, whatever the instruction set. Activations are float32 for every model
/// dtype; weights and KV cache keep the model's.
const Footprint& cpu_footprint();

/// Throws Error(usage) when the processor lacks options.isa.
std::unique_ptr<Backend> make_cpu_backend(CpuOptions options);

}  // namespace plimsoll::backend
