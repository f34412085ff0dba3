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
/// The best one that this processor has.
CpuIsa detect_isa();

struct CpuOptions {
  CpuIsa isa = CpuIsa::portable;  // at most detect_isa(); the caller chose
  int threads = 1;
};

/// Sizes of the CPU backend, whatever the instruction set. Activations are float32 for every model
/// dtype; weights and KV cache keep the model's.
const Footprint& cpu_footprint();

/// Throws Error(usage) when the processor lacks options.isa.
std::unique_ptr<Backend> make_cpu_backend(CpuOptions options);

}  // namespace plimsoll::backend
