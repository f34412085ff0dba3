// What to change when a launch does not fit, each change planned in full, and what changes nothing.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "plan/prompt_load.h"
#include "plan/solver.h"

namespace plimsoll::plan {
namespace {

struct Change {
  std::string words;
  std::string flag;
  std::string cost;
  std::function<void(EngineArgs&)> apply;
};

/// What a card pays for 8-bit floating point.
std::string fp8_cost(const hardware::Gpu* gpu, const char* lossy, const char* slower) {
  const hardware::Capability card = hardware::capability_of(gpu);
  if (!card.known) return fmt::format("{}; {} before Ada and Hopper cards", lossy, slower);
  return card.fp8 ? lossy : fmt::format("{}; {}", lossy, slower);
}

void add_quantization(std::vector<Change>& changes, const EngineArgs& args,
                      const hardware::Gpu* gpu) {
  changes.push_back({"fp8 weights, quantized while loading", "--quantization fp8",
                     fp8_cost(gpu, "a little accuracy", "no faster products"),
                     [](EngineArgs& a) { a.quantization = "fp8"; }});
  if (args.version < vllm::kWithoutBitsandbytes) {
    changes.push_back({"4-bit weights, quantized while loading", "--quantization bitsandbytes",
                       "accuracy, and speed",
                       [](EngineArgs& a) { a.quantization = "bitsandbytes"; }});
  } else {
    changes.push_back({"a 4-bit checkpoint of the model (AWQ, groups of 128), if there is one", "",
                       "accuracy; another download", [](EngineArgs& a) { a.as_awq = true; }});
  }
}

/// Settings of processors that make the largest image smaller: they change nothing where a model's
/// processor has none of the name.
void add_image_settings(std::vector<Change>& changes) {
  const auto add = [&](std::string words, const std::string& name, int64_t value) {
    changes.push_back(
        {std::move(words), fmt::format("--mm-processor-kwargs '{{\"{}\": {}}}'", name, value),
         "details of large images", [name, value](EngineArgs& a) { a.processor[name] = value; }});
  };
  add("images of at most 1280 squares of 28 x 28 pixels", "max_pixels", 1280 * 28 * 28);
  add("images in at most 4 tiles", "max_dynamic_patch", 4);
}

std::vector<Change> single_changes(const EngineArgs& args, const PlanResult& base,
                                   const hardware::Gpu* gpu, int64_t ranks) {
  std::vector<Change> changes;
  const auto add = [&](std::string words, std::string flag, std::string cost,
                       std::function<void(EngineArgs&)> apply) {
    changes.push_back({std::move(words), std::move(flag), std::move(cost), std::move(apply)});
  };
  if (base.auto_max_model_len > 0 || base.estimated_max_model_len > 0) {
    const int64_t length =
        base.auto_max_model_len > 0 ? base.auto_max_model_len : base.estimated_max_model_len;
    if (length < base.max_model_len) {
      add("the longest context that fits", fmt::format("--max-model-len {}", length),
          "longer requests are refused", [length](EngineArgs& a) { a.max_model_len = length; });
    }
  }
  const bool states =
      std::any_of(base.kv_kinds.begin(), base.kv_kinds.end(),
                  [](const KvKindCount& kind) { return kind.spec.kind == KvKind::state; });
  const int64_t blocks = base.num_gpu_blocks;
  if (states && blocks > 0 && base.max_num_seqs > blocks) {
    add("as many sequences as there are blocks of state", fmt::format("--max-num-seqs {}", blocks),
        "throughput with many requests", [blocks](EngineArgs& a) { a.max_num_seqs = blocks; });
  }
  const int64_t half = base.max_model_len / 2;
  if (half >= 256) {
    add("half the context", fmt::format("--max-model-len {}", half), "longer requests are refused",
        [half](EngineArgs& a) { a.max_model_len = half; });
  }
  if (args.kv_cache_dtype == "auto") {
    add("an fp8 KV cache", "--kv-cache-dtype fp8",
        fp8_cost(gpu, "a little accuracy", "few attention kernels take it"),
        [](EngineArgs& a) { a.kv_cache_dtype = "fp8"; });
  }
  for (const int64_t seqs : {64, 16}) {
    if (seqs >= base.max_num_seqs) continue;
    add(fmt::format("{} sequences at once", seqs), fmt::format("--max-num-seqs {}", seqs),
        "throughput with many requests", [seqs](EngineArgs& a) { a.max_num_seqs = seqs; });
    break;
  }
  if (base.max_num_batched_tokens > 2048) {
    add("2048 tokens a step", "--max-num-batched-tokens 2048", "slower reading of long prompts",
        [](EngineArgs& a) { a.max_num_batched_tokens = 2048; });
  }
  add(fmt::format("tensor parallel over {} GPUs", ranks),
      fmt::format("--tensor-parallel-size {}", ranks), "more cards; communication in every layer",
      [ranks](EngineArgs& a) { a.tensor_parallel = ranks; });
  if (!base.quantized) {
    add_quantization(changes, args, gpu);
  }
  if (!args.enforce_eager && base.cuda_graphs > 0) {
    add("graphs for 1, 2, 4, 8 and 16 alone", "--cudagraph-capture-sizes 1,2,4,8,16",
        "slower steps of larger batches", [](EngineArgs& a) {
          a.capture_sizes = std::vector<int64_t>{1, 2, 4, 8, 16};
        });
    add("no CUDA graphs", "--enforce-eager", "slower decoding",
        [](EngineArgs& a) { a.enforce_eager = true; });
  }
  if (base.gpu_memory_utilization < 0.95 && args.available_kv == 0) {
    add("a larger share of the card", "--gpu-memory-utilization 0.95",
        "less room for other processes and for graphs",
        [](EngineArgs& a) { a.gpu_memory_utilization = 0.95; });
  }
  if (base.image_tokens > 0 && args.processor.empty()) add_image_settings(changes);
  if (args.limits.empty() && !args.language_only) {
    add("no images or videos", R"(--limit-mm-per-prompt '{"image": 0, "video": 0}')", "text alone",
        [](EngineArgs& a) {
          a.limits = {{"image", {}}, {"video", {}}};
        });
  }
  if (args.cpu_offload == 0 && args.available_kv == 0) {
    const int64_t part = std::max<int64_t>(int64_t{1} << 30, base.weights_bytes / 4);
    const int64_t gib = (part + (int64_t{1} << 30) - 1) >> 30;
    add(fmt::format("{} GiB of the weights kept on the host", gib),
        fmt::format("--cpu-offload-gb {}", gib), "much slower: they cross the bus in every step",
        [gib](EngineArgs& a) { a.cpu_offload = gib << 30; });
  }
  return changes;
}

/// What a launch takes when one request of the longest length runs.
Amount needed_bytes(const PlanResult& result) {
  return Amount{result.weights_bytes} + result.activation_peak_bytes + result.non_torch_bytes +
         result.cuda_graph_bytes +
         Amount{blocks_of_sequence(result, result.max_model_len)} * result.bytes_per_block;
}

/// How much less it takes, and what the budget grows by.
int64_t saved_bytes(const PlanResult& base, const PlanResult& changed) {
  return (needed_bytes(base) - needed_bytes(changed) + changed.budget_bytes - base.budget_bytes)
      .value();
}

/// Nothing where the engine refuses the arguments.
std::optional<PlanResult> plan_or_nothing(const PlanFunction& plan, const EngineArgs& args,
                                          const hardware::Gpu* gpu) {
  try {
    return plan(args, gpu);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<PlanResult> try_change(const PlanFunction& plan, const EngineArgs& args,
                                     const hardware::Gpu* gpu,
                                     const std::vector<const Change*>& changes) {
  EngineArgs changed = args;
  for (const Change* change : changes) change->apply(changed);
  return plan_or_nothing(plan, changed, gpu);
}

/// The fewest ranks that fit, of twice, four and eight times today's; twice if none does.
int64_t fewest_ranks(const PlanFunction& plan, const EngineArgs& args, const hardware::Gpu* gpu,
                     const PlanResult& base) {
  EngineArgs changed = args;
  for (const int64_t factor : {2, 4, 8}) {
    // No rank holds less than its part of the weights.
    if (base.budget_bytes > 0 && base.weights_bytes / factor > base.budget_bytes) continue;
    changed.tensor_parallel = args.tensor_parallel * factor;
    const std::optional<PlanResult> planned = plan_or_nothing(plan, changed, gpu);
    if (planned && planned->fits.value_or(false)) return changed.tensor_parallel;
  }
  return args.tensor_parallel * 2;
}

Suggestion suggestion_of(const PlanResult& base, const PlanResult& changed,
                         const std::vector<const Change*>& changes) {
  Suggestion suggestion;
  for (const Change* change : changes) {
    suggestion.change += (suggestion.change.empty() ? "" : ", with ") + change->words;
    suggestion.flag += (suggestion.flag.empty() ? "" : " ") + change->flag;
    suggestion.cost += (suggestion.cost.empty() ? "" : "; ") + change->cost;
  }
  if (changed.image_tokens < base.image_tokens) {
    suggestion.change += fmt::format(" (an image has at most {} tokens, not {})",
                                     changed.image_tokens, base.image_tokens);
  }
  suggestion.saves = saved_bytes(base, changed);
  suggestion.fits = changed.fits.value_or(false);
  return suggestion;
}

/// The pairs that fit. Savings hardly ever add up to more than their sum: pairs whose known savings
/// stay far from what is lacking are not planned.
void add_pairs(std::vector<Suggestion>& advice, const PlanFunction& plan, const EngineArgs& args,
               const hardware::Gpu* gpu, const PlanResult& base,
               const std::vector<std::pair<const Change*, Amount>>& partial) {
  const Amount lacking = needed_bytes(base) - base.budget_bytes;
  for (size_t i = 0; i < partial.size(); ++i) {
    for (size_t j = i + 1; j < partial.size(); ++j) {
      const Amount first = partial[i].second;
      const Amount second = partial[j].second;
      const bool known = std::min(first, second) > Amount{0};
      if (known && first + second < lacking - lacking / 4) continue;
      const std::vector<const Change*> pair = {partial[i].first, partial[j].first};
      const std::optional<PlanResult> changed = try_change(plan, args, gpu, pair);
      if (changed && changed->fits.value_or(false)) {
        advice.push_back(suggestion_of(base, *changed, pair));
      }
    }
  }
}

void add_dead_ends(std::vector<Suggestion>& advice, const EngineArgs& args) {
  const auto add = [&](std::string change, std::string why, std::string flag = "") {
    advice.push_back({std::move(change), std::move(flag), 0, std::move(why), false, false});
  };
  add("emptying caches (torch.cuda.empty_cache, PYTORCH_CUDA_ALLOC_CONF)",
      "the pool is sized from what is left after weights and activations, not from fragments");
  add("prefix caching, on or off", "it shares blocks of the same pool; the pool's size stays",
      "--enable-prefix-caching");
  add("more data-parallel copies", "each copy holds all weights again", "--data-parallel-size");
  add("more GPUs without tensor parallelism", "one process uses one GPU unless told otherwise");
  if (!args.limits.empty()) {
    add("a lower count of images above 0",
        "one image of the largest size is profiled all the same");
  }
  add("a lower gpu_memory_utilization against running out of cache",
      "it takes the cache's memory away");
}

}  // namespace

std::vector<Suggestion> advise(const PlanFunction& plan, const EngineArgs& args,
                               const hardware::Gpu* gpu, const PlanResult& base) {
  const std::vector<Change> changes =
      single_changes(args, base, gpu, fewest_ranks(plan, args, gpu, base));
  std::vector<Suggestion> advice;
  std::vector<std::pair<const Change*, Amount>> partial;  // help, but not enough alone
  for (const Change& change : changes) {
    const std::optional<PlanResult> changed = try_change(plan, args, gpu, {&change});
    if (!changed) continue;
    Suggestion suggestion = suggestion_of(base, *changed, {&change});
    const bool longer = changed->estimated_max_model_len > base.estimated_max_model_len ||
                        changed->kv_tokens > base.kv_tokens;
    if (suggestion.saves <= 0 && !suggestion.fits && !longer) continue;
    if (suggestion.saves <= 0 && base.fits.value_or(true) && !longer) continue;
    if (!suggestion.fits) partial.emplace_back(&change, suggestion.saves);
    advice.push_back(std::move(suggestion));
  }
  const bool enough =
      std::any_of(advice.begin(), advice.end(), [](const Suggestion& s) { return s.fits; });
  if (!enough) add_pairs(advice, plan, args, gpu, base, partial);
  std::stable_sort(advice.begin(), advice.end(), [](const Suggestion& a, const Suggestion& b) {
    if (a.fits != b.fits) return a.fits;
    return a.saves > b.saves;
  });
  add_dead_ends(advice, args);
  return advice;
}

}  // namespace plimsoll::plan
