// The one dtype of a shard's parameters, as vLLM resolves it.
#include <optional>

#include "base/error.h"
#include "model/vllm/types.h"
#include "shard/layout.h"

namespace plimsoll::shard {

DType resolve_dtype(const std::string& name, DType checkpoint, const model::ModelSpec& spec,
                    const Release& release) {
  const std::string& type = spec.vllm.model_type;
  const auto is_weights = [](std::optional<DType> dtype) {
    return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
  };
  if (name == "auto") {
    const auto dtype = dtype_from_torch(
        model::auto_dtype(std::string(torch_name(checkpoint)), type, release, true, false));
    return is_weights(dtype) ? *dtype : DType::bf16;
  }
  const auto dtype = dtype_from_torch(name);
  if (!is_weights(dtype)) {
    fail(ExitCode::usage, "--dtype {}: expected auto, bfloat16, float16 (half) or float32 (float)",
         name);
  }
  if (dtype == DType::f16 && model::vllm_type(type).without_float16.hold(release)) {
    fail(ExitCode::usage,
         "--dtype {}: vLLM refuses float16 for {}, which is numerically unstable in it; use "
         "bfloat16 or float32",
         name, spec.architecture);
  }
  return *dtype;
}

}  // namespace plimsoll::shard
