#include "engine/speculation/speculation.h"

#include <algorithm>
#include <utility>

#include "engine/sampling/choice.h"

namespace plimsoll::engine {

namespace {

/// Proposed tokens that the estimate of acceptance goes by.
constexpr double kRemembered = 8;

/// Bytes of forced text that are looked for at once, and where few such tokens have been drawn.
constexpr size_t kMostForced = 160;
constexpr size_t kFewForced = 24;

/// An earlier occurrence of the last tokens of a sequence.
struct Repetition {
  int64_t length = 0;
  int64_t next = 0;  // position behind it
};

/// How many tokens before `end` equal the last ones of the sequence, at most `most`.
int64_t repeated_length(const Sequence& sequence, int64_t end, int64_t most) {
  const int64_t length = sequence.known_length();
  int64_t count = 0;
  while (count < std::min(most, end) &&
         sequence.token(end - 1 - count) == sequence.token(length - 1 - count)) {
    ++count;
  }
  return count;
}

Repetition longest_repetition(const Sequence& sequence, int64_t most) {
  Repetition best;
  for (int64_t end = sequence.known_length() - 1; end > 0 && best.length < most; --end) {
    const int64_t length = repeated_length(sequence, end, most);
    if (length > best.length) best = {length, end};
  }
  return best;
}

}  // namespace

void propose(Sequence& sequence, const NgramOptions& options) {
  sequence.draft.clear();
  sequence.draft_kind = DraftKind::guessed;
  const int64_t most =
      std::min(options.num_speculative_tokens, sequence.max_length - sequence.known_length() - 1);
  if (most <= 0) return;
  const Repetition found = longest_repetition(sequence, options.prompt_lookup_max);
  if (found.length < options.prompt_lookup_min) return;
  for (int64_t at = found.next; std::ssize(sequence.draft) < most; ++at) {
    // Behind the last known token the draft itself goes on, as a repetition that never ends.
    const int64_t drafted = at - sequence.known_length();
    sequence.draft.push_back(drafted < 0 ? sequence.token(at) : sequence.draft[drafted]);
  }
}

bool propose_forced(Sequence& sequence, const text::Tokenizer& tokenizer) {
  if (sequence.draft_kind == DraftKind::forced && !sequence.draft.empty()) return true;
  const int64_t most = sequence.max_length - sequence.known_length() - 1;
  if (most <= 0) return false;
  const size_t bytes = sequence.forced_acceptance < 0.5 ? kFewForced : kMostForced;
  std::vector<TokenId> tokens = sequence.choice->foresee(tokenizer, bytes);
  if (tokens.empty()) return false;
  if (std::ssize(tokens) > most) tokens.resize(static_cast<size_t>(most));
  sequence.draft = std::move(tokens);
  sequence.draft_kind = DraftKind::forced;
  return true;
}

// A step of n rows takes about kWeightRows + n times the arithmetic of one, since it reads all
// weights whatever n is. A token of one of `sequences` therefore takes (kWeightRows + sequences) /
// sequences of it, and a row more pays where it is kept with a chance above the inverse of that;
// one that must be proposed first, with a chance above the sum of that and of the proposal's cost.
// A token of the draft is kept only with all before it.
int64_t worthwhile_length(double acceptance, int64_t most, int64_t sequences, double cost) {
  const double needed =
      static_cast<double>(sequences) / (kWeightRows + static_cast<double>(sequences)) + cost;
  int64_t length = 0;
  for (double chance = acceptance; chance > needed && length < most; chance *= acceptance) {
    ++length;
  }
  return length;
}

bool verify_draft(Sequence& sequence, TokenId token) {
  if (sequence.draft.empty()) return false;
  const bool came = sequence.draft.front() == token;
  double& acceptance = sequence.draft_acceptance();
  acceptance += ((came ? 1 : 0) - acceptance) / kRemembered;
  const bool computed = sequence.drafted > 0;
  if (came) {
    sequence.draft.erase(sequence.draft.begin());
    sequence.drafted = std::max<int64_t>(sequence.drafted - 1, 0);
    return computed;
  }
  sequence.draft.clear();
  sequence.drafted = 0;
  sequence.computed = std::min(sequence.computed, sequence.known_length() - 1);
  return false;
}

}  // namespace plimsoll::engine
