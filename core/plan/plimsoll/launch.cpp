#include "plan/plimsoll/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/footprint.h"
#include "backend/cuda/step_nodes.h"
#include "base/amount.h"
#include "base/error.h"
#include "base/ggml/types.h"
#include "launch/images.h"
#include "memory/arena.h"
#include "plan/report/report.h"

namespace plimsoll::plan::own {
namespace {

/// A card's figures that sizes depend on; the backend's own where the catalogue does not know them.
backend::CardFigures figures_of(const hardware::Gpu& gpu, const Arguments& arguments) {
  backend::CardFigures figures{.deterministic = arguments.deterministic};
  if (gpu.compute_capability > 0) {
    figures.compute_capability = static_cast<int32_t>(std::lround(gpu.compute_capability * 10));
  }
  if (gpu.processors > 0) figures.processors = static_cast<int32_t>(gpu.processors);
  return figures;
}

/// A launch whose pool is as large as its steps can use: what is beside the pool does not depend on
/// it.
engine::EngineOptions with_room(engine::EngineOptions options, int64_t length) {
  options.kv_cache_bytes = uint64_t{1} << 60;
  options.num_kv_blocks.reset();
  options.kv_cache_memory.reset();
  options.max_model_len = length > 0 ? length : options.max_model_len;
  options.auto_model_len = false;
  return options;
}

/// Bytes and number of the file's tensors of each type of blocks, the largest first.
std::string block_types(const model::ModelSpec& spec) {
  struct Share {
    int64_t bytes = 0;
    std::set<std::string> tensors;
  };
  std::map<std::string_view, Share> types;
  for (const model::WeightSpec& weight : spec.weights) {
    for (const model::Part& part : weight.parts) {
      if (!part.packing || part.packing->format != model::PackedFormat::ggml) continue;
      Share& share = types[part.packing->block_type().name];
      const int64_t bytes = part.rows() * part.packing->block_row_bytes(weight.columns());
      // F64 is kept as floats, which take half.
      share.bytes += part.packing->blocks == GgmlType::f64 ? bytes / 2 : bytes;
      share.tensors.insert(part.tensor);
    }
  }
  std::vector<std::pair<std::string_view, Share>> sorted(types.begin(), types.end());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& type) { return type.second.bytes; });
  std::string text;
  for (const auto& [name, share] : sorted) {
    text += fmt::format("{}{} {} in {} tensors", text.empty() ? "" : ", ", name,
                        readable_bytes(share.bytes), share.tensors.size());
  }
  return text;
}

/// Bytes of the region of `blocks` blocks.
int64_t region_bytes(int64_t blocks, size_t block_bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(memory::Arena::kAlignment);
  const Amount bytes = Amount{blocks} * static_cast<int64_t>(block_bytes);
  return (ceil_div(bytes, kAlignment) * kAlignment).value();
}

RankLaunch describe(const model::ModelSpec& spec, engine::EngineLayout layout,
                    const backend::Footprint& footprint) {
  RankLaunch rank;
  rank.layers = std::ssize(spec.layers);
  rank.block_types = block_types(spec);
  rank.layout = std::move(layout);
  rank.plan = engine::plan_layout(spec, rank.layout, footprint);
  for (const model::LayerSpec& layer : spec.layers) {
    rank.windows.push_back(layer.attention.window);
    const engine::KvLayout& kv = rank.layout.kv;
    const size_t page = engine::layer_block(layer, kv.block_size, kv.dtype, footprint).bytes;
    rank.page_bytes.push_back(static_cast<int64_t>(page));
  }
  return rank;
}

/// Adds the memory that the first rank of each stage needs where processes share the ranks. Changes
/// nothing where the number of processes does not divide that of ranks, which run refuses.
void spread_stages(std::vector<engine::EngineLayout>& stages, int64_t tensor, int64_t processes,
                   const backend::Footprint& footprint) {
  const int64_t ranks = std::ssize(stages) * tensor;
  if (processes == 1 || ranks % processes != 0) return;
  std::vector<engine::EngineLayout> layouts;
  for (const engine::EngineLayout& stage : stages) {
    layouts.insert(layouts.end(), static_cast<size_t>(tensor), stage);
  }
  engine::spread_ranks(layouts, tensor, processes, footprint);
  for (size_t i = 0; i < stages.size(); ++i) stages[i] = layouts[i * static_cast<size_t>(tensor)];
}

}  // namespace

bool is_pool(const memory::Region& region) {
  return region.name == "kv blocks" || region.name == "draft kv blocks";
}

int64_t RankLaunch::pool_bytes(int64_t blocks) const {
  return region_bytes(blocks, layout.kv.block_bytes) + draft_pool_bytes(blocks);
}

int64_t RankLaunch::block_bytes() const {
  const engine::KvLayout* draft = layout.draft ? &layout.draft->layout.kv : nullptr;
  return static_cast<int64_t>(engine::bytes_per_block(layout.kv, draft));
}

int64_t RankLaunch::draft_pool_bytes(int64_t blocks) const {
  if (!layout.draft) return 0;
  const engine::DraftLayout& draft = *layout.draft;
  return region_bytes(draft.blocks_beside(layout.kv, blocks), draft.layout.kv.block_bytes);
}

int64_t RankLaunch::fixed_bytes() const {
  Amount bytes = 0;
  for (const memory::Region& region : plan.regions) {
    if (!is_pool(region)) bytes += static_cast<int64_t>(region.bytes);
  }
  for (const memory::Overhead& overhead : overheads) bytes += static_cast<int64_t>(overhead.bytes);
  return bytes.value();
}

std::unique_ptr<backend::Footprint> device_footprint(const hardware::Gpu* gpu,
                                                     const Arguments& arguments) {
  if (gpu == nullptr) return nullptr;
  return std::make_unique<backend::CudaFootprint>(figures_of(*gpu, arguments));
}

std::vector<RankLaunch> lay_out_ranks(const launch::ResolvedLaunch& resolved,
                                      const Arguments& arguments, const hardware::Gpu* gpu,
                                      int64_t length) {
  const std::unique_ptr<backend::Footprint> card = device_footprint(gpu, arguments);
  const backend::Footprint& footprint = card ? *card : backend::cpu_footprint();
  engine::EngineOptions engine = with_room(resolved.engine, length);
  if (length > 0) {
    Arguments of_length = arguments;
    of_length.args.max_model_len = length;
    engine.images = launch::image_options(resolved.spec, of_length, footprint);
  }
  const int64_t tensor = arguments.args.tensor_parallel;
  memory::NcclShape nccl =
      memory::nccl_shape(tensor, arguments.args.pipeline_parallel, arguments.processes);
  if (tensor > 1 && gpu != nullptr && gpu->hides_memory()) nccl.team = tensor;
  std::vector<engine::EngineLayout> layouts =
      engine::resolve_stages(resolved.spec, resolved.stage_views(), engine, footprint);
  spread_stages(layouts, tensor, arguments.processes, footprint);
  std::vector<RankLaunch> ranks;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const shard::StageModel& stage = resolved.stages[i];
    RankLaunch& rank = ranks.emplace_back(describe(stage.spec, layouts[i], footprint));
    rank.stage = static_cast<int64_t>(i);
    rank.first_layer = stage.first_layer;
    if (gpu == nullptr) continue;
    rank.overheads = memory::device_overheads(backend::overhead_shape(
        stage.spec, figures_of(*gpu, arguments), std::ssize(rank.layout.recorded_sizes), nccl));
  }
  return ranks;
}

}  // namespace plimsoll::plan::own
