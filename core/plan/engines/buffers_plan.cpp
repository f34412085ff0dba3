#include "plan/engines/buffers_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/rounding.h"
#include "base/size_text.h"
#include "plan/engines/remedies.h"

namespace plimsoll::plan {
namespace {

using engines::Answer;
using engines::Buffer;
using engines::Card;
using engines::Engine;
using engines::Question;

/// What CUDA's context takes of a card before llama.cpp asks what is free: 180 to 472 MiB in logs
/// (RTX 2000 Ada, RTX 3090, RTX 4090).
constexpr int64_t kCudaContext = 300 * kMiB;
/// What a process takes beside its buffers (libraries, CUDA's pool): up to 1.2 GiB in logs, which
/// is why --fit leaves 1 GiB.
constexpr int64_t kBeside = 600 * kMiB;

/// Free memory of the card that a buffer lies on, once it is allocated.
int64_t left_on(const Answer& answer, const Buffer& buffer) {
  return answer.cards[static_cast<size_t>(buffer.card)].free_bytes - buffer.total();
}

/// The card with the least left; null: all is on the host.
const Buffer* tightest(const Answer& answer) {
  const Buffer* found = nullptr;
  for (const Buffer& buffer : answer.buffers) {
    if (buffer.card < 0) continue;
    if (found == nullptr || left_on(answer, buffer) < left_on(answer, *found)) found = &buffer;
  }
  return found;
}

bool has_room(const Answer& answer) {
  const Buffer* const card = tightest(answer);
  return !answer.refused && (card == nullptr || left_on(answer, *card) >= 0);
}

void add_parts(PlanResult& result, const Answer& answer, const std::string& source) {
  const Buffer* const card = tightest(answer);
  if (card == nullptr) return;
  const Card& on = answer.cards[static_cast<size_t>(card->card)];
  result.total_bytes = on.total_bytes;
  result.budget_bytes = on.free_bytes;
  result.weights_bytes = card->model;
  result.kv_cache_bytes = card->context;
  const auto add = [&](const char* name, int64_t bytes, const std::string& formula) {
    if (bytes > 0) result.parts.push_back({name, bytes, formula, source});
  };
  add("before loading", on.total_bytes - on.free_bytes, "total - free");
  add("weights", card->model, "tensors of " + on.name + ", aligned and padded");
  add("kv cache", card->context, answer.figures.kv_formula);
  add("compute buffers", card->compute,
      fmt::format("a step of {} tokens", answer.figures.step_tokens));
  add("left over", left_on(answer, *card), "free - all of these");
}

void fill_launch(PlanResult& result, const Answer& answer) {
  const engines::Figures& figures = answer.figures;
  result.dtype = figures.dtype;
  result.quantized = true;
  result.gpus = figures.ranks;
  result.max_model_len = figures.context;
  result.max_num_seqs = figures.running;
  result.max_num_batched_tokens = figures.step_tokens;
  result.gpu_memory_utilization = 1;
  result.block_size = 1;
  result.kv_bytes_per_token = static_cast<int64_t>(figures.bytes_per_token);
  result.notes = answer.notes;
}

void judge(PlanResult& result, const Answer& answer) {
  if (answer.refused) {
    result.fits = false;
    result.refused = answer.refused->stage != "memory";
    result.reason = answer.refused->words;
    return;
  }
  result.fits = has_room(answer);
  result.has_kv = *result.fits;
  result.kv_tokens = answer.figures.kv_tokens;
  result.estimated_max_model_len = answer.figures.context;
  if (answer.figures.context > 0) {
    result.max_concurrency =
        static_cast<double>(result.kv_tokens) / static_cast<double>(answer.figures.context);
  }
  const Buffer* const card = tightest(answer);
  if (card == nullptr) return;
  const int64_t left = left_on(answer, *card);
  if (left < 0) {
    result.reason =
        fmt::format("{} lacks {}: cudaMalloc failed: out of memory", card->name, size_text(-left));
  } else if (left < kBeside) {
    result.may_fit = true;
    result.notes.push_back(fmt::format("{} is left on {}: CUDA's libraries and pool may take more",
                                       size_text(left), card->name));
  }
}

/// True where what a process takes beside its buffers has room too, on each card.
bool has_margin(const Answer& answer) {
  const Buffer* const card = tightest(answer);
  return has_room(answer) && (card == nullptr || left_on(answer, *card) >= kBeside);
}

/// The words of a remedy, with the largest value that fits where one is to be found: less of what
/// it counts takes less memory. None where the least one does not fit either.
std::optional<std::string> fitting_words(const engines::Remedy& remedy, const Engine& engine,
                                         const Question& question, const Answer& answer) {
  if (remedy.below == nullptr) return std::string(remedy.words);
  const auto with = [&](int64_t multiple) {
    return fmt::format("{} {}", remedy.words, multiple * remedy.unit);
  };
  int64_t fitting = 0;
  int64_t failing = divide_up(answer.figures.*remedy.below, remedy.unit);
  while (failing - fitting > 1) {
    const int64_t middle = fitting + (failing - fitting) / 2;
    const bool fits = has_margin(engine.ask(with_words(question, with(middle))));
    (fits ? fitting : failing) = middle;
  }
  if (fitting == 0) return std::nullopt;
  return with(fitting);
}

/// Suggests each remedy of the engine that makes the launch fit and leaves more of the tightest
/// card.
void advise(PlanResult& result, const Engine& engine, const Question& question,
            const Answer& answer) {
  const Buffer* const from = tightest(answer);
  if (from == nullptr) return;
  for (const engines::Remedy& remedy : engine.remedies) {
    const auto words = fitting_words(remedy, engine, question, answer);
    if (!words) continue;
    const Answer after = engine.ask(with_words(question, *words));
    const Buffer* const to = tightest(after);
    if (!has_room(after) || to == nullptr) continue;
    const int64_t gained = left_on(after, *to) - left_on(answer, *from);
    if (gained <= 0) continue;
    Suggestion suggestion;
    suggestion.change = remedy.change;
    suggestion.flag = *words;
    suggestion.saves = gained;
    suggestion.cost = remedy.cost;
    suggestion.fits = true;
    suggestion.length = after.figures.context;
    result.advice.push_back(std::move(suggestion));
  }
}

/// States what is free on cards of which nobody says it.
bool predict_free(Question& question) {
  bool any = false;
  for (Card& card : question.cards) {
    if (card.free_bytes > 0) continue;
    card.free_bytes = std::max<int64_t>(0, card.total_bytes - kCudaContext);
    any = true;
  }
  return any;
}

}  // namespace

PlanResult plan_buffers(const Engine& engine, const Question& given, bool advised) {
  Question question = given;
  const bool predicted = predict_free(question);
  const Answer answer = engine.ask(question);
  PlanResult result;
  result.engine = engine.name;
  result.version = answer.asked_for.empty() ? answer.version : answer.asked_for;
  if (!answer.asked_for.empty()) result.planned_as = answer.version;
  if (question.gguf != nullptr) result.architecture = question.gguf->architecture();
  for (const Card& card : question.cards)
    result.total_bytes = std::max(result.total_bytes, card.total_bytes);
  result.other_engine = std::make_shared<const Answer>(answer);
  fill_launch(result, answer);
  add_parts(result, answer, fmt::format("{} {}", engine.name, answer.version));
  judge(result, answer);
  if (question.cards.empty()) {
    result.notes.emplace_back(
        "no card is named: everything is on the host; --gpu NAME[,NAME] names cards");
  } else if (predicted && !result.refused) {
    result.notes.push_back(
        fmt::format("free memory is taken to be the total less {} of CUDA's context: --free-memory "
                    "after=SIZE[:SIZE] states what nvidia-smi says of each card",
                    size_text(kCudaContext)));
  }
  if (advised || (!result.refused && !*result.fits)) advise(result, engine, question, answer);
  return result;
}

}  // namespace plimsoll::plan
