#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/size_text.h"
#include "base/wrapped_text.h"
#include "plan/report/prompts.h"
#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

std::string bar(int64_t bytes, int64_t whole, int width) {
  if (whole <= 0 || bytes <= 0) return std::string(static_cast<size_t>(width), ' ');
  const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(whole));
  const auto filled = static_cast<size_t>(std::lround(share * width));
  std::string text(std::max<size_t>(filled, 1), '#');
  text.resize(static_cast<size_t>(width), ' ');
  return text;
}

const char* kind_words(KvKind kind) {
  switch (kind) {
    case KvKind::full:
      return "full attention";
    case KvKind::sliding:
      return "sliding window";
    case KvKind::chunked:
      return "chunked attention";
    case KvKind::latent:
      return "latent attention";
    case KvKind::sliding_latent:
      return "latent, sliding window";
    case KvKind::state:
      return "recurrent state";
    case KvKind::crossed:
      return "cross attention";
    case KvKind::ring:
      return "tokens not yet pooled";
  }
  return "";
}

/// True when the verdict is about this machine's memory.
bool is_for_host(const PlanResult& result) {
  return result.gpu.empty() && result.fits && result.host_needed > 0;
}

std::string head(const PlanResult& result, int columns) {
  std::string text = fmt::format("{:.80}\n", result.model);
  text += fmt::format("  {}{}{}, {}{}{}\n",
                      result.architecture.empty() ? "no architecture named" : result.architecture,
                      result.dtype.empty() ? "" : ", ", result.dtype, result.engine,
                      result.version.empty() ? "" : " " + result.version,
                      result.planned_as.empty()
                          ? ""
                          : fmt::format(" (not known yet: planned as {})", result.planned_as));
  if (!result.gpu.empty()) {
    text += fmt::format("  {} x {}, {} each", result.gpus, result.gpu,
                        readable_bytes(result.total_bytes));
    if (result.budget_bytes > 0) {
      text += fmt::format("; budget {} ({:.4g})", readable_bytes(result.budget_bytes),
                          result.gpu_memory_utilization);
    }
    text += "\n";
  }
  if (is_for_host(result)) {
    text += fmt::format("  on this machine's processor: {} needed of {} available\n",
                        readable_bytes(result.host_needed), readable_bytes(result.host_left));
  }
  if (result.fits) {
    std::string verdict = verdict_name(result);
    std::ranges::transform(verdict, verdict.begin(),
                           [](unsigned char c) { return std::toupper(c); });
    text += fmt::format("\n{}\n", verdict);
  } else {
    text += result.gpu.empty() ? "\nNo card given (--gpu NAME): sizes without a verdict.\n"
                               : "\nNO VERDICT\n";
  }
  if (!result.reason.empty()) text += wrapped_text(result.reason, columns, 2);
  if (!result.solved.empty()) text += wrapped_text(result.solved, columns, 2);
  return text + "\n";
}

std::string breakdown(const PlanResult& result, int columns) {
  if (result.parts.empty()) return "";
  int64_t whole = result.budget_bytes;
  if (whole == 0) {
    for (const PlanPart& part : result.parts) whole += std::max<int64_t>(0, part.bytes);
  }
  constexpr int kNames = 30;
  constexpr int kNumbers = 11;
  const int room = std::max(8, columns - kNames - kNumbers - 4);
  const char* const whose = is_for_host(result) ? "Memory" : "Memory per GPU";
  std::string text = result.stages.empty()
                         ? fmt::format("{} (largest rank)\n", whose)
                         : fmt::format("{} (stage {}, the tightest)\n", whose, result.stage);
  for (const PlanPart& part : result.parts) {
    std::string line =
        fmt::format("  {:<{}.{}}{:>{}} {}{}", part.name, kNames, kNames, readable_bytes(part.bytes),
                    kNumbers, bar(part.bytes, whole, room), part.inside_budget ? "" : "*");
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const bool outside = std::any_of(result.parts.begin(), result.parts.end(),
                                   [](const PlanPart& part) { return !part.inside_budget; });
  if (outside) text += "  * taken outside the budget by this version\n";
  return text + "\n";
}

/// The stages of a pipeline beside each other.
std::string stages(const PlanResult& result) {
  if (result.stages.empty()) return "";
  std::string text = fmt::format("Stages{:>10}{:>14}{:>14}{:>14}{:>12}\n", "layers", "weights",
                                 "activation", "kv cache", "blocks");
  for (const StageFigures& stage : result.stages) {
    text += fmt::format("  {:>2}{:>12}{:>14}{:>14}{:>14}{:>12}{}\n", stage.stage,
                        fmt::format("{}-{}", stage.first_layer,
                                    stage.first_layer + std::max<int64_t>(stage.layers, 1) - 1),
                        readable_bytes(stage.weights_bytes),
                        readable_bytes(stage.activation_peak_bytes),
                        result.has_kv ? readable_bytes(stage.kv_cache_bytes) : "-",
                        result.has_kv ? std::to_string(stage.num_gpu_blocks) : "-",
                        stage.stage == result.stage ? "  tightest" : "");
  }
  return text + "\n";
}

/// Some layers keep the tokens of a window alone.
bool windowed(const PlanResult& result) {
  return std::any_of(result.kv_kinds.begin(), result.kv_kinds.end(),
                     [](const KvKindCount& kind) { return kind.spec.window > 0; });
}

int64_t layers_of(const PlanResult& result) {
  int64_t layers = 0;
  for (const KvKindCount& kind : result.kv_kinds) layers += kind.layers;
  return layers;
}

/// "  38.20 GiB (37.60 to 38.40)": the cache's size with its edges.
std::string bounds_text(const PlanResult& result) {
  if (!result.bounds) return "";
  const PlanResult::CacheBounds& bounds = *result.bounds;
  return fmt::format("  {} ({} to {}){}\n", readable_bytes(bounds.middle.kv_cache_bytes),
                     readable_bytes(bounds.low.kv_cache_bytes),
                     readable_bytes(bounds.high.kv_cache_bytes),
                     result.assume == vllm::Assume::worst ? ", planned at the worst edge" : "");
}

/// The first boot, where it finds less for the cache than the later ones.
std::string cold_text(const PlanResult& result, int columns) {
  if (!result.cold || result.cold->cache.kv_cache_bytes == result.kv_cache_bytes) return "";
  const CacheFigures& cache = result.cold->cache;
  return wrapped_text(
      fmt::format("First boot (empty compile cache): {} ({} to {}), {} blocks, {} tokens, {:.2f} "
                  "requests, as torch.compile's trial runs raise the peak to {}{}",
                  readable_bytes(cache.kv_cache_bytes), readable_bytes(result.cold->kv_cache.low),
                  readable_bytes(result.cold->kv_cache.high), cache.num_gpu_blocks, cache.kv_tokens,
                  cache.max_concurrency, readable_bytes(result.cold->activation_peak_bytes),
                  cache.fits ? "" : "; it is refused"),
      columns, 2);
}

/// What another engine makes of its cache, and what it will log.
std::string other_cache(const PlanResult& result, int columns) {
  std::string text;
  if (result.has_kv) {
    text += "KV cache\n" + bounds_text(result);
    text += fmt::format("  {} tokens of {} each, in blocks of {}\n", result.kv_tokens,
                        readable_bytes(result.kv_bytes_per_token), result.block_size);
    text +=
        fmt::format("  {:.2f} requests of {} tokens at once; longest that fits {}\n\n",
                    result.max_concurrency, result.max_model_len, result.estimated_max_model_len);
  }
  if (result.other_engine->says.empty()) return text;
  text += fmt::format("What {} will log\n", result.engine);
  for (const std::string& line : result.other_engine->says) text += wrapped_text(line, columns, 2);
  return text + "\n";
}

std::string cache(const PlanResult& result, int columns) {
  if (result.other_engine != nullptr) return other_cache(result, columns);
  if (result.kv_kinds.empty()) return "";
  std::string text = "KV cache\n";
  for (const KvKindCount& kind : result.kv_kinds) {
    text += fmt::format("  {} layers of {}{}: {} for a block of {} tokens\n", kind.layers,
                        kind_words(kind.spec.kind),
                        kind.spec.window > 0 ? fmt::format(" ({} tokens)", kind.spec.window) : "",
                        readable_bytes(kind.spec.page.value()), kind.spec.block_size);
  }
  text += wrapped_text(
      fmt::format("{} of KV cache per token{} ({} layers{})",
                  readable_bytes(result.kv_bytes_per_token),
                  windowed(result) ? " beyond every window" : "", layers_of(result),
                  result.group_sizes.size() < 2
                      ? ""
                      : fmt::format(" in groups of {}", fmt::join(result.group_sizes, ", "))),
      columns, 2);
  if (result.has_kv) {
    text += bounds_text(result);
    const int64_t length =
        result.auto_max_model_len > 0 ? result.auto_max_model_len : result.max_model_len;
    text += fmt::format("  {} blocks of {} tokens, {} tokens in all\n", result.num_gpu_blocks,
                        result.block_size, result.kv_tokens);
    text += fmt::format("  {:.2f} requests of {} tokens at once; longest that fits {}\n",
                        result.max_concurrency, length, result.estimated_max_model_len);
    text += cold_text(result, columns);
  }
  return text + "\n";
}

std::string limits(const PlanResult& result) {
  if (result.refused && result.launched_model_len() == 0) return "";
  std::string loading;
  if (result.loading_peak_bytes > result.weights_bytes) {
    loading = fmt::format("While loading: {} on the card at most\n",
                          readable_bytes(result.loading_peak_bytes));
  }
  return loading +
         fmt::format("Limits: context {}, {}, {} a step{}\n", result.launched_model_len(),
                     counted(result.max_num_seqs, "sequence"),
                     counted(result.max_num_batched_tokens, "token"),
                     is_for_host(result) ? "" : ", " + counted(result.cuda_graphs, "CUDA graph"));
}

/// What decides and stands in no config.json.
std::string machine(const PlanResult& result, int columns) {
  if (result.machine.empty()) return "";
  std::string text = "\nTaken for granted of the machine\n";
  for (const MachineFact& fact : result.machine) {
    text += wrapped_text(
        fmt::format("{}: {} ({}; {})", fact.name, fact.value, fact.source, fact.flag), columns, 2);
  }
  return text;
}

/// What the launch takes of the host's memory.
std::string host(const PlanResult& result, int columns) {
  if (result.host.empty()) return "";
  std::string names;
  for (const PlanPart& part : result.host) {
    names += fmt::format("{}{}{} {}", names.empty() ? "" : ", ", part.name,
                         part.less > 0 ? " up to" : "", readable_bytes(part.bytes));
  }
  return "\nMemory of the host\n" +
         wrapped_text(fmt::format("{} ({}), beside the own memory of {} processes",
                                  readable_bytes(vllm::bytes_of(result.host).value()), names,
                                  result.host_processes),
                      columns, 2);
}

std::string prompts(const PlanResult& result, int columns) {
  if (!result.prompts) return "";
  std::string text = "\nPrompts\n";
  for (const std::string& line : prompts_text(result, *result.prompts)) {
    text += wrapped_text(line, columns, 2);
  }
  return text;
}

std::string advice(const PlanResult& result, int columns) {
  if (result.advice.empty()) return "";
  std::string text = result.advice.front().helps ? "\nWhat would help\n" : "";
  bool dead_ends = false;
  for (const Suggestion& suggestion : result.advice) {
    if (!suggestion.helps && !dead_ends) {
      text += "\nWhat would not\n";
      dead_ends = true;
    }
    const char* mark = suggestion.helps ? (suggestion.fits ? "[fits] " : "") : "";
    const std::string gain = gain_text(suggestion);
    text += wrapped_text(fmt::format("{}{}{}: {}", mark, suggestion.change,
                                     gain.empty() ? "" : " (" + gain + ")", suggestion.cost),
                         columns, 2);
    if (!suggestion.flag.empty()) text += "      " + suggestion.flag + "\n";
  }
  return text;
}

}  // namespace

std::string gain_text(const Suggestion& suggestion) {
  std::string text;
  if (suggestion.longest != suggestion.longest_before) {
    text = fmt::format("longest context {} -> {}", suggestion.longest_before, suggestion.longest);
  } else if (suggestion.requests != suggestion.requests_before) {
    text = fmt::format("requests of {} tokens at once {:.2f} -> {:.2f}", suggestion.length,
                       suggestion.requests_before, suggestion.requests);
  }
  if (suggestion.saves == 0) return text;
  return text + fmt::format("{}{} {}", text.empty() ? "" : "; ",
                            suggestion.saves > 0 ? "saves" : "takes",
                            readable_bytes(std::abs(suggestion.saves)));
}

std::string readable_bytes(int64_t bytes) {
  return size_text(bytes);
}

std::string to_text(const PlanResult& result, int columns) {
  columns = std::clamp(columns, 60, 100);
  std::string text =
      head(result, columns) + breakdown(result, columns) + stages(result) + cache(result, columns);
  text += limits(result);
  text += machine(result, columns) + host(result, columns) + prompts(result, columns) +
          advice(result, columns);
  for (const std::string& note : result.notes)
    text += "\n" + wrapped_text("Note: " + note, columns, 0);
  return text;
}

namespace {

/// "; 0.24 to 0.46 GiB": the edges of an estimate; of what is exact nothing.
std::string spread_text(const PlanPart& part) {
  if (part.less + part.more == 0) return "";
  return fmt::format("; {} to {}", readable_bytes(part.bytes - part.less),
                     readable_bytes((Amount{part.bytes} + part.more).value()));
}

}  // namespace

std::string explain_part(const PlanResult& result, const std::string& name) {
  std::vector<const PlanPart*> found;
  std::string known;
  for (const PlanPart& part : result.parts) {
    known += (known.empty() ? "" : ", ") + part.name;
    if (part.name == name) found = {&part};
    if (part.name == name) break;
    if (part.name.find(name) != std::string::npos) found.push_back(&part);
  }
  if (found.empty()) fail(ExitCode::usage, "--explain {}: no such part; there is {}", name, known);
  std::string text;
  for (const PlanPart* part : found) {
    text += fmt::format("{}: {} ({} bytes)\n  = {}\n  from {}{}\n", part->name,
                        readable_bytes(part->bytes), part->bytes, part->formula, part->source,
                        spread_text(*part));
  }
  return text;
}

}  // namespace plimsoll::plan
