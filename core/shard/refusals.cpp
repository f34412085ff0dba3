#include "shard/refusals.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/vllm/classes.h"
#include "shard/release.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;

constexpr Release kMergedVisionMlp{.minor = 10, .patch = 1};  // Qwen2.5-VL's gate_up_proj

void refuse_ranks(int64_t ranks, size_t layer, const std::string& why) {
  fail(ExitCode::usage, "--tensor-parallel-size {}: layer {} has {}; vLLM refuses it too", ranks,
       layer, why);
}

void check_stages(const ModelSpec& spec, const Layout& layout) {
  const int64_t stages = layout.pipeline_parallel;
  if (stages == 1) return;
  if (spec.layer_inputs.width > 0) {
    fail(
        ExitCode::usage,
        "--pipeline-parallel-size {}: stages of models with inputs by layer are not made here yet; "
        "use 1",
        stages);
  }
  if (model::lacks_stages(spec.architecture, layout.release)) {
    fail(ExitCode::usage, "--pipeline-parallel-size {}: vLLM's {} has no stages; use 1", stages,
         spec.architecture);
  }
  if (!model::loads_stages(spec.architecture, spec.embedding == spec.head)) {
    fail(ExitCode::usage,
         "--pipeline-parallel-size {}: vLLM 0.32 fails to load stages of {}; use 1", stages,
         spec.architecture);
  }
  if (layout.release < since::kPipelineNames) {
    fail(ExitCode::usage,
         "--pipeline-parallel-size {}: vLLM {} writes the stages over each other; {} is the first "
         "that does not",
         stages, model::version_text(layout.release), model::version_text(since::kPipelineNames));
  }
}

}  // namespace

bool is_known(const ModelSpec& spec, const Release& release) {
  if (!spec.input_norm.empty() && release < kMergedVisionMlp) return false;
  return !spec.vllm.gate_has_alias || release < since::kGateAlias ||
         release >= since::kRoutedExperts;
}

void check_layout(const ModelSpec& spec, const Layout& layout) {
  if (layout.tensor_parallel > 1 && !spec.vllm.whole.empty()) {
    fail(ExitCode::usage, "--tensor-parallel-size {}: {}; use 1", layout.tensor_parallel,
         spec.vllm.whole);
  }
  check_stages(spec, layout);
  if (!spec.input_norm.empty() && layout.release < kMergedVisionMlp) {
    fail(
        ExitCode::usage,
        "--vllm-version {}: the vision tower of {} had other weights then; {} is the first release "
        "whose shards are written",
        model::version_text(layout.release), spec.architecture,
        model::version_text(kMergedVisionMlp));
  }
  if (!is_known(spec, layout.release)) {
    fail(ExitCode::usage,
         "--vllm-version {}: the gate of Qwen3-MoE changed its name several times between {} and "
         "{}, which is not known well enough; use another release",
         model::version_text(layout.release), model::version_text(since::kGateAlias),
         model::version_text(since::kRoutedExperts));
  }
}

void check_mixers(const ModelSpec& spec, int64_t ranks) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const model::AttentionSpec& attention = spec.layers[i].attention;
    if (attention.heads % ranks != 0) {
      refuse_ranks(ranks, i, fmt::format("{} query heads", attention.heads));
    }
    if (spec.vllm.kv_head_for_ranks && attention.kv_heads < ranks) {
      refuse_ranks(ranks, i, fmt::format("{} KV heads, fewer than ranks", attention.kv_heads));
    }
    const auto& mixer = spec.layers[i].recurrent;
    if (mixer && mixer->kind == model::RecurrentKind::mamba2 && mixer->groups > 1 &&
        mixer->groups % ranks != 0) {
      refuse_ranks(ranks, i, fmt::format("{} groups of B and C", mixer->groups));
    }
    if (mixer && mixer->kind == model::RecurrentKind::mamba2 && mixer->groups < ranks &&
        mixer->in.bias != model::kNoWeight) {
      refuse_ranks(ranks, i, "one group of B and C with biases, which are cut as if all had it");
    }
  }
}

}  // namespace plimsoll::shard
