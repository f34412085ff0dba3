// Memory of a step beside weights and cache: measured laws of vLLM's profile run (the constants
// were fitted on logs of H100 cards and hold for others as far as noted).
#include "vllm/launch/activation.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/amount.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/stage.h"

namespace plimsoll::vllm {
namespace {

bool at_least_hopper(const hardware::Gpu* gpu) {
  return hardware::capability_of(gpu).architecture >= hardware::Architecture::hopper;
}

int64_t gemm_workspace(const hardware::Gpu* gpu) {
  return (at_least_hopper(gpu) ? 32 : 8) * kMiB;
}

/// Rows that the sampler sees at once.
int64_t sampler_rows(const EngineLimits& limits) {
  return std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
}

struct Step {
  Amount tokens;
  Amount rows;
  Amount hidden;
  Amount vocabulary;
  Amount intermediate;
  int64_t element;
  bool int8_activations;
};

/// Logits in the model's dtype, a float32 copy, probabilities, noise, and Triton's buffer for top-k
/// and top-p; before 0.17 a full sort instead of the buffer.
PlanPart first_runner_sampler(const EngineArgs& args, const Step& s, const hardware::Gpu* gpu) {
  const Amount hidden_rows = s.tokens * s.hidden * s.element + s.rows * s.hidden * s.element * 2;
  const int64_t workspace = gemm_workspace(gpu);
  const int64_t copy = s.element == kFloat32 ? 0 : kFloat32;
  if (args.version < VllmVersion{0, 17, 0}) {
    const Amount bytes = s.rows * s.vocabulary * (s.element + 36) + hidden_rows + workspace;
    return {
        "sampler", bytes.value(),
        fmt::format(
            "{} rows x {} tokens x ({} + 36) B (logits sorted for top-k and top-p) + hidden "
            "states {} B + {} MiB",
            s.rows.value(), s.vocabulary.value(), s.element, hidden_rows.value(), workspace / kMiB),
        "vLLM before 0.17"};
  }
  const int64_t processors = gpu != nullptr && gpu->processors > 0 ? gpu->processors : 132;
  const Amount buffer = std::min(Amount{processors}, s.rows) * s.vocabulary * kFloat32;
  const Amount bytes =
      s.rows * s.vocabulary * (s.element + copy + 8) + hidden_rows + buffer + workspace;
  return {
      "sampler", bytes.value(),
      fmt::format("{} rows x {} tokens x ({} + {} + 4 + 4) B (logits, float32 copy, probabilities, "
                  "noise) + hidden states {} B + top-k buffer {} B + {} MiB",
                  s.rows.value(), s.vocabulary.value(), s.element, copy, hidden_rows.value(),
                  buffer.value(), workspace / kMiB),
      "vLLM 0.17 and later, first model runner"};
}

PlanPart second_runner_sampler(const Step& s) {
  const Amount bytes = s.rows * s.vocabulary * s.element + s.tokens * s.hidden * s.element;
  return {
      "sampler", bytes.value(),
      fmt::format("{} rows x {} tokens x {} B (logits; sampling is fused) + {} tokens x {} x {} B",
                  s.rows.value(), s.vocabulary.value(), s.element, s.tokens.value(),
                  s.hidden.value(), s.element),
      "vLLM's second model runner"};
}

/// Bytes of a step that no other figure counts: workspaces of products, and in the first engine
/// more of the allocator's.
int64_t fixed_bytes(const EngineArgs& args, const hardware::Gpu* gpu) {
  if (at_least_hopper(gpu)) return 80 * kMiB;
  return (args.version < VllmVersion{0, 8, 0} ? 72 : 8) * kMiB;
}

PlanPart forward_pass(const EngineArgs& args, const Step& s, const hardware::Gpu* gpu) {
  const int64_t fixed = fixed_bytes(args, gpu);
  // In float32 the product of gate and up is not written over one of them.
  const int64_t wide = s.element == kFloat32 ? 4 : 3;
  Amount bytes = s.tokens * s.element * (s.intermediate * wide + s.hidden * 3) + fixed;
  if (s.int8_activations) {
    // The inputs of the products with up and down are held in 16 and in 8 bits at once.
    const Amount copies = s.tokens * (s.intermediate + s.hidden);
    bytes += copies;
    return {"forward pass", bytes.value(),
            fmt::format("{} tokens x ({} B x ({} x {} + 3 x {}) + 1 B x ({} + {})) + {} MiB",
                        s.tokens.value(), s.element, wide, s.intermediate.value(), s.hidden.value(),
                        s.intermediate.value(), s.hidden.value(), fixed / kMiB),
            "gate and up, their product, attention output, residuals; 8-bit copies of inputs"};
  }
  return {"forward pass", bytes.value(),
          fmt::format("{} tokens x {} B x ({} x {} + 3 x {}) + {} MiB", s.tokens.value(), s.element,
                      wide, s.intermediate.value(), s.hidden.value(), fixed / kMiB),
          "gate and up, their product, attention output, residuals"};
}

/// Adds the tensors that pass between stages of a pipeline: hidden states and residuals, held where
/// they come in and where they go out; the first stage holds its embeddings besides (1.10 GiB
/// logged by 0.19 for the first of two stages of an 8B).
void pass_on(PlanPart& forward, const Step& s, const Stage& stage) {
  if (stage.first && stage.last) return;
  const int64_t held = (stage.first ? 1 : 2) + (stage.last ? 0 : 2);
  const Amount bytes = s.tokens * s.hidden * s.element * held;
  forward.bytes = (Amount{forward.bytes} + bytes).value();
  forward.formula += fmt::format(" + {} x {} tokens x {} x {} B between stages", held,
                                 s.tokens.value(), s.hidden.value(), s.element);
}

}  // namespace

bool uses_second_runner(const EngineArgs& args, const ModelShape& shape) {
  const VllmVersion& version = args.version;
  const std::string& method = args.draft_method;
  if (!args.second_runner.value_or(true)) return false;
  if (version >= VllmVersion{0, 29, 0}) {
    const bool drafts = method == "suffix" || method == "medusa" || method == "mlp_speculator" ||
                        method == "custom_class";
    const bool looks_back = method.starts_with("ngram") && version < VllmVersion{0, 32, 0};
    return !drafts && !looks_back;
  }
  if (shape.recurrent || shape.pooling || method.starts_with("ngram")) return false;
  const bool asked = args.second_runner.value_or(false);
  if (version >= VllmVersion{0, 25, 0} && (!shape.mixture || asked)) return true;
  const auto known = model::find_class(shape.architecture);
  return known && known->second_runner && version >= *known->second_runner;
}

std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const hardware::Gpu* gpu, const EncoderMemory& encoder) {
  const ModelShape& shape = stage.shape;
  const ActivationShape& sizes = shape.activation;
  const Step step{limits.max_num_batched_tokens,
                  sampler_rows(limits),
                  sizes.hidden,
                  sizes.vocabulary,
                  sizes.intermediate,
                  element,
                  sizes.int8_activations};
  const bool second = uses_second_runner(args, shape);
  PlanPart sampler = second ? second_runner_sampler(step) : first_runner_sampler(args, step, gpu);
  PlanPart forward = forward_pass(args, step, gpu);
  pass_on(forward, step, stage);
  std::vector<PlanPart> parts;
  const bool samples = stage.last && !shape.pooling;
  parts.push_back(samples && sampler.bytes >= forward.bytes ? sampler : forward);
  if (sizes.expert_intermediate > 0 && sizes.triton_experts) {
    const int64_t ranks = args.expert_parallel ? 1 : args.tensor_parallel;
    const Amount slice = sizes.expert_intermediate / std::max<int64_t>(1, ranks);
    const Amount width = std::max(slice, step.hidden) + std::max(slice * 2, step.hidden);
    const Amount bytes = step.tokens * sizes.experts_per_token * element * width;
    parts.push_back({"expert workspace", bytes.value(),
                     fmt::format("{} tokens x {} experts x {} B x {}", step.tokens.value(),
                                 sizes.experts_per_token, element, width.value()),
                     "Triton's experts"});
  }
  if (encoder.kept > 0) {
    parts.push_back(
        {"encoder outputs", encoder.kept, encoder.formula, "one batch of the largest items"});
  }
  Amount later = 0;
  for (const PlanPart& part : parts) later += part.bytes;
  const Amount own = Amount{encoder.peak} + encoder.kept;
  if (own > later) {
    return {
        {"encoder", encoder.peak, encoder.peak_formula, "the tower runs before the language model"},
        {"encoder outputs", encoder.kept, encoder.formula, "one batch of the largest items"}};
  }
  return parts;
}

int64_t non_torch_bytes(const EngineArgs& args, const hardware::Gpu* gpu) {
  const bool datacenter = at_least_hopper(gpu) && (gpu == nullptr || gpu->nvlink > 0);
  const VllmVersion& version = args.version;
  double gib = 0.05;                               // small cards: 0.02 to 0.07
  if (version < VllmVersion{0, 8, 0}) gib = 0.35;  // 0.6 on an RTX 3090
  if (datacenter) gib = version >= VllmVersion{0, 18, 0} ? 0.25 : 0.13;
  if (args.tensor_parallel > 1) {
    const bool fused = version >= VllmVersion{0, 16, 0} && datacenter;
    gib = fused ? (args.tensor_parallel == 2 ? 2.08 : 2.17) : 0.55;
  } else if (args.pipeline_parallel > 1) {
    gib = 0.07;
  }
  return static_cast<int64_t>(gib * static_cast<double>(kGiB));
}

int64_t context_bytes(const EngineArgs& args, const hardware::Gpu* gpu) {
  double gib = at_least_hopper(gpu) ? 0.51 : 0.40;
  if (args.tensor_parallel > 1) gib += at_least_hopper(gpu) ? 1.5 : 0.5;
  return static_cast<int64_t>(gib * static_cast<double>(kGiB));
}

int64_t graph_bytes(const GraphPlan& graphs, int64_t layers) {
  // Fitted on 102 graphs of 13 models on an H100: 5 MiB and 0.115 MiB for each layer.
  const double each = 5.0 + 0.115 * static_cast<double>(layers);
  return static_cast<int64_t>(each * static_cast<double>(kMiB) *
                              static_cast<double>(graphs.count()));
}

ExpertKernel expert_kernel(const VllmVersion& version, const hardware::Gpu* gpu) {
  const hardware::Architecture architecture = hardware::capability_of(gpu).architecture;
  if (architecture == hardware::Architecture::blackwell) {  // TensorRT-LLM's
    return {.hidden_multiple = 256,
            .intermediate_multiple = version < VllmVersion{0, 32, 0} ? 256 : 128};
  }
  if (architecture != hardware::Architecture::hopper) {  // Marlin's
    return {.hidden_multiple = 256, .intermediate_multiple = 128};
  }
  const bool padded = version >= VllmVersion{0, 17, 0} && version < VllmVersion{0, 22, 0};
  return {.intermediate_multiple = 64, .reordered = true, .padded_values = padded};  // Triton's
}

}  // namespace plimsoll::vllm
