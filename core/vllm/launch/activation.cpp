// Memory of a step beside weights and cache: measured laws of vLLM's profile run (the constants
// were fitted on logs of H100 cards and hold for others as far as noted).
#include "vllm/launch/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "base/amount.h"
#include "hardware/capability.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/sampler.h"
#include "vllm/launch/stage.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kTriesKernels{0, 12, 0};
constexpr VllmVersion kKeepsRoom{0, 14, 0};  // for experts; before: taken and let go in each layer
constexpr VllmVersion kSharesRoom{0, 8, 5};  // between experts' products; not yet in 0.7.3

/// Rows that the sampler sees at once.
int64_t sampler_rows(const EngineLimits& limits) {
  return std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
}

/// Bytes of a step that no other figure counts: workspaces of products, and in the first engine
/// more of the allocator's.
int64_t fixed_bytes(const EngineArgs& args, const hardware::Gpu* gpu) {
  const int64_t early = has_early_cublas(args) ? gemm_workspace(gpu) : 0;
  if (at_least_hopper(gpu)) return 80 * kMiB - early;
  return (runs_first_engine(args) ? 72 : 8) * kMiB - early;
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

/// Tokens whose experts are computed at once (envs.py: VLLM_FUSED_MOE_CHUNK_SIZE).
int64_t expert_chunk(const VllmVersion& version) {
  if (version < VllmVersion{0, 6, 0}) return 65536;
  if (version < VllmVersion{0, 12, 0}) return 32768;
  return version < VllmVersion{0, 19, 0} ? 16384 : std::numeric_limits<int64_t>::max();
}

/// Columns of the room for one token and expert: gate and up, their product, and what comes out.
Amount expert_columns(const VllmVersion& version, Amount slice, Amount hidden) {
  if (version < kSharesRoom) return slice * 3 + hidden;
  const Amount shared = std::max(slice * 2, hidden);  // by what goes in and what comes out
  return shared + (version < kKeepsRoom ? slice : std::max(slice, hidden));
}

/// Room for the products of Triton's experts, with the tokens of a step once for each expert.
PlanPart expert_room(const EngineArgs& args, const Step& s, const ActivationShape& sizes) {
  PlanPart room{"expert workspace", 0, "", "Triton's experts"};
  if (sizes.expert_intermediate <= 0 || !sizes.triton_experts) return room;
  const int64_t ranks = args.expert_parallel ? 1 : args.tensor_parallel;
  const Amount slice = sizes.expert_intermediate / std::max<int64_t>(1, ranks);
  const Amount width = expert_columns(args.version, slice, s.hidden);
  const Amount tokens = std::min(s.tokens, Amount{expert_chunk(args.version)});
  room.bytes = (tokens * sizes.experts_per_token * s.element * width).value();
  room.formula = fmt::format("{} tokens x {} experts x {} B x {}", tokens.value(),
                             sizes.experts_per_token, s.element, width.value());
  return room;
}

/// The step while attention runs, where vLLM's profile allocates what stands for the context.
PlanPart attention_pass(const AttentionRoom& room, int64_t fixed) {
  if (room.step.bytes == Amount{0}) return {};
  return {"attention", (room.step.bytes + fixed).value(),
          fmt::format("{} + {} MiB", room.step.formula, fixed / kMiB),
          "model_executor/layers: attention/mla_attention.py, sparse_attn_indexer.py"};
}

/// Bytes of the workspace that layers share which experts need.
int64_t expert_workspace(const EngineArgs& args, const Step& step, const ActivationShape& sizes) {
  return args.version < kKeepsRoom ? 0 : expert_room(args, step, sizes).bytes;
}

/// The workspace that layers share, beyond what experts need of it.
PlanPart workspace_part(const EngineArgs& args, const Step& step, const ActivationShape& sizes,
                        const AttentionRoom& room) {
  const int64_t experts = expert_workspace(args, step, sizes);
  PlanPart part{"attention workspace", std::max((room.shared.bytes - experts).value(), int64_t{0}),
                room.shared.formula, "v1/worker/workspace.py", true};
  if (experts > 0) part.formula += fmt::format(" - {} B that experts have of it", experts);
  return part;
}

void add_room(PlanPart& forward, const PlanPart& room) {
  if (room.bytes == 0) return;
  forward.bytes = (Amount{forward.bytes} + room.bytes).value();
  forward.formula += " + " + room.formula;
}

Step step_of(const EngineLimits& limits, const Stage& stage, int64_t element) {
  const ActivationShape& sizes = stage.shape.activation;
  return {limits.max_num_batched_tokens,
          sampler_rows(limits),
          sizes.hidden,
          sizes.vocabulary,
          sizes.intermediate,
          element,
          sizes.int8_activations};
}

/// A share of so many bytes, at most what two of them can be added to without overflow.
int64_t share_of(int64_t bytes, double share) {
  constexpr double kMost = 0x1p61;
  return static_cast<int64_t>(std::min(static_cast<double>(bytes) * share, kMost));
}

/// Dense models: logs of 26 on H100 cards lay within 0.3 %; layers of state and experts have
/// buffers that the formula does not name.
void spread_forward(PlanPart& forward, const ModelShape& shape) {
  const bool known = !shape.mixture && !shape.recurrent;
  forward.less = share_of(forward.bytes, known ? 0.02 : 0.2);
  forward.more = share_of(forward.bytes, known ? 0.05 : 1.0);
}

/// Towers: of Gemma 3 and Mistral 3 logs show nothing above the language model's peak; of
/// Qwen3-VL's on a GB10 twice the formula, of GLM-5.3-Flash's on eight H200 what it says without
/// outputs and normalized pixels (4.04 GiB logged). `above`: bytes by which the tower exceeds the
/// language model's peak, which is there in any case.
void spread_encoder(PlanPart& encoder, int64_t passing, Amount above) {
  encoder.less = std::max(share_of(encoder.bytes, 0.3), std::min(Amount{passing}, above).value());
  encoder.more = share_of(encoder.bytes, 1.3);
}

/// The first engine's states of recurrent layers: Mamba's are made by the first step for as many
/// sequences as a graph may have (mamba_cache.py), those of linear attention with the model, for as
/// many as a step may have (minimax_text_01.py).
PlanPart states_part(const EngineArgs& args, const EngineLimits& limits, const ModelShape& shape) {
  constexpr int64_t kGraphStep = 8;
  Amount each = 0;
  int64_t layers = 0;
  bool padded = !args.enforce_eager;
  for (const KvLayer& layer : shape.kv_layers) {
    if (layer.kind != KvKind::state) continue;
    padded = padded && layer.kernel != "lightning";
    each += layer.token_bytes;
    ++layers;
  }
  const Amount sequences =
      padded ? padded_to(limits.max_num_seqs, kGraphStep) : Amount{limits.max_num_seqs};
  return {"recurrent states", (each * sequences).value(),
          fmt::format("{} sequences x {} B of {} layers", sequences.value(), each.value(), layers),
          "model_executor/models/mamba_cache.py", true};
}

/// Indices of the keys that indexers choose, and their copies by the cache's blocks, of which each
/// has a row more (v1/attention/backends/mla/index_group.py).
PlanPart choice_part(const EngineArgs& args, const EngineLimits& limits, const Stage& stage) {
  constexpr VllmVersion kCopies{0, 30, 0};
  const ChoiceBuffers& choice = stage.shape.choice;
  const Amount tokens = limits.max_num_batched_tokens;
  Amount bytes = tokens * choice.token_bytes;
  std::string formula = fmt::format("{} tokens x {} B (indices of the keys that indexers choose)",
                                    tokens.value(), choice.token_bytes.value());
  if (choice.copies > 0 && args.version >= kCopies) {
    const Amount decoded = Amount{limits.max_num_seqs} * (Amount{args.draft_tokens} + 1);
    const Amount rows = (choice.whole_steps ? tokens : std::min(tokens, decoded)) + 1;
    bytes += rows * choice.row_bytes * choice.copies;
    formula += fmt::format(" + {} x {} rows x {} B", choice.copies, rows.value(),
                           choice.row_bytes.value());
  }
  return {"top-k indices", bytes.value(), std::move(formula), "topk_indices_buffer", true};
}

/// Whether requests may hold images, videos or sound: then embeddings are looked up outside the
/// compiled graph.
bool takes_items(const EngineArgs& args) {
  if (args.language_only) return false;
  return args.limits.empty() ||
         std::ranges::any_of(args.limits, [](const auto& limit) { return limit.second.count > 0; });
}

/// Adds what a draft with a model of its own keeps of a step: hidden states, embeddings, and the
/// residual streams that the model hands to it (v1/spec_decode/llm_base_proposer.py,
/// v1/worker/gpu/spec_decode/target_dependent_ar/speculator.py).
void add_draft_buffers(std::vector<PlanPart>& parts, const EngineArgs& args, const Stage& stage,
                       const Step& step, bool second) {
  constexpr VllmVersion kHidden{0, 9, 0}, kEmbeds{0, 10, 1};
  const DraftRows& draft = stage.shape.draft;
  if (draft.hidden > Amount{0} && args.version >= kHidden) {
    const bool images = draft.embeds_images && stage.shape.multimodal && takes_items(args);
    const bool embeds = second ? images : args.version >= kEmbeds;
    const Amount width = draft.hidden * (embeds ? 2 : 1);
    parts.push_back({"draft buffers", (step.tokens * width * step.element).value(),
                     fmt::format("{} tokens x {} x {} B (hidden states{})", step.tokens.value(),
                                 width.value(), step.element, embeds ? ", embeddings" : ""),
                     "v1/spec_decode", args.version >= kConsumed});
  }
  if (draft.handed == Amount{0}) return;
  parts.push_back({"hidden states for drafts", (step.tokens * draft.handed * step.element).value(),
                   fmt::format("{} tokens x {} x {} B (residual streams)", step.tokens.value(),
                               draft.handed.value(), step.element),
                   "_mtp_hidden_buffer of the model's class", true});
}

/// Whether the release compiles the model, with kernels that are tried beside each other on copies
/// of their inputs (config/compilation.py: benchmark_combo_kernel).
bool compiles(const EngineArgs& args) {
  return args.version >= kTriesKernels && compiles_model(args);
}

}  // namespace

std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const hardware::Gpu* gpu, const EncoderMemory& encoder,
                                       const AttentionRoom& attention) {
  const ModelShape& shape = stage.shape;
  const ActivationShape& sizes = shape.activation;
  const Step step = step_of(limits, stage, element);
  const bool second = uses_second_runner(args, shape);
  PlanPart sampler =
      second ? second_runner_sampler(args, step, gpu) : first_runner_sampler(args, step, gpu);
  PlanPart forward = forward_pass(args, step, gpu);
  pass_on(forward, step, stage);
  const PlanPart room = expert_room(args, step, sizes);
  if (args.version < kKeepsRoom) add_room(forward, room);
  PlanPart attended = attention_pass(attention, fixed_bytes(args, gpu));
  if (attended.bytes > 0) pass_on(attended, step, stage);
  if (attended.bytes > forward.bytes) forward = attended;
  spread_forward(forward, shape);
  std::vector<PlanPart> parts;
  const bool samples = stage.last && !shape.pools;
  if (samples && sampler.bytes >= forward.bytes) {
    sampler.less = std::min(sampler.less, sampler.bytes - forward.bytes);
    const Amount above = Amount{forward.bytes} + forward.more - sampler.bytes;
    sampler.more = std::max(sampler.more, above.value());
    parts.push_back(sampler);
  } else {
    parts.push_back(forward);
  }
  if (room.bytes > 0 && args.version >= kKeepsRoom) parts.push_back(room);
  if (encoder.kept > 0) {
    parts.push_back(
        {"encoder outputs", encoder.kept, encoder.formula, "one batch of the largest items"});
  }
  const Amount own = Amount{encoder.peak} + encoder.kept;
  if (own > bytes_of(parts)) {
    PlanPart tower{"encoder", encoder.peak, encoder.peak_formula,
                   "the tower runs before the language model"};
    spread_encoder(tower, encoder.passing, own - bytes_of(parts));
    return {tower,
            {"encoder outputs", encoder.kept, encoder.formula, "one batch of the largest items"}};
  }
  return parts;
}

int64_t cold_peak(const EngineArgs& args, const EngineLimits& limits, const Stage& stage,
                  int64_t element) {
  if (!compiles(args)) return 0;
  const Step step = step_of(limits, stage, element);
  const ModelShape& shape = stage.shape;
  if (!stage.first || (shape.multimodal && takes_items(args))) return 0;
  return (stage.embeddings + shape.adapted_table_bytes + step.tokens * step.hidden * element * 3)
      .value();
}

std::vector<PlanPart> persistent_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const AttentionRoom& attention) {
  const bool counted = args.version >= kConsumed;
  const ModelShape& shape = stage.shape;
  const Step step = step_of(limits, stage, element);
  std::vector<PlanPart> parts;
  const bool second = uses_second_runner(args, shape);
  if (second && stage.last && !shape.pools && !runs_first_engine(args)) {
    const Amount bytes = sampler_state(step, limits.max_num_seqs);
    parts.push_back({"sampler state", bytes.value(),
                     fmt::format("{} sequences x ({} tokens x (4 B + 1 bit) + 18048 B)",
                                 limits.max_num_seqs, step.vocabulary.value()),
                     "v1/worker/gpu/sample/penalties.py", counted});
  }
  if (counted && (!second || shape.multimodal)) {
    const Amount bytes = step.tokens * step.hidden * element;
    parts.push_back({"input buffers", bytes.value(),
                     fmt::format("{} tokens x {} x {} B (embeddings of a step)",
                                 step.tokens.value(), step.hidden.value(), element),
                     "v1/worker/gpu_model_runner.py: inputs_embeds", counted});
  }
  PlanPart workspace = workspace_part(args, step, shape.activation, attention);
  if (workspace.bytes > 0) parts.push_back(std::move(workspace));
  if (attention.own.bytes > Amount{0}) {
    parts.push_back({"attention's own workspace", attention.own.bytes.value(),
                     attention.own.formula, "vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py",
                     true});
  }
  if (shape.recurrent && runs_first_engine(args)) parts.push_back(states_part(args, limits, shape));
  if (shape.choice.token_bytes > Amount{0}) parts.push_back(choice_part(args, limits, stage));
  if (shape.looked_up_bytes > Amount{0}) {
    parts.push_back({"n-grams looked up", (step.tokens * shape.looked_up_bytes).value(),
                     fmt::format("{} tokens x {} B (embeddings of n-grams)", step.tokens.value(),
                                 shape.looked_up_bytes.value()),
                     "vllm/models/qwen4_exp: _prefetch_buffer", true});
  }
  if (stage.last) add_draft_buffers(parts, args, stage, step, second);
  return parts;
}

Amount shared_workspace(const EngineArgs& args, const EngineLimits& limits, const Stage& stage,
                        int64_t element, const AttentionRoom& attention) {
  const Step step = step_of(limits, stage, element);
  const Amount experts = expert_workspace(args, step, stage.shape.activation);
  return std::max(experts, attention.shared.bytes);
}

PlanPart graph_part(const GraphPlan& graphs, int64_t layers, bool flashinfer, bool plans) {
  // Fitted on 102 graphs of 13 models on an H100: 5 MiB and 0.115 MiB for each layer. FlashInfer's
  // workspace (envs.py: VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE) is taken when the first graph of a
  // whole step is captured.
  constexpr int64_t kWorkspace = 394 * kMiB;
  constexpr int64_t kPlan = 8 * kMiB;  // flashinfer/decode.py: _int_workspace_buffer
  const double each = 5.0 + 0.115 * static_cast<double>(layers);
  const int64_t planned = plans ? kPlan * graphs.full : 0;
  const int64_t workspace = flashinfer && graphs.full > 0 ? kWorkspace + planned : 0;
  const auto captured =
      static_cast<int64_t>(each * static_cast<double>(kMiB) * static_cast<double>(graphs.count()));
  PlanPart part{"cuda graphs", captured + workspace,
                fmt::format("{} graphs x (5 MiB + 0.115 MiB x {} layers){}", graphs.count(), layers,
                            workspace == 0 ? std::string()
                                           : fmt::format(" + {} MiB (FlashInfer's workspaces)",
                                                         workspace / kMiB)),
                ""};
  // A graph took 1.4 MiB (LFM2.5, a slice of an H100) to 20 MiB (Qwen3.6 27B on four H100) in logs,
  // a fifth of the formula and 1.6 times as much.
  part.less = share_of(captured, 0.8);
  part.more = share_of(captured, 0.6);
  return part;
}

ExpertKernel expert_kernel(const VllmVersion& version, const hardware::Gpu* gpu) {
  const hardware::Architecture architecture = hardware::capability_of(gpu).architecture;
  if (architecture == hardware::Architecture::blackwell) {  // TensorRT-LLM's
    return {.hidden_multiple = 256,
            .intermediate_multiple = version < VllmVersion{0, 32, 0} ? 256 : 128};
  }
  const bool triton = architecture == hardware::Architecture::hopper &&
                      version >= VllmVersion{0, 12, 0};  // before: a package of its own
  if (!triton) {                                         // Marlin's
    return {.hidden_multiple = 256, .intermediate_multiple = 128};
  }
  const bool padded = version >= VllmVersion{0, 17, 0} && version < VllmVersion{0, 22, 0};
  return {.intermediate_multiple = 64, .reordered = true, .padded_values = padded};  // Triton's
}

}  // namespace plimsoll::vllm
