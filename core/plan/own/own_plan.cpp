#include "plan/own/own_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backend/cpu/cpu_backend.h"
#include "base/amount.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/packed_weights.h"
#include "checkpoint/tied_head.h"
#include "memory/available.h"
#include "model/config.h"
#include "model/tied_head.h"
#include "plan/arguments.h"
#include "plan/own/launch.h"
#include "plan/own/pictures.h"
#include "plan/report/report.h"
#include "quantization/online.h"

namespace plimsoll::plan::own {
namespace {

model::ModelSpec read_spec(const ConfigView& config) {
  try {
    return model::make_model_spec(config.json());
  } catch (const Error& error) {
    fail(error.code(), "{} (run cannot launch it; --engine vllm plans it for vLLM)", error.what());
  }
}

/// How run keeps the weights of a quantised checkpoint.
void settle_packings(const ConfigView& config, const Arguments& arguments, const hardware::Gpu* gpu,
                     model::ModelSpec& spec) {
  const std::string method = spec.quantization;
  const auto activations = arguments.args.whole_activations ? quantization::Activations::whole
                                                            : quantization::Activations::rounded;
  if (arguments.weights) {
    checkpoint::settle_packings(config.json(), *arguments.weights, activations, spec);
  } else {
    quantization::assign_packings(config.json(), nullptr, activations, spec);
  }
  quantization::assign_online(arguments.args.quantization, activations, spec);
  const bool packed = std::ranges::any_of(spec.weights, &model::WeightSpec::is_packed);
  const bool cut = arguments.args.tensor_parallel > 1;
  if (spec.quantization.empty() && !(packed && (gpu != nullptr || cut))) return;
  fail(ExitCode::checkpoint_unusable,
       "the checkpoint is quantised ({}), which run has for the processor alone, its layers in one "
       "piece; plan it without --gpu and -tp, plan the unquantised model, or --engine vllm",
       method.empty() ? arguments.args.quantization : method);
}

/// Blocks that flags ask for, whatever is left; none: they do not say.
std::optional<int64_t> blocks_asked(const RankLaunch& rank, const EngineArgs& args) {
  if (args.blocks_override > 0) return args.blocks_override;
  const int64_t bytes = args.available_kv > 0 ? args.available_kv : args.kv_cache_memory;
  if (bytes <= 0) return std::nullopt;
  return bytes / static_cast<int64_t>(rank.layout.kv.block_bytes);
}

/// Blocks of a rank on a card: as asked, else what is left of the budget.
int64_t card_blocks(const RankLaunch& rank, const Arguments& arguments, int64_t budget) {
  if (const auto asked = blocks_asked(rank, arguments.args)) return *asked;
  const Amount left = Amount{budget} - rank.fixed_bytes();
  return std::max<int64_t>(0, left.value()) / static_cast<int64_t>(rank.layout.kv.block_bytes);
}

/// Blocks of a run on this machine's processor.
int64_t host_blocks(const RankLaunch& rank, const Arguments& arguments) {
  if (arguments.args.blocks_override > 0) return arguments.args.blocks_override;
  const uint64_t cache = arguments.host_cache.value_or(engine::EngineOptions{}.kv_cache_bytes);
  const auto left = static_cast<int64_t>(cache / rank.layout.kv.block_bytes);
  return std::min(blocks_asked(rank, arguments.args).value_or(left), rank.plan.num_kv_blocks);
}

int64_t blocks_needed(const RankLaunch& rank, int64_t length) {
  return engine::blocks_of_sequence(rank.layout.kv, length, rank.layout.limits.batched_tokens);
}

/// The longest sequence up to `most` that the blocks hold; 0: none.
int64_t longest_sequence(const RankLaunch& rank, int64_t blocks, int64_t most) {
  int64_t low = 0;
  while (low < most) {
    const int64_t middle = low + (most - low + 1) / 2;
    if (blocks_needed(rank, middle) <= blocks)
      low = middle;
    else
      most = middle - 1;
  }
  return low;
}

// ---- the answer ----

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

/// What a region is sized by.
std::string formula_of(const std::string& name, const RankLaunch& rank, const std::string& dtype) {
  const engine::StepLimits& limits = rank.layout.limits;
  if (name == "weights")
    return fmt::format("weights of {} layers and the rest, {}", rank.layers, dtype);
  if (name == "vision weights") return fmt::format("image encoder and projector, {}", dtype);
  if (name == "picture embeddings") {
    return fmt::format("{} embeddings of pictures that prompts under way need",
                       rank.layout.pictures->cache_tokens);
  }
  if (name == "step scratch") {
    if (rank.layout.pictures) {
      return fmt::format("peak of a step of {} tokens, or of encoding a picture of {}",
                         limits.batched_tokens, rank.layout.pictures->largest());
    }
    return fmt::format("peak of a step of {} tokens, its logits {} rows at a time",
                       limits.batched_tokens, limits.logits_rows);
  }
  if (name == "sampling")
    return fmt::format("one row of the vocabulary for {} threads", rank.layout.sampling_threads);
  if (name == "device workspace") return "products, and partial sums of split sequences";
  return fmt::format("{} tokens, {} sequences, {} blocks each in {} tables", limits.batched_tokens,
                     limits.sequences, limits.table_stride, rank.layout.kv.groups.size());
}

/// Arrays of a step are one part.
std::string part_of(const std::string& region) {
  for (const std::string_view known :
       {"weights", "vision weights", "picture embeddings", "step scratch", "device workspace"}) {
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
    if (region.name == "kv blocks") continue;
    auto bytes = static_cast<int64_t>(region.bytes);
    if (region.name == "weights") {
      bytes -= rank.absent_weight_bytes;
      result.parameter_bytes = result.weights_bytes = bytes;
    } else if (region.name == "vision weights") {
      result.parameter_bytes += bytes;
      result.weights_bytes += bytes;
    } else {
      result.activation_peak_bytes += bytes;
    }
    const std::string part = part_of(region.name);
    add(part, bytes, formula_of(part, rank, result.dtype));
  }
  if (rank.gathered_bytes == 0) return;
  result.activation_peak_bytes += rank.gathered_bytes;
  add("gathered logits", rank.gathered_bytes,
      fmt::format("{} rows of the whole vocabulary, float32", rank.layout.limits.logits_rows));
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

std::string shortage(const PlanResult& result, const RankLaunch& rank) {
  const int64_t low = result.estimated_max_model_len;
  std::string text =
      fmt::format("One sequence of {} tokens needs {} KV blocks of {} bytes, and {} are left{}.",
                  result.max_model_len, blocks_needed(rank, result.max_model_len),
                  rank.layout.kv.block_bytes, result.num_gpu_blocks,
                  low > 0 ? fmt::format("; --max-model-len {} (or auto) would fit", low) : "");
  if (result.budget_bytes > 0 && rank.fixed_bytes() > result.budget_bytes) {
    text = fmt::format("Weights, step and overheads take {} bytes, and the budget is {}. ",
                       rank.fixed_bytes(), result.budget_bytes) +
           text;
  }
  return text;
}

/// Why the blocks that flags ask for do not fit; empty where they do.
std::string excess(const PlanResult& result, const RankLaunch& rank, const EngineArgs& args) {
  const Amount whole = Amount{rank.fixed_bytes()} + result.kv_cache_bytes;
  const bool asked = args.blocks_override > 0 || args.kv_cache_memory > 0;
  if (!asked || result.budget_bytes == 0 || args.available_kv > 0 ||
      whole <= Amount{result.budget_bytes}) {
    return "";
  }
  const auto block = static_cast<int64_t>(rank.layout.kv.block_bytes);
  const int64_t fitting = std::max<int64_t>(0, result.budget_bytes - rank.fixed_bytes()) / block;
  return fmt::format(
      "{} KV blocks take {} bytes, weights, step and overheads {}, and the budget is {}; {} would "
      "fit.",
      result.num_gpu_blocks, result.kv_cache_bytes, rank.fixed_bytes(), result.budget_bytes,
      args.blocks_override > 0 ? fmt::format("--num-gpu-blocks-override {}", fitting)
                               : fmt::format("--kv-cache-memory {}", fitting * block));
}

void fill_cache(PlanResult& result, const RankLaunch& rank, int64_t blocks, int64_t wanted,
                const Arguments& arguments) {
  result.has_kv = true;
  result.max_model_len = wanted;
  result.num_gpu_blocks = blocks;
  result.kv_cache_bytes =
      (Amount{blocks} * static_cast<int64_t>(rank.layout.kv.block_bytes)).value();
  const int64_t low = longest_sequence(rank, blocks, wanted);
  result.estimated_max_model_len = low;
  const bool whole = low == wanted;
  if (!whole && low > 0) result.auto_max_model_len = low;
  const int64_t counted = whole || low == 0 ? wanted : low;
  result.max_concurrency = static_cast<double>(blocks) /
                           static_cast<double>(std::max<int64_t>(1, blocks_needed(rank, counted)));
  result.kv_tokens = static_cast<int64_t>(result.max_concurrency * static_cast<double>(counted));
  result.fits = whole || (arguments.args.max_model_len == -1 && low > 0);
  if (!*result.fits) result.reason = shortage(result, rank);
  if (const std::string why = excess(result, rank, arguments.args); !why.empty()) {
    result.fits = false;
    result.reason = why;
  }
  result.parts.push_back({"kv cache", result.kv_cache_bytes,
                          fmt::format("{} blocks x {} B", blocks, rank.layout.kv.block_bytes),
                          "what is left of the budget"});
}

/// Of the weights, what every copy of the model after the first has from that one.
int64_t borrowed_weights(const std::vector<RankLaunch>& ranks) {
  Amount bytes = 0;
  for (const RankLaunch& rank : ranks) {
    const auto weights = std::ranges::find(rank.plan.regions, "weights", &memory::Region::name);
    bytes += static_cast<int64_t>(weights->bytes);
  }
  return bytes.value();
}

/// A run on this machine's processor has what the machine has left, for all its ranks.
void refuse_above_host(PlanResult& result, const std::vector<RankLaunch>& ranks,
                       const EngineArgs& args) {
  const memory::Available available = memory::available_memory();
  Amount whole = 0;
  for (const RankLaunch& rank : ranks) {
    whole += Amount{rank.fixed_bytes()} +
             Amount{result.num_gpu_blocks} * static_cast<int64_t>(rank.layout.kv.block_bytes);
  }
  const int64_t copies = args.data_parallel;
  whole = whole * copies - Amount{borrowed_weights(ranks)} * (copies - 1);
  whole = whole * args.tensor_parallel;
  if (!*result.fits || whole <= Amount{available.bytes}) return;
  result.fits = false;
  result.reason = fmt::format(
      "{} of this machine's memory are needed, and {} are left ({}); --cpu-kvcache-space is {} of "
      "them.",
      readable_bytes(whole.value()), readable_bytes(available.bytes), available.bound,
      readable_bytes(result.kv_cache_bytes));
}

void add_notes(PlanResult& result, const model::ModelSpec& spec, const RankLaunch& rank,
               const EngineArgs& args, const std::string& refusal) {
  if (!spec.dtype_stated && args.dtype == "auto") {
    result.notes.push_back(fmt::format(
        "the config names no dtype and there are no weights to look at: {} is taken (--dtype)",
        result.dtype));
  }
  if (spec.vision && !rank.layout.pictures && !refusal.empty()) {
    result.notes.push_back("prompts of text alone: " + refusal);
  }
  if (args.tensor_parallel * args.pipeline_parallel == 1) return;
  if (!result.gpu.empty()) {
    result.notes.emplace_back(
        "this is what each rank would hold: run has ranks on the processor alone so far");
  } else if (const std::string why = shard::tensor_refusal(spec, args.tensor_parallel);
             !why.empty()) {
    result.notes.push_back("this is what each rank would hold, but " + why);
  }
  const auto copied = std::ranges::find_if(spec.layers, [&](const model::LayerSpec& layer) {
    return layer.has_attention() && layer.attention.kv_heads < args.tensor_parallel;
  });
  if (copied != spec.layers.end()) {
    const int64_t heads = copied->attention.kv_heads;
    result.notes.push_back(
        fmt::format("{} KV heads on {} ranks: each is kept {} times, and the cache of a token does "
                    "not shrink further",
                    heads, args.tensor_parallel, args.tensor_parallel / heads));
  }
  if (args.pipeline_parallel > 1) {
    result.notes.push_back(fmt::format("stage {} of {}, with {} layers, is the tightest",
                                       rank.stage + 1, args.pipeline_parallel, rank.layers));
  }
}

/// The dtype of weights and activations. Most weights are 16 bits wide where a config does not say.
DType run_dtype(const model::ModelSpec& spec, const EngineArgs& args) {
  if (args.dtype == "auto") return spec.dtype_stated ? spec.dtype : DType::bf16;
  return dtype_from_torch(args.dtype).value_or(spec.dtype);
}

/// Blocks that a rank has room for; all ranks keep as many as the tightest has.
int64_t rank_blocks(const RankLaunch& rank, const Arguments& arguments, const hardware::Gpu* gpu,
                    int64_t budget) {
  return gpu != nullptr ? card_blocks(rank, arguments, budget) : host_blocks(rank, arguments);
}

/// What one stage takes, of `result`'s launch.
StageFigures stage_figures(const PlanResult& result, const RankLaunch& rank, int64_t blocks) {
  PlanResult figures;
  figures.dtype = result.dtype;
  figures.stage = rank.stage;
  figures.first_layer = rank.first_layer;
  figures.layers = rank.layers;
  fill_arena(figures, rank);
  fill_overheads(figures, rank);
  figures.num_gpu_blocks = blocks;
  const auto block = static_cast<int64_t>(rank.layout.kv.block_bytes);
  figures.kv_cache_bytes = (Amount{result.num_gpu_blocks} * block).value();
  figures.parts.push_back({"kv cache", figures.kv_cache_bytes,
                           fmt::format("{} blocks x {} B", result.num_gpu_blocks, block),
                           "as many blocks as the tightest stage has"});
  return figures;
}

bool has_weights(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "model.safetensors.index.json") ||
         std::filesystem::exists(folder / "model.safetensors");
}

}  // namespace

bool has_own_head(const ConfigView& config, const std::filesystem::path& folder) {
  model::ModelSpec spec = read_spec(config);
  if (!spec.tied_head || !has_weights(folder)) return false;
  try {
    checkpoint::settle_tied_head(checkpoint::Checkpoint::open(folder), spec);
  } catch (const Error&) {
    return false;  // planning needs no more than the config: weights may come later
  }
  return !spec.tied_head;
}

std::shared_ptr<const checkpoint::Checkpoint> open_weights(const std::filesystem::path& folder) {
  if (!has_weights(folder)) return nullptr;
  try {
    return std::make_shared<const checkpoint::Checkpoint>(checkpoint::Checkpoint::open(folder));
  } catch (const Error&) {
    return nullptr;  // planning needs no more than the config: weights may come later
  }
}

std::string weights_dtype(const ConfigView& config, const std::filesystem::path& folder) {
  const model::ModelSpec spec = read_spec(config);
  if (spec.dtype_stated || !has_weights(folder)) return "auto";
  return std::string(
      torch_name(checkpoint::model_dtype(checkpoint::Checkpoint::open(folder), spec)));
}

PlanResult make_plan(const ConfigView& config, const Arguments& arguments,
                     const hardware::Gpu* gpu) {
  model::ModelSpec spec = read_spec(config);
  check_supported(arguments.args, spec);
  if (arguments.own_head && spec.tied_head) model::untie_head(spec);
  settle_packings(config, arguments, gpu, spec);
  const DType dtype = run_dtype(spec, arguments.args);
  PlanResult result;
  result.engine = "plimsoll";
  result.architecture = spec.architecture;
  result.dtype = torch_name(dtype);
  result.gpus = arguments.args.tensor_parallel * arguments.args.pipeline_parallel *
                arguments.args.data_parallel;
  if (gpu != nullptr) {
    result.gpu = gpu->name;
    result.total_bytes = gpu->visible_bytes();
    result.budget_bytes = budget_bytes(arguments, result.total_bytes);
    result.gpu_memory_utilization =
        static_cast<double>(result.budget_bytes) / static_cast<double>(result.total_bytes);
  }
  std::vector<RankLaunch> ranks = lay_out_ranks(spec, arguments, dtype, gpu, 0);
  const auto blocks_of = [&](const RankLaunch& one) {
    return rank_blocks(one, arguments, gpu, result.budget_bytes);
  };
  const RankLaunch* rank = &*std::ranges::min_element(ranks, {}, [&](const RankLaunch& one) {
    return std::pair(blocks_of(one), -one.fixed_bytes());
  });
  const int64_t blocks = blocks_of(*rank);
  const int64_t wanted = rank->layout.max_model_len;
  const int64_t longest = longest_sequence(*rank, blocks, wanted);
  if (arguments.args.max_model_len == -1 && longest > 0 && longest < wanted) {
    // As run does: the pool is that of the full length, the steps those of the length that fits.
    const int64_t stage = rank->stage;
    ranks = lay_out_ranks(spec, arguments, dtype, gpu, longest);
    rank = &ranks[static_cast<size_t>(stage)];
  }
  result.max_num_seqs = rank->layout.limits.sequences;
  result.max_num_batched_tokens = rank->layout.limits.batched_tokens;
  fill_cache_layout(result, *rank);
  fill_arena(result, *rank);
  fill_overheads(result, *rank);
  fill_cache(result, *rank, blocks, wanted, arguments);
  result.stage = rank->stage;
  result.first_layer = rank->first_layer;
  result.layers = rank->layers;
  for (const RankLaunch& one : ranks) {
    if (ranks.size() > 1) result.stages.push_back(stage_figures(result, one, blocks_of(one)));
  }
  add_arguments(result, arguments.args);
  const auto card = device_footprint(gpu);
  add_notes(result, spec, *rank, arguments.args,
            picture_refusal(spec, arguments, card ? *card : backend::cpu_footprint()));
  if (gpu != nullptr) return result;
  const int64_t copies = arguments.args.data_parallel;
  if (copies > 1) {
    result.notes.push_back(fmt::format(
        "{} copies of the model: each holds this, but has the weights ({}) from the first", copies,
        readable_bytes(borrowed_weights(ranks))));
  }
  refuse_above_host(result, ranks, arguments.args);
  result.host_refuses = !*result.fits;
  if (result.host_refuses)
    result.notes.push_back("a run on this CPU would refuse: " + result.reason);
  result.reason.clear();
  result.fits.reset();  // no card, no verdict
  return result;
}

}  // namespace plimsoll::plan::own
