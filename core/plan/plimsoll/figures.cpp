#include "plan/plimsoll/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/amount.h"

namespace plimsoll::plan::own {
namespace {

/// The sizes that decide a region's bytes, in words.
std::string formula_of(const std::string& name, const RankLaunch& rank, const std::string& dtype) {
  const engine::StepLimits& limits = rank.layout.limits;
  if (name == "weights") {
    return fmt::format(
        "weights of {} layers and the rest, {}{}{}", rank.layers, dtype,
        rank.block_types.empty() ? "" : "; blocks as in the file: ", rank.block_types);
  }
  if (name == "draft weights") return fmt::format("weights of the draft model, {}", dtype);
  if (name == "draft step") return "arrays and scratch of the draft model's steps";
  if (name == "vision weights") return fmt::format("image encoder and projector, {}", dtype);
  if (name == "image embeddings") {
    return fmt::format("{} embeddings of images that prompts under way need",
                       rank.layout.images->cache_tokens);
  }
  if (name == "recurrent states")
    return fmt::format("float32, a slot for each of {} sequences", limits.sequences);
  if (name == "step scratch") {
    if (rank.layout.images) {
      return fmt::format("peak of a step of {} tokens, or of encoding an image of {}",
                         limits.batched_tokens, rank.layout.images->largest());
    }
    return fmt::format("peak of a step of {} tokens, its logits {} rows at a time",
                       limits.batched_tokens, limits.logits_rows);
  }
  if (name == "sampling")
    return fmt::format("one row of the vocabulary for {} threads", rank.layout.sampling_threads);
  if (name == "hidden states")
    return fmt::format("{} tokens of a step, from stage to stage", limits.batched_tokens);
  if (name == "messages") return "sums on their way to and from ranks in other processes";
  if (name == "logits staging")
    return fmt::format("{} rows from the last stage, in another process", rank.layout.staging_rows);
  if (name == "device workspace") return "products, and partial sums of split sequences";
  const std::string step =
      fmt::format("{} tokens, {} sequences, {} blocks each in {} tables", limits.batched_tokens,
                  limits.sequences, limits.table_stride, rank.layout.kv.groups.size());
  return rank.layout.stages == 1 ? step : fmt::format("{} steps of {}", rank.layout.stages, step);
}

/// Arrays of a step are one part.
std::string part_of(const std::string& region) {
  if (region.starts_with("draft ")) return region == "draft weights" ? region : "draft step";
  for (const std::string_view known :
       {"weights", "vision weights", "image embeddings", "recurrent states", "logits staging",
        "messages", "hidden states", "step scratch", "device workspace"}) {
    if (region == known) return region;
  }
  return region.starts_with("sampling") ? "sampling" : "batch metadata";
}

void fill_arena(PlanResult& result, const RankLaunch& rank) {
  const auto add = [&](const std::string& name, int64_t bytes, std::string formula) {
    const auto known = std::ranges::find(result.parts, name, &PlanPart::name);
    if (known != result.parts.end()) {
      known->bytes += bytes;
      return;
    }
    result.parts.push_back({name, bytes, std::move(formula), "the engine's own constructors"});
  };
  for (const memory::Region& region : rank.plan.regions) {
    if (is_pool(region)) continue;
    const auto bytes = static_cast<int64_t>(region.bytes);
    if (region.name == "weights") {
      result.parameter_bytes = result.weights_bytes = bytes;
    } else if (region.name == "vision weights" || region.name == "draft weights") {
      result.parameter_bytes += bytes;
      result.weights_bytes += bytes;
    } else {
      result.activation_peak_bytes += bytes;
    }
    const std::string part = part_of(region.name);
    add(part, bytes, formula_of(part, rank, result.dtype));
  }
}

void fill_overheads(PlanResult& result, const RankLaunch& rank) {
  result.cuda_graphs = std::ssize(rank.layout.recorded_sizes);
  for (const memory::Overhead& overhead : rank.overheads) {
    const auto bytes = static_cast<int64_t>(overhead.bytes);
    if (overhead.name == "cuda graphs")
      result.cuda_graph_bytes = bytes;
    else
      result.non_torch_bytes += bytes;
    result.parts.push_back({overhead.name, bytes, overhead.formula,
                            overhead.origin == memory::Origin::measured
                                ? "measured on a card of this kind"
                                : "an upper bound, not measured"});
  }
}

}  // namespace

void fill_parts(PlanResult& result, const RankLaunch& rank) {
  fill_arena(result, rank);
  fill_overheads(result, rank);
}

void fill_cache_layout(PlanResult& result, const RankLaunch& rank) {
  const engine::KvLayout& kv = rank.layout.kv;
  std::map<std::pair<int64_t, int64_t>, KvKindCount> kinds;  // by window, page
  Amount per_token = 0;
  for (size_t i = 0; i < rank.windows.size(); ++i) {
    const int64_t window = rank.windows[i];
    const int64_t page = rank.page_bytes[i];
    KvKindCount& kind = kinds[{window, page}];
    kind.spec = {
        window > 0 ? KvKind::sliding : KvKind::full, kv.block_size, page, page, window, ""};
    ++kind.layers;
    if (window == 0) per_token += page / kv.block_size;
  }
  for (const auto& [key, kind] : kinds) result.kv_kinds.push_back(kind);
  for (const engine::KvGroup& group : kv.groups) {
    result.group_sizes.push_back(std::ssize(group.layers));
    GroupNeed& need = result.group_needs.emplace_back();
    need.block_size = kv.block_size;
    if (group.window == 0) continue;
    // The most that engine::blocks_of_sequence says for any length.
    const int64_t seen = group.window - 1 + rank.layout.limits.batched_tokens;
    need.most_blocks = ceil_div(seen - 1, kv.block_size).value() + 1;
  }
  result.kv_bytes_per_token = per_token.value();
  result.block_size = kv.block_size;
  result.bytes_per_block = static_cast<int64_t>(kv.block_bytes);
}

StageFigures stage_figures(const PlanResult& result, const RankLaunch& rank, int64_t blocks) {
  PlanResult figures;
  figures.dtype = result.dtype;
  figures.stage = rank.stage;
  figures.first_layer = rank.first_layer;
  figures.layers = rank.layers;
  fill_parts(figures, rank);
  figures.num_gpu_blocks = blocks;
  const auto block = static_cast<int64_t>(rank.layout.kv.block_bytes);
  figures.kv_cache_bytes = (Amount{result.num_gpu_blocks} * block).value();
  figures.parts.push_back({"kv cache", rank.pool_bytes(result.num_gpu_blocks),
                           fmt::format("{} blocks x {} B", result.num_gpu_blocks, block),
                           "as many blocks as the tightest stage has"});
  return figures;
}

}  // namespace plimsoll::plan::own
