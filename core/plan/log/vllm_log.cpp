#include "plan/log/vllm_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "vllm/launch/machine.h"

namespace plimsoll::plan {
namespace {

/// The number after `at`, commas between its thousands left out; nothing where there is none.
std::optional<double> number_at(std::string_view text, size_t at) {
  std::string digits;
  while (at < text.size() && (text[at] == ' ' || text[at] == ':')) ++at;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ',' && !digits.empty()) continue;
    if ((c < '0' || c > '9') && c != '.' && !(c == '-' && digits.empty())) break;
    digits += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end == digits.data()) return std::nullopt;
  return value;
}

std::optional<double> number_after(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  return at == std::string_view::npos ? std::nullopt : number_at(line, at + words.size());
}

/// The number before `words`: "0.91 GiB (actual)".
std::optional<double> number_before(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  size_t from = at;
  while (from > 0 && line[from - 1] == ' ') --from;
  const size_t end = from;
  while (from > 0 && (std::isdigit(static_cast<unsigned char>(line[from - 1])) != 0 ||
                      line[from - 1] == '.' || line[from - 1] == '-'))
    --from;
  return number_at(line.substr(0, end), from);
}

template <typename Number>
void keep_first(std::optional<Number>& figure, std::optional<double> found) {
  if (found && !figure) figure = static_cast<Number>(*found);
}

template <typename Number>
void keep_least(std::optional<Number>& figure, std::optional<double> found) {
  if (!found) return;
  const auto value = static_cast<Number>(*found);
  figure = figure ? std::min(*figure, value) : value;
}

/// "Free memory on device cuda:0 (78.68/79.19 GiB) on startup ... is (0.95, 75.23 GiB)".
void read_start(std::string_view line, VllmLog& log) {
  const size_t at = line.find("Free memory on device");
  if (at == std::string_view::npos) return;
  const size_t open = line.find('(', at);
  if (open == std::string_view::npos) return;
  keep_first(log.free_at_start, number_at(line, open + 1));
  const size_t slash = line.find('/', open);
  if (slash != std::string_view::npos) keep_first(log.total, number_at(line, slash + 1));
  keep_first(log.utilization, number_after(line, "Desired GPU memory utilization is ("));
  keep_first(log.weights, number_before(line, "GiB for weight,"));
  keep_first(log.consumed, number_before(line, "GiB for consumed memory"));
  keep_first(log.activation, number_before(line, "GiB for peak activation"));
  keep_first(log.non_torch, number_before(line, "GiB for non-torch memory"));
}

/// The line of the first engine: "the current vLLM instance can use total_gpu_memory (23.69GiB) x
/// gpu_memory_utilization (0.90) = 21.32GiB", "model weights take 14.99GiB; ...".
void read_old_worker(std::string_view line, VllmLog& log) {
  keep_first(log.total, number_after(line, "total_gpu_memory ("));
  keep_first(log.utilization, number_after(line, "gpu_memory_utilization ("));
  keep_first(log.weights, number_after(line, "model weights take "));
  keep_first(log.non_torch, number_after(line, "non_torch_memory takes "));
  keep_first(log.activation, number_after(line, "PyTorch activation peak memory takes "));
  keep_first(log.available, number_after(line, "reserved for KV Cache is "));
}

void read_version(std::string_view line, VllmLog& log) {
  if (!log.version.empty()) return;
  for (const std::string_view words : {"LLM engine (v", "API server version ", " version "}) {
    const size_t at = line.find(words);
    if (at == std::string_view::npos) continue;
    const size_t from = at + words.size();
    const size_t end = std::min(line.find_first_not_of("0123456789.", from), line.size());
    const std::string_view found = line.substr(from, end - from);
    if (std::ranges::count(found, '.') >= 2) log.version = found;
    while (!log.version.empty() && log.version.back() == '.') log.version.pop_back();
    if (!log.version.empty()) return;
  }
}

void read_boot(std::string_view line, VllmLog& log) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  if (has("Directly load")) log.warm = log.warm.value_or(true);
  if (has("Compiling a graph for") || has("Cache the graph of")) log.warm = false;
}

/// v1/sample/ops/topk_topp_sampler.py; engine/arg_utils.py and the engines' first lines.
void read_choices(std::string_view line, VllmLog& log) {
  const auto has = [&](std::string_view words) { return line.find(words) != line.npos; };
  if (has("Using FlashInfer for top-p & top-k sampling")) log.flashinfer = true;
  for (const char* words :
       {"FlashInfer is not available. Falling back", "but it is not enabled. Falling back",
        "required. Falling back to default sampling", "sampling sampler is disabled because"})
    if (has(words)) log.flashinfer = false;
  if (has("Falling back to V0") || has("Initializing a V0 LLM engine")) log.first_engine = true;
  if (has("Initializing a V1 LLM engine")) log.first_engine = false;
}

void read_line(std::string_view line, VllmLog& log) {
  read_version(line, log);
  read_choices(line, log);
  read_boot(line, log);
  read_start(line, log);
  read_old_worker(line, log);
  keep_first(log.weights, number_after(line, "Model loading took "));
  keep_first(log.weights, number_after(line, "Loading model weights took "));
  keep_first(log.graphs_estimated, number_after(line, "Estimated CUDA graph memory: "));
  keep_first(log.graphs_taken, number_before(line, "GiB (actual)"));
  if (line.find("Graph capturing finished") != line.npos)
    keep_first(log.graphs_taken, number_after(line, "took "));
  keep_least(log.available, number_after(line, "Available KV cache memory: "));
  keep_least(log.tokens, number_after(line, "GPU KV cache size: "));
  for (const std::string_view device : {"GPU", "CUDA", "cuda"})  // by release of the first engine
    keep_least(log.blocks, number_after(line, fmt::format("# {} blocks: ", device)));
  keep_least(log.blocks, number_after(line, "num_gpu_blocks is: "));
  if (const size_t at = line.find("Maximum concurrency for "); at != line.npos)
    keep_least(log.concurrency, number_after(line.substr(at), "per request: "));
}

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / 0x1p30;
}

/// Which of a plan's parts are summed.
enum class Summed { in_budget, all };

/// Adds the plan's parts whose names begin so, with their edges.
void add_planned(const PlanResult& plan, std::string_view begins, Summed which, LoggedPart& to) {
  for (const PlanPart& one : plan.parts) {
    const bool counts = which == Summed::all || one.inside_budget;
    if (!one.name.starts_with(begins) || !counts) continue;
    to.planned += gib(one.bytes);
    to.low += gib(one.bytes - one.less);
    to.high += gib(one.bytes + one.more);
  }
}

/// Bytes that parts whose names begin so take, with their edges.
LoggedPart part_of(const PlanResult& plan, std::string name, std::string_view begins, double logged,
                   Summed which = Summed::in_budget) {
  LoggedPart part{std::move(name), "GiB", logged};
  add_planned(plan, begins, which, part);
  return part;
}

void add_weights(LogCheck& check, const VllmLog& log, const PlanResult& plan) {
  if (!log.weights) return;
  LoggedPart part = part_of(plan, "weights", "weights:", *log.weights);
  // Segments of the allocator and what repacking leaves (stage_launch.cpp).
  part.low *= 0.997;
  part.high *= plan.quantized ? 1.02 : 1.006;
  check.parts.push_back(part);
}

/// Whether the log's peak has the graphs' estimate inside it (gpu_worker.py from 0.27 on).
bool adds_graphs(const VllmLog& log) {
  return log.consumed.has_value();
}

void add_activation(LogCheck& check, const VllmLog& log, const PlanResult& plan) {
  if (!log.activation) return;
  LoggedPart part = part_of(plan, "peak activation", "activation:", *log.activation);
  if (plan.cold && log.warm && !*log.warm) {
    part.planned = part.low = gib(plan.cold->activation_peak_bytes);
    part.high = part.planned + 0.2;
  }
  if (adds_graphs(log)) add_planned(plan, "cuda graphs", Summed::in_budget, part);
  check.parts.push_back(part);
}

void add_non_torch(LogCheck& check, const VllmLog& log, const PlanResult& plan) {
  std::optional<double> logged = log.non_torch;
  if (!logged && log.consumed && log.weights) logged = *log.consumed - *log.weights;
  if (!logged) return;
  LoggedPart part = part_of(plan, "non-torch", "non-torch", *logged);
  if (!log.non_torch) {
    part.part = "non-torch and kept";
    part.planned += gib(plan.persistent_bytes);
    part.low += gib(plan.persistent_bytes);
    part.high += gib(plan.persistent_bytes);
  }
  check.parts.push_back(part);
}

/// Edges of the cache at the boot that the log shows: both boots' where it does not say.
void add_cache(LogCheck& check, const VllmLog& log, const PlanResult& plan) {
  if (!plan.bounds) return;
  const PlanResult::CacheBounds& bounds = *plan.bounds;
  const bool cold = plan.cold && log.warm && !*log.warm;
  const bool either = plan.cold && !log.warm;
  const double planned = gib(cold ? plan.cold->kv_cache.middle : bounds.middle.kv_cache_bytes);
  const double low = gib(cold || either ? plan.cold->kv_cache.low : bounds.low.kv_cache_bytes);
  const double high = gib(cold ? plan.cold->kv_cache.high : bounds.high.kv_cache_bytes);
  const auto add = [&](const char* unit, double logged, double middle) {
    const double scale = planned > 0 ? middle / planned : 0;
    check.parts.push_back({"KV cache", unit, logged, middle, low * scale, high * scale});
  };
  const double blocks =
      static_cast<double>(cold ? plan.cold->cache.num_gpu_blocks : bounds.middle.num_gpu_blocks);
  const double tokens =
      static_cast<double>(cold ? plan.cold->cache.kv_tokens : bounds.middle.kv_tokens);
  if (log.available) add("GiB", *log.available, planned);
  if (log.blocks) add("blocks", static_cast<double>(*log.blocks), blocks);
  if (log.tokens) add("tokens", static_cast<double>(*log.tokens), tokens);
  if (log.concurrency) {
    add("requests", *log.concurrency,
        cold ? plan.cold->cache.max_concurrency : bounds.middle.max_concurrency);
  }
}

/// Whether the plan takes FlashInfer's sampler for granted; nothing: it is no question.
std::optional<bool> planned_flashinfer(const PlanResult& plan) {
  const auto fact = std::ranges::find(plan.machine, vllm::kSamplerFact, &vllm::MachineFact::name);
  if (fact == plan.machine.end()) return std::nullopt;
  return fact->value == "yes";
}

const LoggedPart* find(const LogCheck& check, std::string_view name) {
  const auto at = std::ranges::find_if(
      check.parts, [&](const LoggedPart& part) { return part.part.starts_with(name); });
  return at == check.parts.end() ? nullptr : &*at;
}

void add_causes(LogCheck& check, const VllmLog& log, const PlanResult& plan) {
  const auto say = [&](std::string words) { check.causes.push_back(std::move(words)); };
  if (!log.version.empty() && log.version != plan.version) {
    say(fmt::format("the log is of vLLM {}, the plan of {}: --vllm-version {}", log.version,
                    plan.version, log.version));
  }
  if (log.first_engine && *log.first_engine != plan.first_engine) {
    say(fmt::format("the log is of the {} engine, the plan of the other: VLLM_USE_V1={}",
                    *log.first_engine ? "V0" : "V1", *log.first_engine ? 0 : 1));
  }
  const std::optional<bool> flashinfer = planned_flashinfer(plan);
  if (log.flashinfer && flashinfer && *log.flashinfer != *flashinfer) {
    say(fmt::format("in the log tokens are drawn {} FlashInfer: {}",
                    *log.flashinfer ? "by" : "without",
                    *log.flashinfer ? "--flashinfer-sampler" : "--no-flashinfer-sampler"));
  }
  if (log.utilization && std::abs(*log.utilization - plan.gpu_memory_utilization) > 0.0005) {
    say(
        fmt::format("the log has a utilization of {:.4g}, the plan of {:.4g}: "
                    "--gpu-memory-utilization {:.4g}",
                    *log.utilization, plan.gpu_memory_utilization, *log.utilization));
  }
  if (log.total && std::abs(*log.total - gib(plan.total_bytes)) > 0.1) {
    say(
        fmt::format("the card of the log has {:.2f} GiB, the plan's {:.2f}: --gpu or "
                    "--gpu-total-memory",
                    *log.total, gib(plan.total_bytes)));
  }
  if (log.free_at_start && log.total && *log.total - *log.free_at_start > 2.5) {
    say(
        fmt::format("{:.2f} GiB of the card were held before the launch: another process, or the "
                    "host's own where memory is shared (--reserved-memory)",
                    *log.total - *log.free_at_start));
  }
  const LoggedPart* cache = find(check, "KV cache");
  if (plan.cold && cache != nullptr && !log.warm && plan.bounds &&
      cache->logged < cache->planned * gib(plan.bounds->low.kv_cache_bytes) /
                          std::max(1e-9, gib(plan.bounds->middle.kv_cache_bytes))) {
    say("less cache than a warm boot has: the compile cache was empty (a cold boot)");
  }
  if (log.warm && !*log.warm) say("the log shows a cold boot: graphs were compiled in it");
  const LoggedPart* beside = find(check, "non-torch");
  if (beside != nullptr && beside->logged < beside->low && plan.gpus > 1)
    say("less outside torch than NVLink's all-reduce takes: --interconnect pcie");
  if (beside != nullptr && beside->logged > beside->high) {
    say("more outside torch than in the logs known: another process, or ranks joined otherwise "
        "(--interconnect)");
  }
}

std::string csv_row(const VllmLog& log, const PlanResult& plan) {
  const auto text = [](const auto& figure) {
    return figure ? fmt::format("{}", *figure) : std::string();
  };
  return fmt::format("{},\"{}\",\"{}\",{},{},{},{},{},{},{},{},{},{},{},{}",
                     log.version.empty() ? plan.version : log.version, plan.model, plan.gpu,
                     plan.gpus, text(log.utilization), plan.launched_model_len(), plan.max_num_seqs,
                     plan.max_num_batched_tokens, text(log.weights), text(log.activation),
                     text(log.non_torch ? log.non_torch : log.consumed), text(log.graphs_estimated),
                     text(log.available), log.blocks ? text(log.blocks) : text(log.tokens),
                     log.warm ? (*log.warm ? "warm" : "cold") : "");
}

}  // namespace

bool LoggedPart::is_inside() const {
  // Logs round to two decimals.
  const double rounding = unit == "GiB" ? 0.006 : unit == "requests" ? 0.006 : 0.5;
  return logged >= low - rounding && logged <= high + rounding;
}

bool is_vllm_log(std::string_view text) {
  constexpr std::string_view kLines[] = {"Available KV cache memory: ",
                                         "GPU KV cache size: ",
                                         "# GPU blocks: ",
                                         "# CUDA blocks: ",
                                         "# cuda blocks: ",
                                         "Model loading took ",
                                         "model weights take "};
  return std::ranges::any_of(kLines, [&](auto line) { return text.find(line) != text.npos; });
}

VllmLog read_vllm_log(std::string_view text) {
  VllmLog log;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    read_line(text.substr(0, end), log);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return log;
}

LogCheck check_log(const VllmLog& log, const PlanResult& plan) {
  LogCheck check;
  add_weights(check, log, plan);
  add_activation(check, log, plan);
  add_non_torch(check, log, plan);
  if (log.graphs_estimated) {
    // Some releases print the estimate and leave it out of the budget.
    check.parts.push_back(
        part_of(plan, "CUDA graphs", "cuda graphs", *log.graphs_estimated, Summed::all));
  }
  add_cache(check, log, plan);
  check.inside = std::ranges::all_of(check.parts, &LoggedPart::is_inside);
  add_causes(check, log, plan);
  return check;
}

std::vector<std::string> log_table(const LogCheck& check, const VllmLog& log,
                                   const PlanResult& plan) {
  std::vector<std::string> lines = {
      fmt::format("{:<20} {:>11} {:>11} {:>25}", "part", "logged", "planned", "bounds")};
  for (const LoggedPart& part : check.parts) {
    const int decimals = part.unit == "GiB" || part.unit == "requests" ? 2 : 0;
    lines.push_back(fmt::format(
        "{:<20} {:>11.{}f} {:>11.{}f} {:>25}{}", part.part, part.logged, decimals, part.planned,
        decimals,
        fmt::format("{:.{}f} to {:.{}f} {}", part.low, decimals, part.high, decimals, part.unit),
        part.is_inside() ? "" : "  outside"));
  }
  for (const std::string& cause : check.causes) lines.push_back("  " + cause);
  lines.push_back(check.inside ? "  inside the bounds" : "  outside the bounds");
  lines.emplace_back(
      "vllm_version,model,gpu,gpus,gpu_memory_utilization,max_model_len,max_num_seqs,"
      "max_num_batched_tokens,weights_gib,activation_peak_gib,non_torch_gib,"
      "cudagraph_estimated_gib,kv_available_gib,blocks_or_tokens,boot");
  lines.push_back(csv_row(log, plan));
  return lines;
}

}  // namespace plimsoll::plan
