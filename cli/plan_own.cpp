// Our own engine's launch, planned by its own constructors. On a card the sizes are those of the
// same layout with every tensor in the model's dtype; the CUDA backend's own kernels are not there
// yet, so what they add is taken from measurements of the hardware and said to be an estimate.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/layout.h"
#include "model/config.h"
#include "plan/amount.h"
#include "plan/vllm_plan.h"
#include "plan_parts.h"

namespace plimsoll::cli {
namespace {

using plan::Amount;
using plan::kMiB;

/// Sizes of one tensor-parallel rank on a card: weights and cache in the run's dtype.
class CardFootprint : public backend::Footprint {
 public:
  explicit CardFootprint(int64_t ranks) : ranks_(ranks) {}
  [[nodiscard]] std::string_view name() const override { return "card"; }
  [[nodiscard]] DType activation_dtype(DType model) const override { return model; }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override {
    const auto elements = static_cast<uint64_t>(spec.elements());
    const auto ranks = static_cast<uint64_t>(ranks_);
    const uint64_t own =
        spec.split == model::Split::replicated ? elements : (elements + ranks - 1) / ranks;
    return own * dtype_size(dtype);
  }
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override {
    const int64_t heads = std::max<int64_t>(1, spec.kv_heads / ranks_);  // replicated beyond that
    return static_cast<size_t>(2 * heads * spec.head_dim * block_size) * dtype_size(dtype);
  }
  [[nodiscard]] size_t linear_workspace(int64_t, const model::WeightSpec&, DType) const override {
    return static_cast<size_t>(32 * kMiB);  // what NVIDIA recommends for GEMM on Hopper
  }
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType dtype) const override {
    const int64_t slice = mlp.intermediate / ranks_;
    return static_cast<size_t>(rows * mlp.experts_per_token * (2 * slice + slice + hidden)) *
           dtype_size(dtype);
  }
  [[nodiscard]] size_t attention_workspace(int64_t, int64_t sequences,
                                           const model::AttentionSpec& spec) const override {
    constexpr int64_t kSplits = 32;  // partial sums of long sequences, float32
    return static_cast<size_t>(std::min<int64_t>(sequences, 132) * kSplits * spec.heads / ranks_ *
                               (spec.head_dim + 2) * 4);
  }

 private:
  int64_t ranks_;
};

/// What lies outside the arena on a card (measured on Hopper with CUDA 12), and how sure that is.
std::vector<plan::PlanPart> overheads(const model::ModelSpec& spec, const plan::EngineArgs& args) {
  std::vector<plan::PlanPart> parts;
  parts.push_back({"driver context", 527 * kMiB, "one context", "measured on an H200"});
  parts.push_back({"kernel modules", 160 * kMiB, "all kernels loaded before the launch",
                   "estimate, upper bound"});
  if (!args.enforce_eager) {
    constexpr int64_t kGraphs = 43;
    constexpr int64_t kNodesPerLayer = 9;
    const auto nodes = static_cast<int64_t>(spec.layers.size()) * kNodesPerLayer + 36;
    parts.push_back({"cuda graphs", kGraphs * nodes * 1536,
                     fmt::format("{} graphs x {} nodes x 1.5 KiB", kGraphs, nodes),
                     "measured bytes of a node"});
  }
  if (args.tensor_parallel > 1) {
    parts.push_back({"collectives", 1024 * kMiB, "NCCL with its channels and buffers",
                     "estimate, upper bound"});
  }
  parts.push_back({"uncertainty", 128 * kMiB,
                   "kept free, since the CUDA backend is not there to be measured", "safe side"});
  return parts;
}

engine::EngineOptions engine_options(const PlanOptions& options, const model::ModelSpec& spec,
                                     DType dtype) {
  const plan::EngineArgs& args = options.args;
  engine::EngineOptions engine;
  engine.dtype = dtype;
  engine.max_model_len = std::max<int64_t>(0, args.max_model_len);
  engine.auto_model_len = args.max_model_len == -1;
  engine.max_num_seqs = args.max_num_seqs;
  engine.max_num_batched_tokens = args.max_num_batched_tokens;
  if (args.block_size > 0) engine.block_size = args.block_size;
  if (args.blocks_override > 0) engine.num_kv_blocks = args.blocks_override;
  static_cast<void>(spec);
  return engine;
}

void check_supported(const PlanOptions& options) {
  const plan::EngineArgs& args = options.args;
  const auto refuse = [](const char* flag) {
    fail(ExitCode::usage,
         "{}: our own engine does not have it yet; --engine vllm plans it for vLLM", flag);
  };
  if (!args.quantization.empty()) refuse("--quantization");
  if (args.kv_cache_dtype != "auto") refuse("--kv-cache-dtype");
  if (args.cpu_offload > 0) refuse("--cpu-offload-gb");
  if (args.pipeline_parallel > 1) refuse("--pipeline-parallel-size");
}

void fill_layout(plan::PlanResult& result, const model::ModelSpec& spec,
                 const engine::EngineLayout& layout, const backend::Footprint& footprint,
                 DType dtype) {
  std::map<int64_t, plan::KvKindCount> kinds;  // by window
  Amount per_token = 0;
  for (const model::LayerSpec& layer : spec.layers) {
    plan::KvKindCount& kind = kinds[layer.attention.window];
    const auto page =
        static_cast<int64_t>(footprint.kv_bytes(layer.attention, layout.kv.block_size, dtype));
    kind.spec = {layer.attention.window > 0 ? plan::KvKind::sliding : plan::KvKind::full,
                 layout.kv.block_size,
                 page,
                 page,
                 layer.attention.window,
                 ""};
    ++kind.layers;
    if (layer.attention.window == 0) per_token += page / layout.kv.block_size;
  }
  for (const auto& [window, kind] : kinds) result.kv_kinds.push_back(kind);
  std::vector<int64_t> sizes(layout.kv.groups.size(), 0);
  for (const int32_t group : layout.kv.layer_group) ++sizes[static_cast<size_t>(group)];
  result.group_sizes = sizes;
  result.kv_bytes_per_token = per_token.value();
  result.block_size = layout.kv.block_size;
  result.bytes_per_block = static_cast<int64_t>(layout.kv.block_bytes);
  for (const engine::KvGroup& group : layout.kv.groups) {
    plan::GroupNeed& need = result.group_needs.emplace_back();
    need.block_size = layout.kv.block_size;
    if (group.window == 0) continue;
    // The most that engine::blocks_of_sequence says for any length.
    const int64_t seen = group.window - 1 + layout.limits.batched_tokens;
    need.most_blocks = (seen - 1 + layout.kv.block_size - 1) / layout.kv.block_size + 1;
  }
}

void fill_regions(plan::PlanResult& result, const engine::EnginePlan& plan) {
  for (const memory::Region& region : plan.regions) {
    const auto bytes = static_cast<int64_t>(region.bytes);
    if (region.name == "kv blocks") continue;
    if (region.name == "weights")
      result.parameter_bytes += bytes;
    else
      result.activation_peak_bytes += bytes;
    result.parts.push_back(
        {region.name, bytes, "laid out by the engine's own constructors", "the engine's ledger"});
  }
  result.weights_bytes = result.parameter_bytes;
}

void fill_cache(plan::PlanResult& result, const engine::EngineLayout& layout, int64_t blocks,
                const PlanOptions& options) {
  const auto bytes = static_cast<int64_t>(layout.kv.block_bytes);
  const int64_t batched = layout.limits.batched_tokens;
  const auto need = [&](int64_t length) {
    return engine::blocks_of_sequence(layout.kv, length, batched);
  };
  result.has_kv = true;
  result.num_gpu_blocks = std::max<int64_t>(0, blocks);
  result.kv_cache_bytes = (Amount{result.num_gpu_blocks} * bytes).value();
  int64_t low = 0;
  int64_t high = result.max_model_len;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (need(middle) <= blocks)
      low = middle;
    else
      high = middle - 1;
  }
  result.estimated_max_model_len = low;
  const bool whole = low == result.max_model_len;
  if (!whole && low > 0) result.auto_max_model_len = low;
  const int64_t counted = whole || low == 0 ? result.max_model_len : low;
  result.max_concurrency = static_cast<double>(result.num_gpu_blocks) /
                           static_cast<double>(std::max<int64_t>(1, need(counted)));
  result.kv_tokens = static_cast<int64_t>(result.max_concurrency * static_cast<double>(counted));
  result.fits = whole || (options.args.max_model_len == -1 && low > 0);
  if (!*result.fits) {
    result.reason =
        fmt::format("One sequence of {} tokens needs {} KV blocks of {} bytes, and {} are left{}.",
                    result.max_model_len, need(result.max_model_len), bytes, result.num_gpu_blocks,
                    low > 0 ? fmt::format("; --max-model-len {} (or auto) would fit", low) : "");
  }
  result.parts.push_back({"kv cache", result.kv_cache_bytes,
                          fmt::format("{} blocks x {} B", result.num_gpu_blocks, bytes),
                          "what is left of the budget"});
}

void plan_card(plan::PlanResult& result, const PlanOptions& options, const model::ModelSpec& spec,
               const engine::EngineLayout& layout, const plan::Gpu& gpu) {
  result.gpu = gpu.name;
  result.total_bytes = gpu.visible_bytes();
  constexpr double kUtilization = 0.90;
  const double share =
      options.args.gpu_memory_utilization > 0 ? options.args.gpu_memory_utilization : kUtilization;
  result.gpu_memory_utilization = share;
  result.budget_bytes = static_cast<int64_t>(static_cast<double>(result.total_bytes) * share);
  Amount left = result.budget_bytes;
  for (plan::PlanPart& part : overheads(spec, options.args)) {
    if (part.name == "cuda graphs")
      result.cuda_graph_bytes = part.bytes;
    else
      result.non_torch_bytes += part.bytes;
    result.parts.push_back(std::move(part));
  }
  for (const plan::PlanPart& part : result.parts) left -= part.bytes;
  if (options.args.kv_cache_memory > 0) left = std::min(left, Amount{options.args.kv_cache_memory});
  if (options.args.available_kv > 0) left = options.args.available_kv;
  int64_t blocks = std::max<int64_t>(0, left.value()) / static_cast<int64_t>(layout.kv.block_bytes);
  if (options.args.blocks_override > 0) blocks = options.args.blocks_override;
  fill_cache(result, layout, blocks, options);
  result.notes.emplace_back(
      "the CUDA backend is not built yet: weights and cache are exact, scratch and overheads are "
      "an "
      "estimate on the safe side");
}

}  // namespace

plan::PlanResult plan_own_engine(const plan::ConfigView& config, const PlanOptions& options,
                                 const plan::Gpu* gpu) {
  check_supported(options);
  model::ModelSpec spec;
  try {
    spec = model::make_model_spec(config.json());
  } catch (const Error& error) {
    fail(error.code(), "{} (run cannot launch it; --engine vllm plans it for vLLM)", error.what());
  }
  const DType dtype = options.args.dtype == "auto"
                          ? spec.dtype
                          : dtype_from_torch(options.args.dtype).value_or(spec.dtype);
  const int64_t ranks = options.args.tensor_parallel;
  for (const model::LayerSpec& layer : spec.layers) {
    if (layer.attention.heads % ranks == 0) continue;
    fail(ExitCode::usage, "--tensor-parallel-size {}: {} attention heads cannot be divided by it",
         ranks, layer.attention.heads);
  }
  const CardFootprint card(ranks);
  const backend::Footprint& footprint =
      gpu != nullptr ? static_cast<const backend::Footprint&>(card) : backend::cpu_footprint();
  engine::EngineOptions engine = engine_options(options, spec, dtype);
  const bool sized = options.args.kv_cache_memory > 0 && gpu == nullptr;
  if (sized) engine.kv_cache_bytes = static_cast<uint64_t>(options.args.kv_cache_memory);
  // The fixed regions do not depend on the pool: they are laid out with room for everything.
  engine::EngineOptions roomy = engine;
  roomy.kv_cache_bytes = uint64_t{1} << 60;
  roomy.num_kv_blocks.reset();
  const engine::EngineLayout layout = engine::resolve_layout(spec, roomy, footprint);
  const engine::EnginePlan laid_out = engine::plan_layout(spec, layout, footprint);

  plan::PlanResult result;
  result.engine = "plimsoll";
  result.version = PLIMSOLL_VERSION;
  result.architecture = spec.architecture;
  result.dtype = torch_name(dtype);
  result.gpus = ranks * options.args.data_parallel;
  result.max_model_len = layout.max_model_len;
  result.max_num_seqs = layout.limits.sequences;
  result.max_num_batched_tokens = layout.limits.batched_tokens;
  fill_layout(result, spec, layout, footprint, dtype);
  fill_regions(result, laid_out);
  if (gpu != nullptr) {
    plan_card(result, options, spec, layout, *gpu);
    return result;
  }
  const auto pool = static_cast<int64_t>(engine.kv_cache_bytes / layout.kv.block_bytes);
  fill_cache(result, layout, engine.num_kv_blocks.value_or(std::min(pool, laid_out.num_kv_blocks)),
             options);
  if (!*result.fits) result.notes.push_back("a run on this CPU would refuse: " + result.reason);
  result.reason.clear();
  result.fits.reset();  // no card, no verdict
  return result;
}

}  // namespace plimsoll::cli
