#include "plan/engines/engine_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/error.h"
#include "base/size_text.h"
#include "base/split_text.h"
#include "plan/engines/free_memory.h"
#include "plan/engines/remedies.h"

namespace plimsoll::plan {
namespace {

using engines::Answer;
using engines::Engine;
using engines::Figures;
using engines::FreeMemory;
using engines::Question;

using engines::kGib;

int64_t bytes_of_gib(double gib) {
  constexpr double kMost = 0x1p33;
  return static_cast<int64_t>(std::clamp(gib, -kMost, kMost) * kGib);
}

/// A launch that could hold at least a token of a request.
bool fits(const Answer& answer) {
  return !answer.refused && answer.figures.kv_tokens > 0;
}

CacheFigures cache_of(const Answer& answer) {
  const Figures& figures = answer.figures;
  CacheFigures cache;
  cache.fits = fits(answer);
  if (answer.refused) cache.reason = answer.refused->words;
  if (!cache.fits) return cache;
  cache.kv_cache_bytes = figures.kv_bytes;
  cache.kv_tokens = figures.kv_tokens;
  cache.num_gpu_blocks = figures.kv_tokens / std::max<int64_t>(1, figures.block_tokens);
  if (figures.context > 0) {
    cache.max_concurrency =
        static_cast<double>(figures.kv_tokens) / static_cast<double>(figures.context);
  }
  cache.longest = std::min(figures.kv_tokens, figures.context);
  return cache;
}

void fill_terms(PlanResult& result, const Answer& answer) {
  const Figures& figures = answer.figures;
  result.dtype = figures.dtype;
  result.gpus = figures.ranks;
  result.max_model_len = figures.context;
  result.max_num_seqs = figures.running;
  result.max_num_batched_tokens = figures.step_tokens;
  result.gpu_memory_utilization = figures.share;
  result.cuda_graphs = figures.graphs;
  result.block_size = figures.block_tokens;
  result.kv_bytes_per_token = static_cast<int64_t>(std::llround(figures.bytes_per_token));
  result.notes.insert(result.notes.end(), answer.notes.begin(), answer.notes.end());
}

void fill_cache(PlanResult& result, const Answer& answer) {
  const CacheFigures cache = cache_of(answer);
  result.has_kv = cache.fits;
  result.kv_cache_bytes = cache.kv_cache_bytes;
  result.num_gpu_blocks = cache.num_gpu_blocks;
  result.kv_tokens = cache.kv_tokens;
  result.max_concurrency = cache.max_concurrency;
  result.estimated_max_model_len = cache.longest;
  const Figures& figures = answer.figures;
  const double block = figures.bytes_per_token * static_cast<double>(figures.block_tokens);
  result.bytes_per_block = static_cast<int64_t>(std::llround(block));
  if (cache.fits && result.bytes_per_block > 0)
    result.group_needs.push_back({.block_size = figures.block_tokens});
}

void add_part(PlanResult& result, const char* name, int64_t bytes, const std::string& formula,
              const std::string& source) {
  if (bytes > 0) result.parts.push_back({name, bytes, formula, source});
}

/// What the free memory goes to once it is shared out.
void add_pools(PlanResult& result, const Engine& engine, const Answer& answer, double after) {
  const Figures& figures = answer.figures;
  const std::string source = fmt::format("{} {}", engine.name, answer.version);
  add_part(result, "recurrent states", figures.state_bytes, figures.state_formula, source);
  if (fits(answer)) add_part(result, "kv cache", figures.kv_bytes, figures.kv_formula, source);
  add_part(result, "kept for steps", figures.runtime_bytes, figures.runtime_formula, source);
  add_part(result, "tables", figures.beside_bytes, figures.beside_formula, source);
  const Amount taken =
      Amount{figures.state_bytes} + figures.kv_bytes + figures.runtime_bytes + figures.beside_bytes;
  const int64_t slack = (Amount{bytes_of_gib(after)} - taken).value();
  if (fits(answer)) {
    add_part(result, "left over", slack, "free when the cache is sized - all of these",
             "for graphs, workspaces and activations");
  }
}

void add_stated_parts(PlanResult& result, const FreeMemory& free) {
  if (free.before > 0) {
    add_part(result, "before loading", result.total_bytes - bytes_of_gib(free.before),
             "CUDA's total - free before loading", "--free-memory");
    add_part(result, "weights and loading", bytes_of_gib(free.before - free.after),
             "free before loading - free when the cache is sized", "--free-memory");
  } else {
    add_part(result, "taken before the cache", result.total_bytes - bytes_of_gib(free.after),
             "CUDA's total - free when the cache is sized", "--free-memory");
  }
}

/// The answer at the edges of a prediction.
void weigh_edges(PlanResult& result, const Engine& engine, Question question,
                 const FreePrediction& free) {
  const auto at = [&](double difference) {
    question.free = FreeMemory{free.middle.before, free.middle.after + difference};
    return cache_of(engine.ask(question));
  };
  const CacheFigures low = at(-free.less), high = at(free.more);
  result.bounds = PlanResult::CacheBounds{low, cache_of(*result.other_engine), high};
  if (result.refused || !result.fits) return;
  if (*result.fits && !low.fits) {
    result.may_fit = true;
    result.notes.push_back(
        fmt::format("it fits at the middle of the bounds, not with {} less free: {}",
                    size_text(bytes_of_gib(free.less)), low.reason));
  }
}

/// Tries the engine's remedies, each by itself, with the same free memory.
void advise(PlanResult& result, const Engine& engine, const Question& question) {
  const CacheFigures before = cache_of(*result.other_engine);
  for (const engines::Remedy& remedy : engine.remedies) {
    const Answer answer = engine.ask(with_words(question, remedy.words));
    const CacheFigures after = cache_of(answer);
    if (!after.fits || after.kv_tokens <= before.kv_tokens) continue;
    Suggestion suggestion;
    suggestion.change = remedy.change;
    suggestion.flag = remedy.words;
    suggestion.cost = remedy.cost;
    suggestion.fits = true;
    suggestion.length = answer.figures.context;
    suggestion.requests_before = before.max_concurrency;
    suggestion.requests = after.max_concurrency;
    if (!before.fits) {
      suggestion.longest_before = before.longest;
      suggestion.longest = after.longest;
    }
    result.advice.push_back(std::move(suggestion));
  }
}

void fill_verdict(PlanResult& result, const Answer& answer) {
  if (answer.refused) {
    result.fits = false;
    result.refused = answer.refused->stage != "memory";
    result.reason = answer.refused->words;
    return;
  }
  if (answer.sizing.is_object()) result.fits = fits(answer);
}

}  // namespace

Question with_words(Question question, std::string_view words) {
  for (const std::string_view word : split_text(words, " ")) question.words.emplace_back(word);
  return question;
}

PlanResult plan_engine(const Engine& engine, const Question& given, const ConfigView& config,
                       bool advised) {
  PlanResult result;
  result.engine = engine.name;
  Question question = given;
  Answer answer = engine.ask(question);
  std::optional<FreePrediction> predicted;
  if (!question.free && !answer.refused && question.gpu != nullptr) {
    predicted = predict_free(config, *question.gpu, answer.figures);
    question.free = predicted->middle;
    answer = engine.ask(question);
  }
  const std::vector<std::string> names = config.texts({"architectures"});
  if (!names.empty()) result.architecture = names.front();
  result.version = answer.asked_for.empty() ? answer.version : answer.asked_for;
  if (!answer.asked_for.empty()) result.planned_as = answer.version;
  fill_terms(result, answer);
  if (question.gpu != nullptr) {
    result.gpu = question.gpu->name;
    result.total_bytes = question.gpu->visible_bytes();
    result.budget_bytes = result.total_bytes;
  }
  result.other_engine = std::make_shared<const Answer>(answer);
  if (question.free && question.gpu != nullptr) {
    if (predicted) {
      result.parts = predicted->parts;
      result.notes.insert(result.notes.end(), predicted->notes.begin(), predicted->notes.end());
      for (const PlanPart& part : predicted->parts)
        if (part.name == "weights") result.weights_bytes = part.bytes;
    } else {
      add_stated_parts(result, *question.free);
    }
    fill_cache(result, answer);
    add_pools(result, engine, answer, question.free->after);
  }
  fill_verdict(result, answer);
  if (predicted) weigh_edges(result, engine, question, *predicted);
  const bool lacking = result.fits && !*result.fits && !result.refused;
  if (question.free && (advised || lacking)) advise(result, engine, question);
  return result;
}

}  // namespace plimsoll::plan
