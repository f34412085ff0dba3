#include "cli/plan/own_launch.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_footprint.h"
#include "base/error.h"
#include "plan/amount.h"
#include "shard/rank_model.h"

namespace plimsoll::cli {
namespace {

/// What sizes depend on, of a card; the backend's own where the catalogue does not know it.
backend::CardFigures figures_of(const plan::Gpu& gpu) {
  backend::CardFigures figures;
  if (gpu.compute_capability > 0) {
    figures.compute_capability = static_cast<int32_t>(std::lround(gpu.compute_capability * 10));
  }
  if (gpu.processors > 0) figures.processors = static_cast<int32_t>(gpu.processors);
  return figures;
}

std::vector<memory::Overhead> overheads_of(const model::ModelSpec& spec, const plan::Gpu& gpu,
                                           size_t graphs, int64_t ranks) {
  const backend::CardFigures figures = figures_of(gpu);
  memory::OverheadShape shape;
  shape.compute_capability = figures.compute_capability;
  shape.processors = figures.processors;
  shape.layers = std::ssize(spec.layers);
  shape.experts = std::ranges::any_of(spec.layers, [](const model::LayerSpec& layer) {
    return layer.mlp.kind == model::MlpKind::experts;
  });
  shape.graphs = static_cast<int64_t>(graphs);
  std::vector<memory::Overhead> overheads = memory::device_overheads(shape);
  if (ranks > 1) {
    overheads.push_back(
        {"collectives", size_t{1} << 30, "NCCL's channels and buffers", memory::Origin::estimate});
  }
  return overheads;
}

/// A launch whose pool is as large as its steps can use: what is beside the pool does not depend on
/// it.
engine::EngineOptions with_room(engine::EngineOptions options, int64_t length) {
  options.kv_cache_bytes = uint64_t{1} << 60;
  options.num_kv_blocks.reset();
  options.max_model_len = length > 0 ? length : options.max_model_len;
  options.auto_model_len = false;
  return options;
}

RankLaunch lay_out(const model::ModelSpec& spec, const engine::EngineOptions& options,
                   const backend::Footprint& footprint) {
  RankLaunch rank;
  rank.layers = std::ssize(spec.layers);
  rank.layout = engine::resolve_layout(spec, options, footprint);
  rank.plan = engine::plan_layout(spec, rank.layout, footprint);
  for (const model::LayerSpec& layer : spec.layers) {
    rank.windows.push_back(layer.attention.window);
    rank.page_bytes.push_back(static_cast<int64_t>(
        footprint.kv_bytes(layer.attention, rank.layout.kv.block_size, rank.layout.kv.dtype)));
  }
  return rank;
}

/// The whole vocabulary's logits, where every rank computes its own rows.
int64_t gathered_logits(const model::ModelSpec& spec, const RankLaunch& rank, int64_t ranks) {
  if (ranks == 1) return 0;
  return (plan::Amount{rank.layout.limits.logits_rows} * spec.vocab_size * 4).value();
}

int64_t absent_bytes(const shard::RankModel& rank, const backend::Footprint& footprint,
                     DType dtype) {
  size_t bytes = 0;
  for (size_t i = 0; i < rank.present.size(); ++i) {
    if (rank.present[i]) continue;
    bytes += memory::Arena::aligned(footprint.weight_bytes(rank.spec.weights[i], dtype));
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

int64_t RankLaunch::fixed_bytes() const {
  plan::Amount bytes = plan::Amount{gathered_bytes} - absent_weight_bytes;
  for (const memory::Region& region : plan.regions) {
    if (region.name != "kv blocks") bytes += static_cast<int64_t>(region.bytes);
  }
  for (const memory::Overhead& overhead : overheads) bytes += static_cast<int64_t>(overhead.bytes);
  return bytes.value();
}

std::unique_ptr<backend::Footprint> device_footprint(const plan::Gpu* gpu) {
  if (gpu == nullptr) return nullptr;
  return std::make_unique<backend::CudaFootprint>(figures_of(*gpu));
}

engine::EngineOptions own_engine_options(const PlanOptions& options, DType dtype) {
  const plan::EngineArgs& args = options.args;
  engine::EngineOptions engine;
  engine.dtype = dtype;
  engine.threads = options.threads.value_or(1);
  engine.max_model_len = std::max<int64_t>(0, args.max_model_len);
  engine.auto_model_len = args.max_model_len == -1;
  engine.max_num_seqs = args.max_num_seqs;
  engine.max_num_batched_tokens = args.max_num_batched_tokens;
  if (args.block_size > 0) engine.block_size = args.block_size;
  if (args.blocks_override > 0) engine.num_kv_blocks = args.blocks_override;
  if (args.enforce_eager) {
    engine.capture_sizes.emplace();
  } else {
    engine.capture_sizes = args.capture_sizes;
  }
  if (args.kv_cache_dtype == "fp8" || args.kv_cache_dtype == "fp8_e4m3") {
    engine.kv_dtype = DType::f8_e4m3;
  } else if (args.kv_cache_dtype != "auto") {
    engine.kv_dtype = dtype_from_torch(args.kv_cache_dtype);
    if (!engine.kv_dtype) {
      fail(ExitCode::usage,
           "--kv-cache-dtype {}: our own engine has auto, fp8 (e4m3) and the model's dtype; "
           "--engine vllm plans it for vLLM",
           args.kv_cache_dtype);
    }
  }
  return engine;
}

std::vector<RankLaunch> lay_out_ranks(const model::ModelSpec& spec, const PlanOptions& options,
                                      DType dtype, const plan::Gpu* gpu, int64_t length) {
  const std::unique_ptr<backend::Footprint> card = device_footprint(gpu);
  const backend::Footprint& footprint = card ? *card : backend::cpu_footprint();
  const engine::EngineOptions engine = with_room(own_engine_options(options, dtype), length);
  const int64_t tensor = options.args.tensor_parallel;
  const int64_t stages = options.args.pipeline_parallel;
  std::vector<RankLaunch> ranks;
  const auto finish = [&](RankLaunch rank, const model::ModelSpec& own) {
    if (gpu != nullptr) {
      rank.overheads = overheads_of(own, *gpu, rank.layout.recorded_sizes.size(), tensor * stages);
    }
    rank.stage = std::ssize(ranks);
    ranks.push_back(std::move(rank));
  };
  if (tensor == 1 && stages == 1) {
    finish(lay_out(spec, engine, footprint), spec);
    return ranks;
  }
  for (const shard::RankModel& model : shard::rank_models(
           spec, {.tensor_parallel = tensor, .pipeline_parallel = stages, .dtype = dtype})) {
    RankLaunch rank = lay_out(model.spec, engine, footprint);
    rank.absent_weight_bytes = absent_bytes(model, footprint, dtype);
    rank.gathered_bytes = gathered_logits(spec, rank, tensor);
    finish(std::move(rank), model.spec);
  }
  return ranks;
}

}  // namespace plimsoll::cli
