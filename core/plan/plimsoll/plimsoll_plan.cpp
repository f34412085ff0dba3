#include "plan/plimsoll/plimsoll_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/amount.h"
#include "base/error.h"
#include "base/size_text.h"
#include "engine/longest_context.h"
#include "engine/schedule_shape.h"
#include "launch/images.h"
#include "memory/available.h"
#include "model/config.h"
#include "plan/arguments.h"
#include "plan/plimsoll/blocks.h"
#include "plan/plimsoll/figures.h"
#include "plan/plimsoll/image_room.h"
#include "plan/plimsoll/launch.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"

namespace plimsoll::plan::own {
namespace {

std::string shortage(const PlanResult& result, const RankLaunch& rank) {
  const int64_t low = result.estimated_max_model_len;
  std::string text =
      fmt::format("One sequence of {} tokens needs {} KV blocks of {}, and {} are left{}.",
                  result.max_model_len, blocks_needed(rank, result.max_model_len),
                  size_text(rank.layout.kv.block_bytes), result.num_gpu_blocks,
                  low > 0 ? fmt::format("; --max-model-len {} (or auto) would fit", low) : "");
  if (result.budget_bytes > 0 && rank.fixed_bytes() > result.budget_bytes) {
    text = fmt::format("Weights, step and overheads take {}, and the budget is {}. ",
                       size_text(rank.fixed_bytes()), size_text(result.budget_bytes)) +
           text;
  }
  return text;
}

/// Why the blocks that flags ask for do not fit; empty where they do.
std::string excess(const PlanResult& result, const RankLaunch& rank, const EngineArgs& args) {
  const Amount whole = Amount{rank.fixed_bytes()} + rank.pool_bytes(result.num_gpu_blocks);
  const bool asked = args.blocks_override > 0 || args.kv_cache_memory > 0;
  if (!asked || result.budget_bytes == 0 || args.available_kv > 0 ||
      whole <= Amount{result.budget_bytes}) {
    return "";
  }
  const int64_t block = rank.block_bytes();
  const int64_t fitting = std::max<int64_t>(0, result.budget_bytes - rank.fixed_bytes()) / block;
  return fmt::format(
      "{} KV blocks take {}, weights, step and overheads {}, and the budget is {}; {} would fit.",
      result.num_gpu_blocks, size_text(result.kv_cache_bytes), size_text(rank.fixed_bytes()),
      size_text(result.budget_bytes),
      args.blocks_override > 0 ? fmt::format("--num-gpu-blocks-override {}", fitting)
                               : fmt::format("--kv-cache-memory {}", fitting * block));
}

/// Contexts of a launch: the one that was asked for, the longest that fits, and the KV blocks that
/// a launch for that one has.
struct Contexts {
  int64_t wanted = 0, longest = 0, blocks = 0;
};

void fill_cache(PlanResult& result, const RankLaunch& rank, const Contexts& contexts,
                const Arguments& arguments) {
  const int64_t wanted = contexts.wanted, low = contexts.longest;
  const int64_t blocks = result.num_gpu_blocks;
  result.has_kv = true;
  const bool shortened = arguments.args.max_model_len == -1 && low > 0;
  result.max_model_len = shortened ? low : wanted;
  result.kv_cache_bytes =
      (Amount{blocks} * static_cast<int64_t>(rank.layout.kv.block_bytes)).value();
  result.estimated_max_model_len = low;
  const bool whole = low == wanted;
  if (!whole && low > 0) result.auto_max_model_len = low;
  const int64_t counted = whole || low == 0 ? wanted : low;
  const auto needed = static_cast<double>(std::max<int64_t>(1, blocks_needed(rank, counted)));
  result.max_concurrency = static_cast<double>(contexts.blocks) / needed;
  result.kv_tokens = static_cast<int64_t>(static_cast<double>(blocks) / needed *  //
                                          static_cast<double>(counted));
  result.fits = whole || shortened;
  if (!*result.fits) result.reason = shortage(result, rank);
  if (const std::string why = excess(result, rank, arguments.args); !why.empty()) {
    result.fits = false;
    result.reason = why;
  }
  const int64_t draft = rank.draft_pool_bytes(blocks);
  if (draft > 0) {
    const engine::DraftLayout& layout = *rank.layout.draft;
    result.parts.push_back(
        {"draft kv cache", draft,
         fmt::format("{} blocks x {} B", layout.blocks_beside(rank.layout.kv, blocks),
                     layout.layout.kv.block_bytes),
         "for the tokens of the KV cache"});
  }
  result.parts.push_back({"kv cache", rank.pool_bytes(blocks) - draft,
                          fmt::format("{} blocks x {} B", blocks, rank.layout.kv.block_bytes),
                          "what is left of the budget"});
}

/// Bytes of the weights, which every copy of the model after the first borrows from that one.
int64_t borrowed_weights(const std::vector<RankLaunch>& ranks) {
  Amount bytes = 0;
  for (const RankLaunch& rank : ranks)
    bytes += static_cast<int64_t>(engine::borrowed_bytes(rank.plan));
  return bytes.value();
}

/// A run on this machine's processor has what the machine has left, for all its ranks.
void refuse_above_host(PlanResult& result, const std::vector<RankLaunch>& ranks,
                       const EngineArgs& args) {
  const memory::Available available = memory::available_memory();
  Amount whole = 0;
  for (const RankLaunch& rank : ranks) {
    whole += Amount{rank.fixed_bytes()} + rank.pool_bytes(result.num_gpu_blocks);
  }
  const int64_t replicas = args.data_parallel;
  whole = whole * replicas - Amount{borrowed_weights(ranks)} * (replicas - 1);
  whole = whole * args.tensor_parallel;
  result.host_needed = whole.value();
  result.host_left = static_cast<int64_t>(available.bytes);
  if (!*result.fits || whole <= Amount{available.bytes}) return;
  result.fits = false;
  result.reason = fmt::format(
      "{} of this machine's memory are needed, and {} are left ({}); --cpu-kvcache-space is {} of "
      "them.",
      readable_bytes(whole.value()), readable_bytes(available.bytes), available.bound,
      readable_bytes(result.kv_cache_bytes));
}

void add_dtype_note(PlanResult& result, const model::ModelSpec& spec, const Arguments& arguments,
                    const launch::ModelSource& model) {
  if (spec.dtype_stated || arguments.args.dtype != "auto" || model.has_weights()) return;
  result.notes.push_back(fmt::format(
      "the config names no dtype and there are no weights to look at: {} is taken (--dtype)",
      result.dtype));
}

void add_notes(PlanResult& result, const model::ModelSpec& spec, const RankLaunch& rank,
               const Arguments& arguments, const std::string& refusal) {
  const EngineArgs& args = arguments.args;
  if (spec.vision && !rank.layout.images && !refusal.empty()) {
    result.notes.push_back("prompts of text alone: " + refusal);
  }
  if (rank.layout.images && launch::counts_as_published(*spec.vision, arguments) &&
      spec.vision->kind != model::VisionKind::internvl) {
    result.notes.push_back(
        "images are counted as published models of this kind have them prepared: a config alone "
        "does not say how");
  }
  if (rank.layout.images && args.processor_cache_gib > 0) {
    result.notes.push_back(
        fmt::format("prepared images are kept in up to {:.3g} GiB of the host's memory beside this "
                    "(--mm-processor-cache-gb)",
                    args.processor_cache_gib));
  }
  if (args.tensor_parallel * args.pipeline_parallel == 1) return;
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

std::shared_ptr<const engine::ScheduleShape> shape_schedule(const launch::ResolvedLaunch& launch,
                                                            const RankLaunch& rank, int64_t blocks,
                                                            const backend::Footprint& footprint,
                                                            bool on_cpu) {
  engine::EngineOptions options = launch.engine;
  if (on_cpu) options.head_start = engine::kHostHeadStart;
  engine::EnginePlan limits;
  limits.max_num_seqs = rank.layout.limits.sequences;
  limits.max_num_batched_tokens = rank.layout.limits.batched_tokens;
  limits.num_kv_blocks = blocks;
  limits.kv_dtype = rank.layout.kv.dtype;
  return std::make_shared<engine::ScheduleShape>(engine::shape_of_schedule(
      launch.spec, options, limits, std::ssize(launch.stages), footprint));
}

bool is_planned_for_vllm(const ConfigView& config, const EngineArgs& args) {
  try {
    plan_vllm(config, args, nullptr);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

model::ModelSpec read_spec(const ConfigView& config, const EngineArgs& args) {
  try {
    return model::naming_config(config.path(),
                                [&] { return model::make_model_spec(config.json()); });
  } catch (const Error& error) {
    if (!is_planned_for_vllm(config, args)) throw;
    fail(error.code(), "{} (run cannot launch it; --engine vllm plans it for vLLM)", error.what());
  }
}

PlanResult make_plan(launch::ModelSource& model, const Arguments& arguments,
                     const hardware::Gpu* gpu) {
  const auto card = device_footprint(gpu, arguments);
  const backend::Footprint& footprint = card ? *card : backend::cpu_footprint();
  const launch::ResolvedLaunch launch = launch::resolve(model, arguments, footprint);
  const model::ModelSpec& spec = launch.spec;
  PlanResult result;
  result.engine = "plimsoll";
  result.architecture = spec.architecture;
  result.dtype = torch_name(launch.dtype);
  result.gpus = arguments.args.tensor_parallel * arguments.args.pipeline_parallel *
                arguments.args.data_parallel;
  if (gpu != nullptr) {
    result.gpu = gpu->name;
    result.total_bytes = gpu->visible_bytes();
    result.budget_bytes = launch::budget_bytes(arguments, result.total_bytes);
    result.gpu_memory_utilization =
        static_cast<double>(result.budget_bytes) / static_cast<double>(result.total_bytes);
  }
  const auto blocks_of = [&](const RankLaunch& one) {
    return rank_blocks(one, arguments, gpu, result.budget_bytes);
  };
  const auto tightest = [&](const std::vector<RankLaunch>& stages) {
    return &*std::ranges::min_element(stages, {}, [&](const RankLaunch& one) {
      return std::pair(blocks_of(one), -one.fixed_bytes());
    });
  };
  std::vector<RankLaunch> ranks = lay_out_ranks(launch, arguments, gpu, 0);
  const RankLaunch* rank = tightest(ranks);
  Contexts contexts{.wanted = rank->layout.max_model_len, .blocks = blocks_of(*rank)};
  contexts.longest = longest_sequence(*rank, contexts.blocks, contexts.wanted);
  if (contexts.longest < contexts.wanted) {
    std::map<int64_t, std::vector<RankLaunch>> shorter;
    contexts.longest = engine::longest_context(
        contexts.wanted, contexts.longest, rank->layout.kv.block_size, [&](int64_t length) {
          const auto& stages = shorter[length] = lay_out_ranks(launch, arguments, gpu, length);
          const RankLaunch& least = *tightest(stages);
          return longest_sequence(least, blocks_of(least), contexts.wanted);
        });
    if (contexts.longest > 0) {
      std::vector<RankLaunch>& fitting = shorter[contexts.longest];
      contexts.blocks = blocks_of(*tightest(fitting));
      if (arguments.args.max_model_len == -1) {
        ranks = std::move(fitting);
        rank = tightest(ranks);
      }
    }
  }
  if (const auto& images = ranks.front().layout.images) {
    result.image_tokens = images->largest_image();
    if (arguments.has_prompts) {
      result.image_room =
          std::make_shared<ImageRoom>(spec, ranks.front().layout, device_footprint(gpu, arguments));
    }
  }
  result.max_num_seqs = rank->layout.limits.sequences;
  result.max_num_batched_tokens = rank->layout.limits.batched_tokens;
  fill_cache_layout(result, *rank);
  fill_parts(result, *rank);
  result.num_gpu_blocks = blocks_of(*rank);
  fill_cache(result, *rank, contexts, arguments);
  if (*result.fits && contexts.longest > 0) {
    result.schedule =
        shape_schedule(launch, *rank, result.num_gpu_blocks, footprint, gpu == nullptr);
  }
  result.stage = rank->stage;
  result.first_layer = rank->first_layer;
  result.layers = rank->layers;
  for (const RankLaunch& one : ranks) {
    if (ranks.size() > 1) result.stages.push_back(stage_figures(result, one, blocks_of(one)));
  }
  add_arguments(result, arguments.args);
  result.notes.insert(result.notes.end(), launch.notes.begin(), launch.notes.end());
  add_dtype_note(result, spec, arguments, model);
  add_notes(result, spec, *rank, arguments, launch::image_refusal(spec, arguments, footprint));
  if (gpu != nullptr) return result;
  const int64_t replicas = arguments.args.data_parallel;
  if (replicas > 1) {
    result.notes.push_back(fmt::format(
        "{} copies of the model: each holds this, but has the weights ({}) from the first",
        replicas, readable_bytes(borrowed_weights(ranks))));
  }
  refuse_above_host(result, ranks, arguments.args);
  if (arguments.on_host) return result;
  if (!*result.fits) result.notes.push_back("a run on this CPU would refuse: " + result.reason);
  result.reason.clear();
  result.fits.reset();  // no card, no verdict
  return result;
}

}  // namespace plimsoll::plan::own
