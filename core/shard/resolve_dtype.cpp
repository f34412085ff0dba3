// The one dtype of a shard's parameters, as vLLM resolves it.
#include "base/error.h"
#include "shard/layout.h"

namespace plimsoll::shard {

DType resolve_dtype(const std::string& name, DType checkpoint, const model::ModelSpec& spec,
                    const Release& release) {
  const bool no_half = spec.vllm.forbids_f16;
  if (name == "auto") {
    if (checkpoint == DType::f32 && release < since::kPreferredDType) return DType::f16;
    return checkpoint == DType::f16 && !no_half ? DType::f16 : DType::bf16;
  }
  const auto dtype = dtype_from_torch(name);
  if (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::f32) {
    fail(ExitCode::usage, "--dtype {}: expected auto, bfloat16, float16 (half) or float32 (float)",
         name);
  }
  if (dtype == DType::f16 && no_half) {
    fail(ExitCode::usage,
         "--dtype {}: vLLM refuses float16 for {}, which is numerically unstable in it; use "
         "bfloat16 or float32",
         name, spec.architecture);
  }
  return *dtype;
}

}  // namespace plimsoll::shard
