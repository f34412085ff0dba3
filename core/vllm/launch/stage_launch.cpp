#include "vllm/launch/stage_launch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "vllm/launch/activation.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/messages.h"
#include "vllm/launch/tables.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kStartupSnapshot{0, 9, 1};  // before: the context counts as non-torch
constexpr VllmVersion kEstimatesGraphs{0, 18, 0};
constexpr VllmVersion kGraphsInBudget{0, 20, 0};
constexpr VllmVersion kSecondRunnerGraphs{0, 29, 0};

void fill_weights(StageFigures& figures, const Stage& stage, const EngineArgs& args) {
  figures.first_layer = stage.shape.first_layer;
  figures.layers = stage.shape.stage_layers;
  figures.parameter_bytes = stage.parameters.value();
  figures.buffer_bytes = stage.buffers.value();
  figures.after_loading_bytes = stage.shape.after_loading_bytes.value();
  figures.adapter_bytes = stage.adapters.value();
  figures.segment_bytes = stage.slack.value();
  figures.weights_bytes = (stage.parameters + stage.buffers + stage.shape.after_loading_bytes +
                           stage.adapters + stage.slack)
                              .value();
  figures.loading_peak_bytes = (stage.loading + stage.buffers + stage.slack).value();
  figures.parts = stage.parts;
  if (figures.after_loading_bytes > 0) {
    figures.parts.push_back({"weights: made after loading", figures.after_loading_bytes,
                             "what kernels keep beside the weights that they were made of",
                             "config.json, by release and card"});
  }
  if (stage.slack > Amount{0}) {
    figures.parts.push_back({"weights: segments", stage.slack.value(),
                             "rest of each large tensor's segment of 2 MiB, where at most 1 MiB",
                             "torch's allocator"});
  }
  if (stage.adapters > Amount{0}) {
    figures.parts.push_back({"weights: LoRA adapters", stage.adapters.value(),
                             fmt::format("{} slots of rank {}: (inputs + outputs) x rank of each "
                                         "linear layer",
                                         args.lora_slots, args.lora_rank),
                             "--max-loras, --max-lora-rank"});
  }
  figures.layer_bytes = stage.layer_bytes().value();
  figures.offloaded_bytes = std::min(args.cpu_offload, figures.layer_bytes);
  if (figures.offloaded_bytes > 0) {
    figures.parts.push_back({"weights: offloaded to the host", -figures.offloaded_bytes,
                             "--cpu-offload-gb, at most all layers", "flag"});
  }
}

void fill_activations(StageFigures& figures, std::vector<PlanPart> parts) {
  for (PlanPart& part : parts) {
    figures.activation_peak_bytes = (Amount{figures.activation_peak_bytes} + part.bytes).value();
    part.name = "activation: " + part.name;
    figures.parts.push_back(std::move(part));
  }
}

void fill_persistent(StageFigures& figures, std::vector<PlanPart> parts) {
  for (PlanPart& part : parts) {
    if (part.inside_budget)
      figures.persistent_bytes = (Amount{figures.persistent_bytes} + part.bytes).value();
    figures.parts.push_back(std::move(part));
  }
}

void fill_outside_torch(StageFigures& figures, const WholeLaunch& whole) {
  const VllmVersion& version = whole.args.version;
  PlanPart part = non_torch_part(whole.args, whole.gpu, whole.shape.recurrent);
  if (!runs_first_engine(whole.args) && version < kStartupSnapshot) {
    part.bytes += context_bytes(whole.args, whole.gpu) + whole.args.reserved;
  }
  figures.non_torch_bytes = part.bytes;
  figures.parts.push_back(std::move(part));
}

/// The graphs' memory; returns whether the release takes it from the budget.
bool fill_graphs(StageLaunch& launch, const Stage& stage, const WholeLaunch& whole) {
  const GraphPlan graphs = plan_graphs(whole.args, whole.terms.limits, whole.gpu, stage.shape);
  StageFigures& figures = launch.figures;
  launch.graphs = graphs.count();
  if (graphs.count() == 0) return false;
  const bool flashinfer =
      attends_with_flashinfer(whole.args, whole.gpu, whole.shape, whole.fp8_cache);
  const bool plans = flashinfer && plans_each_graph(whole.args, whole.gpu);
  PlanPart part = graph_part(graphs, stage.shape.stage_layers, flashinfer, plans);
  figures.cuda_graph_bytes = part.bytes;
  const VllmVersion& version = whole.args.version;
  const bool second = uses_second_runner(whole.args, whole.shape);
  part.inside_budget = whole.args.estimate_graphs.value_or(version >= kGraphsInBudget) &&
                       version >= kEstimatesGraphs && (!second || version >= kSecondRunnerGraphs);
  part.source = part.inside_budget ? "estimated and reserved by this version"
                                   : "captured outside the budget in this version";
  figures.parts.push_back(std::move(part));
  return figures.parts.back().inside_budget;
}

/// The budget's share that drivers of one card differ by (an A100 of 40 GB: 39.49 GiB in eight
/// logs, 39.39 by driver 535 in three; an RTX 3090: 23.65 and 23.56), and the weights' slack in
/// segments of the allocator: logs of 34 models lay 0.4 % above the parameters at most, of
/// quantized ones 2 %.
void add_spreads(const StageFigures& figures, const WholeLaunch& whole, double& below,
                 double& above) {
  const auto weights = static_cast<double>(figures.weights_bytes);
  const auto budget = static_cast<double>(budget_bytes(whole.terms.limits, *whole.gpu));
  const bool quantized = !whole.terms.quantization.method().empty();
  const double slack = weights * (quantized ? 0.02 : 0.005);
  const double total = budget * 0.004;
  below += slack * slack + total * total;
  const double less = weights * (quantized ? 0.005 : 0.003);
  above += less * less + total * total;
}

/// How far what is left for the cache may lie from its middle: the squares of independent parts add
/// up; of what is installed or not, the whole difference counts.
void fill_spread(StageLaunch& launch, const WholeLaunch& whole) {
  double below = 0;
  double above = 0;
  add_spreads(launch.figures, whole, below, above);
  // A GB10 with older firmware has 119.63 to 119.70 GiB in six logs of vLLM.
  double cases_below = is_spark(whole.gpu) ? 2.0 * static_cast<double>(kGiB) : 0;
  double cases_above = 0;
  for (const PlanPart& part : launch.figures.parts) {
    if (!part.inside_budget) continue;
    const auto more = static_cast<double>(part.more);
    const auto less = static_cast<double>(part.less);
    if (part.either) {
      cases_below += more;
      cases_above += less;
      continue;
    }
    below += more * more;
    above += less * less;
  }
  constexpr double kMost = 0x1p61;
  launch.less = static_cast<int64_t>(std::min(std::sqrt(below) + cases_below, kMost));
  launch.more = static_cast<int64_t>(std::min(std::sqrt(above) + cases_above, kMost));
}

}  // namespace

int64_t budget_bytes(const EngineLimits& limits, const hardware::Gpu& gpu) {
  return static_cast<int64_t>(
      std::ceil(static_cast<double>(gpu.visible_bytes()) * limits.utilization));
}

StageLaunch launch_stage(const Stage& stage, const WholeLaunch& whole) {
  StageLaunch launch;
  StageFigures& figures = launch.figures;
  fill_weights(figures, stage, whole.args);
  launch.encoder = encoder_memory(whole.args, whole.terms.limits, stage.shape, whole.terms.element,
                                  whole.terms.max_model_len);
  const AttentionRoom attention =
      attention_room(whole.args, whole.terms.limits, whole.terms.max_model_len, whole.terms.element,
                     stage.shape, whole.gpu);
  fill_activations(figures,
                   activation_parts(whole.args, whole.terms.limits, stage, whole.terms.element,
                                    whole.gpu, launch.encoder, attention));
  fill_persistent(figures, persistent_parts(whole.args, whole.terms.limits, stage,
                                            whole.terms.element, attention));
  fill_persistent(figures, table_parts(Made::before_profile,
                                       {.args = whole.args,
                                        .limits = whole.terms.limits,
                                        .element = whole.terms.element,
                                        .max_model_len = whole.terms.max_model_len,
                                        .last = stage.last},
                                       stage.shape, whole.kv));
  launch.late = attention.late;
  launch.workspace =
      shared_workspace(whole.args, whole.terms.limits, stage, whole.terms.element, attention);
  figures.cold_peak_bytes = cold_peak(whole.args, whole.terms.limits, stage, whole.terms.element);
  fill_outside_torch(figures, whole);
  const bool counted = fill_graphs(launch, stage, whole);
  if (whole.gpu == nullptr) return launch;
  launch.left = Amount{budget_bytes(whole.terms.limits, *whole.gpu)} - figures.weights_bytes +
                figures.offloaded_bytes - figures.activation_peak_bytes - figures.non_torch_bytes -
                figures.persistent_bytes;
  if (counted) launch.left -= figures.cuda_graph_bytes;
  fill_spread(launch, whole);
  return launch;
}

std::string start_refusal(const EngineArgs& args, const EngineLimits& limits,
                          const hardware::Gpu& gpu, const StageFigures& stage,
                          Amount bytes_per_block) {
  const int64_t total = gpu.visible_bytes();
  const int64_t free = total - context_bytes(args, &gpu) - args.reserved;
  const int64_t budget = budget_bytes(limits, gpu);
  if (args.version >= kStartupSnapshot && free < budget) {
    return not_free_message(args.version, free, total, limits.utilization, budget);
  }
  // vLLM offloads each layer as soon as it is made, so at most one layer stands on the card
  // besides.
  const int64_t kept = stage.weights_bytes - stage.offloaded_bytes;
  const int64_t layer = stage.layer_bytes / std::max<int64_t>(stage.layers, 1);
  const int64_t loading = kept + std::min(layer, stage.offloaded_bytes);
  const int64_t peak = stage.loading_peak_bytes - stage.offloaded_bytes;
  if (std::max(loading, peak) > total) {
    return fmt::format(
        "CUDA out of memory while loading: weights of {} GiB per GPU{}{} on a card of {} GiB.",
        format_gib(std::max(loading, peak)),
        stage.offloaded_bytes > 0 ? " beside what is offloaded" : "",
        peak > loading ? ", with what is quantized or reordered meanwhile," : "",
        format_gib(total));
  }
  if (args.blocks_override == 0 && args.kv_cache_memory == 0) return "";
  // vLLM allocates the stated bytes without a look at the memory that is left.
  const Amount rest = Amount{kept} + stage.activation_peak_bytes + stage.non_torch_bytes +
                      stage.persistent_bytes + args.reserved;
  const Amount cache =
      std::max(Amount{stage.kv_cache_bytes}, bytes_per_block * stage.num_gpu_blocks);
  if (rest + cache <= Amount{total}) return "";
  return fmt::format(
      "CUDA out of memory: a KV cache of {} GiB, as {} asks, beside {} GiB of weights, activations "
      "and the rest, on a card of {} GiB.",
      format_gib(cache.value()),
      args.blocks_override > 0 ? "--num-gpu-blocks-override" : "--kv-cache-memory-bytes",
      format_gib(rest.value()), format_gib(total));
}

}  // namespace plimsoll::vllm
