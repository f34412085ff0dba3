// Advice for a launch that does not fit: changes that help, each planned in full, and settings that
// change nothing.
#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "launch/parameters.h"
#include "plan/prompt_load.h"
#include "plan/solver.h"

namespace plimsoll::plan {
namespace {

/// A change of one flag; without one, another checkpoint: the model quantized to 4 bits (AWQ).
struct Change {
  std::string words;
  std::string flag;
  std::string value;  // of a switch none
  std::string cost;

  /// The change as a user types it.
  [[nodiscard]] std::string text() const {
    if (value.empty()) return flag;
    return value.front() == '{' ? fmt::format("{} '{}'", flag, value) : flag + " " + value;
  }
  void apply(EngineArgs& args) const {
    if (flag.empty()) {
      args.as_awq = true;
    } else {
      launch::change(args, flag, value.empty() ? "true" : value);
    }
  }
};

/// Cost of 8-bit floating point on a card, in words.
std::string fp8_cost(const hardware::Gpu* gpu, const char* lossy, const char* slower) {
  const hardware::Capability card = hardware::capability_of(gpu);
  if (!card.known) return fmt::format("{}; {} before Ada and Hopper cards", lossy, slower);
  return card.fp8 ? lossy : fmt::format("{}; {}", lossy, slower);
}

void add_quantization(std::vector<Change>& changes, const EngineArgs& args,
                      const hardware::Gpu* gpu) {
  changes.push_back({"fp8 weights, quantized while loading", "--quantization", "fp8",
                     fp8_cost(gpu, "a little accuracy", "no faster products")});
  if (args.version < vllm::kWithoutBitsandbytes) {
    changes.push_back({"4-bit weights, quantized while loading", "--quantization", "bitsandbytes",
                       "accuracy, and speed"});
  } else {
    changes.push_back({"a 4-bit checkpoint of the model (AWQ, groups of 128), if there is one", "",
                       "", "accuracy; another download"});
  }
}

/// Settings of processors that make the largest image smaller: they change nothing where a model's
/// processor has none of the name.
void add_image_settings(std::vector<Change>& changes) {
  const auto add = [&](std::string words, const std::string& name, int64_t value) {
    changes.push_back({std::move(words), "--mm-processor-kwargs",
                       fmt::format("{{\"{}\": {}}}", name, value), "details of large images"});
  };
  add("images of at most 1280 squares of 28 x 28 pixels", "max_pixels", 1280 * 28 * 28);
  add("images in at most 4 tiles", "max_dynamic_patch", 4);
}

/// Bytes that a launch needs while one request of the longest length runs.
Amount needed_bytes(const PlanResult& result) {
  return Amount{result.weights_bytes} - result.offloaded_bytes + result.activation_peak_bytes +
         result.non_torch_bytes + result.persistent_bytes + result.cuda_graph_bytes +
         Amount{blocks_of_sequence(result, result.max_model_len)} * result.bytes_per_block;
}

std::vector<Change> single_changes(const EngineArgs& args, const PlanResult& base,
                                   const hardware::Gpu* gpu, int64_t ranks) {
  std::vector<Change> changes;
  const auto add = [&](std::string words, std::string flag, std::string value, std::string cost) {
    changes.push_back({std::move(words), std::move(flag), std::move(value), std::move(cost)});
  };
  const int64_t longest = base.estimated_max_model_len;
  if (longest > 0 && longest < base.max_model_len) {
    add("the longest context that fits", "--max-model-len", std::to_string(longest),
        "longer requests are refused");
  }
  const bool states =
      std::any_of(base.kv_kinds.begin(), base.kv_kinds.end(),
                  [](const KvKindCount& kind) { return kind.spec.kind == KvKind::state; });
  const int64_t blocks = base.num_gpu_blocks;
  if (states && blocks > 0 && base.max_num_seqs > blocks) {
    add("as many sequences as there are blocks of state", "--max-num-seqs", std::to_string(blocks),
        "throughput with many requests");
  }
  const int64_t half = base.max_model_len / 2;
  if (half >= 256) {
    add("half the context", "--max-model-len", std::to_string(half), "longer requests are refused");
  }
  if (args.kv_cache_dtype == "auto") {
    add("an fp8 KV cache", "--kv-cache-dtype", "fp8",
        fp8_cost(gpu, "a little accuracy", "few attention kernels take it"));
  }
  for (const int64_t seqs : {64, 16}) {
    if (seqs >= base.max_num_seqs) continue;
    add(fmt::format("{} sequences at once", seqs), "--max-num-seqs", std::to_string(seqs),
        "throughput with many requests");
    break;
  }
  for (const int64_t tokens : {2048, 512}) {
    if (tokens >= base.max_num_batched_tokens) continue;
    add(fmt::format("{} tokens a step", tokens), "--max-num-batched-tokens", std::to_string(tokens),
        "slower reading of long prompts");
    break;
  }
  if (base.cold && !base.cold->cache.fits && base.bounds->middle.fits) {
    add("the KV cache that a later boot finds, whatever the first one measures",
        "--kv-cache-memory-bytes", std::to_string(base.bounds->middle.kv_cache_bytes),
        "a boot no longer measures: where more is taken than planned, the card runs out of memory");
  }
  add(fmt::format("tensor parallel over {} GPUs", ranks), "--tensor-parallel-size",
      std::to_string(ranks), "more cards; communication in every layer");
  if (!base.quantized) {
    add_quantization(changes, args, gpu);
  }
  if (!args.enforce_eager && base.cuda_graphs > 0) {
    const bool own = base.engine != "vllm";  // whose flag takes sizes with commas
    add("graphs for 1, 2, 4, 8 and 16 alone",
        own ? "--cudagraph-capture-sizes" : "--compilation-config",
        own ? "1,2,4,8,16" : R"({"cudagraph_capture_sizes": [1, 2, 4, 8, 16]})",
        "slower steps of larger batches");
    add("no CUDA graphs", "--enforce-eager", "", "slower decoding");
  }
  if (base.gpu_memory_utilization < 0.95 && args.available_kv == 0) {
    add("a larger share of the card", "--gpu-memory-utilization", "0.95",
        "less room for other processes and for graphs");
  }
  if (base.image_tokens > 0 && args.processor.empty()) add_image_settings(changes);
  if (args.limits.empty() && !args.language_only) {
    add("text only, no vision encoder", "--limit-mm-per-prompt", R"({"image": 0, "video": 0})",
        "requests with images or videos are refused");
  }
  if (args.cpu_offload == 0 && args.available_kv == 0) {
    const Amount lacking = needed_bytes(base) - base.budget_bytes;
    const Amount part = lacking > Amount{0} ? lacking : Amount{base.weights_bytes / 4};
    const int64_t gib = std::max<int64_t>(1, ceil_div(part, kGiB).value());
    add(fmt::format("{} GiB of the weights kept on the host", gib), "--cpu-offload-gb",
        std::to_string(gib), "much slower: they cross the bus in every step");
  }
  return changes;
}

/// Bytes that a change gains: those that the launch needs less, and the growth of the budget.
int64_t saved_bytes(const PlanResult& base, const PlanResult& changed) {
  return (needed_bytes(base) - needed_bytes(changed) + changed.budget_bytes - base.budget_bytes)
      .value();
}

/// The plan; nullopt where the engine refuses the arguments.
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

/// Whether a change is about what binds: the peak of the first boot; or of a step where that takes
/// more than a sixteenth of the budget and the change makes it a quarter smaller at least.
bool is_about_peak(const Change& change, const PlanResult& base, const PlanResult& changed) {
  if (change.flag == "--kv-cache-memory-bytes") return true;
  if (change.flag != "--max-num-batched-tokens" && change.flag != "--max-num-seqs") return false;
  const Amount peak = Amount{base.activation_peak_bytes} + base.persistent_bytes;
  const Amount after = Amount{changed.activation_peak_bytes} + changed.persistent_bytes;
  return peak > Amount{base.budget_bytes / 16} && after < peak - peak / 4;
}

Suggestion suggestion_of(const PlanResult& base, const PlanResult& changed,
                         const std::vector<const Change*>& changes) {
  Suggestion suggestion;
  for (const Change* change : changes) {
    suggestion.change += (suggestion.change.empty() ? "" : ", and ") + change->words;
    suggestion.flag += (suggestion.flag.empty() ? "" : " ") + change->text();
    suggestion.cost += (suggestion.cost.empty() ? "" : "; ") + change->cost;
  }
  if (changed.first_engine && !base.first_engine)
    suggestion.cost += "; vLLM falls back to its V0 engine";
  if (changed.image_tokens > 0 && changed.image_tokens < base.image_tokens) {
    suggestion.change += fmt::format(" (an image has at most {} tokens, not {})",
                                     changed.image_tokens, base.image_tokens);
  }
  suggestion.saves = saved_bytes(base, changed);
  suggestion.fits = changed.fits.value_or(false);
  suggestion.measures = std::ssize(changes);
  suggestion.requests_before = base.max_concurrency;
  suggestion.requests = changed.max_concurrency;
  suggestion.length =
      changed.auto_max_model_len > 0 ? changed.auto_max_model_len : changed.max_model_len;
  if (!base.fits.value_or(true)) {
    suggestion.longest_before = base.estimated_max_model_len;
    suggestion.longest = std::max(changed.estimated_max_model_len, suggestion.longest_before);
  }
  return suggestion;
}

/// A change that helps, though not enough alone.
struct Partial {
  const Change* change;
  Amount saves;
};

/// Subject of a change: a launch takes only one of the changes on a subject.
std::string subject_of(const Change& change) {
  if (change.flag.find("-mm-") != std::string::npos) return "images";
  if (change.flag == "--enforce-eager" || change.flag.starts_with("--cudagraph") ||
      change.flag == "--compilation-config")
    return "graphs";
  return change.flag.empty() ? "--quantization" : change.flag;  // another checkpoint
}

bool about_different_things(const std::vector<Partial>& chosen, const Change& next) {
  return std::none_of(chosen.begin(), chosen.end(), [&](const Partial& partial) {
    return subject_of(*partial.change) == subject_of(next);
  });
}

/// Tries combinations of `count` of the changes from `first` on, `chosen` among them, and adds
/// those that fit. Savings hardly ever add up to more than their sum: combinations whose known
/// savings stay far from what is lacking are not planned.
void add_combinations(
    std::vector<Suggestion>& advice,
    const std::function<std::optional<PlanResult>(const std::vector<const Change*>&)>& planned,
    const PlanResult& base, const std::vector<Partial>& partial, size_t first, size_t count,
    std::vector<Partial>& chosen) {
  if (chosen.size() == count) {
    Amount known = 0;
    bool all_known = true;
    std::vector<const Change*> changes;
    for (const Partial& each : chosen) {
      known += each.saves;
      all_known &= each.saves > Amount{0};
      changes.push_back(each.change);
    }
    const Amount lacking = needed_bytes(base) - base.budget_bytes;
    if (all_known && known < lacking - lacking / 4) return;
    const std::optional<PlanResult> changed = planned(changes);
    if (changed && changed->fits.value_or(false))
      advice.push_back(suggestion_of(base, *changed, changes));
    return;
  }
  for (size_t i = first; i < partial.size(); ++i) {
    if (!about_different_things(chosen, *partial[i].change)) continue;
    chosen.push_back(partial[i]);
    add_combinations(advice, planned, base, partial, i + 1, count, chosen);
    chosen.pop_back();
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
  add("lowering gpu_memory_utilization", "makes the KV cache smaller, so it does not help here",
      "--gpu-memory-utilization");
}

}  // namespace

std::vector<Suggestion> advise(const PlanFunction& plan, const EngineArgs& args,
                               const hardware::Gpu* gpu, const PlanResult& base) {
  const std::vector<Change> changes =
      single_changes(args, base, gpu, fewest_ranks(plan, args, gpu, base));
  const auto planned = [&](const std::vector<const Change*>& together) {
    return try_change(plan, args, gpu, together);
  };
  std::vector<Suggestion> advice;
  std::vector<Partial> partial;
  bool enough = false;  // one fits that needs neither more cards nor the host's memory
  for (const Change& change : changes) {
    const std::optional<PlanResult> changed = planned({&change});
    if (!changed) continue;
    Suggestion suggestion = suggestion_of(base, *changed, {&change});
    const bool more = changed->estimated_max_model_len > base.estimated_max_model_len ||
                      changed->max_concurrency > base.max_concurrency;
    if (suggestion.saves <= 0 && !suggestion.fits && !more) continue;
    if (suggestion.saves <= 0 && base.fits.value_or(true) && !more) continue;
    const std::string subject = subject_of(change);
    const bool dear = subject == "--tensor-parallel-size" || subject == "--cpu-offload-gb";
    suggestion.leads = is_about_peak(change, base, *changed);
    if (!suggestion.fits) partial.push_back({&change, suggestion.saves});
    enough |= suggestion.fits && !dear;
    advice.push_back(std::move(suggestion));
  }
  std::stable_sort(partial.begin(), partial.end(),
                   [](const Partial& a, const Partial& b) { return a.saves > b.saves; });
  constexpr size_t kMostPaired = 12;
  constexpr size_t kMostTripled = 7;
  const size_t singles = advice.size();
  for (size_t count = 2; count <= 3 && !enough && !base.fits.value_or(true); ++count) {
    partial.resize(std::min(partial.size(), count == 2 ? kMostPaired : kMostTripled));
    std::vector<Partial> chosen;
    add_combinations(advice, planned, base, partial, 0, count, chosen);
    enough = advice.size() > singles;
  }
  std::stable_sort(advice.begin(), advice.end(), [](const Suggestion& a, const Suggestion& b) {
    if (a.fits != b.fits) return a.fits;
    if (a.leads != b.leads) return a.leads;
    if (a.measures != b.measures) return a.measures < b.measures;
    const auto order = [](const Suggestion& s) {
      return std::tuple(s.longest, s.requests, s.saves);
    };
    return order(a) > order(b);
  });
  add_dead_ends(advice, args);
  return advice;
}

}  // namespace plimsoll::plan
