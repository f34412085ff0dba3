// The one dtype of a shard's parameters, as vLLM resolves it.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "model/vllm/types.h"
#include "shard/layout.h"

namespace plimsoll::shard {
namespace {

// vLLM's Transformers classes put experts and router together, but in float16 not those with shared
// experts and a factor: they stay as transformers' class has them, under its names.
void refuse_experts_apart(DType dtype, const model::ModelSpec& spec) {
  const auto apart = [](const model::LayerSpec& layer) {
    return layer.mlp.experts > 0 && layer.mlp.shared.intermediate > 0 &&
           layer.mlp.router.factor != 1;
  };
  if (dtype != DType::f16 || !spec.vllm.generic || std::ranges::none_of(spec.layers, apart)) return;
  fail(ExitCode::usage,
       "--dtype float16: vLLM does not fuse experts of {} with \"routed_scaling_factor\" in "
       "float16, which is not done here; use bfloat16 or float32",
       spec.architecture);
}

}  // namespace

DType resolve_dtype(const std::string& name, DType checkpoint, const model::ModelSpec& spec,
                    const Release& release) {
  const std::string& type = spec.vllm.model_type;
  const auto is_weights = [](std::optional<DType> dtype) {
    return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
  };
  if (name == "auto") {
    const auto dtype = dtype_from_torch(
        model::auto_dtype(std::string(torch_name(checkpoint)), type, release, true, false));
    const DType own = is_weights(dtype) ? *dtype : DType::bf16;
    refuse_experts_apart(own, spec);
    return own;
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
  refuse_experts_apart(*dtype, spec);
  return *dtype;
}

}  // namespace plimsoll::shard
