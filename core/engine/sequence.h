// One choice of a request as the scheduler sees it: its tokens, and the places of their K and V.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_cache.h"
#include "engine/request.h"

namespace plimsoll::engine {

class Choice;

/// What a draft was proposed for: it goes on as tokens before did or as a draft model does, or the
/// grammar leaves hardly anything else.
enum class DraftKind : uint8_t { guessed, forced };

/// Acceptance of forced drafts before any was seen: models cut such texts as their tokenizers do.
inline constexpr double kForcedAcceptance = 0.9;

/// The blocks of one sequence in one KV group; entry i is for positions [i * block_size, ...).
struct BlockTable {
  std::vector<Block> blocks;
  int64_t released = 0;  // leading entries that are empty: before the window
};

struct Sequence {
  uint64_t serial = 0;              // order of arrival: lower is older
  Choice* choice = nullptr;         // its choice, which the scheduler does not use
  std::span<const TokenId> prompt;  // of the request
  std::vector<TokenId> output;
  bool long_rope = false;  // which RoPE table: together with the tokens it decides K and V
  /// -1: only the last position's logits are wanted; else those of the prompt from this position
  /// on, too.
  int64_t score_from = -1;
  int32_t state_slot = -1;  // of the states of recurrent mixers, while it runs
  int64_t computed = 0;     // tokens whose K and V are in the cache
  int64_t remembered = 0;   // blocks of each table that the prefix cache has seen
  int64_t scheduled = 0;    // tokens that the current step computes
  /// Entry of BatchMeta::drawn in which the step under way draws the next token; -1: none. Until
  /// the token is known it counts as the sequence's last.
  int32_t pending = -1;
  bool awaits_reading = false;  // the host reads the next token from a step that is under way
  /// Proposed tokens behind the known ones. They count in no length; `computed` counts those that a
  /// step has computed.
  std::vector<TokenId> draft;
  DraftKind draft_kind = DraftKind::guessed;
  int64_t drafted = 0;                           // the first ones, which are in the step under way
  double acceptance = 0.5;                       // share of guessed tokens that were drawn, lately
  double forced_acceptance = kForcedAcceptance;  // likewise of forced ones
  /// Length at which the sequence ends at the latest.
  int64_t max_length = std::numeric_limits<int64_t>::max();
  bool ends_at_limit = false;       // it ends there and nowhere else
  int64_t attached = 0;             // blocks of each table that were found in the prefix cache
  const Images* images = nullptr;   // of the request; null: none
  std::vector<int64_t> image_rows;  // rows that hold their embeddings; -1: none
  uint64_t table_version = 0;       // changes when the tables start anew
  std::vector<BlockTable> tables;   // per KV group
  std::vector<BlockKey> keys;       // of its full blocks, as far as they were needed

  [[nodiscard]] int64_t prompt_length() const { return static_cast<int64_t>(prompt.size()); }
  [[nodiscard]] int64_t known_length() const {
    return prompt_length() + static_cast<int64_t>(output.size());
  }
  /// Length with the token that is being drawn.
  [[nodiscard]] int64_t length() const { return known_length() + (pending < 0 ? 0 : 1); }
  /// A token of a position before known_length().
  [[nodiscard]] TokenId token(int64_t position) const {
    return position < prompt_length() ? prompt[position] : output[position - prompt_length()];
  }
  /// Share of tokens like those of the draft that were drawn, lately.
  [[nodiscard]] double& draft_acceptance() {
    return draft_kind == DraftKind::forced ? forced_acceptance : acceptance;
  }
  [[nodiscard]] double draft_acceptance() const {
    return draft_kind == DraftKind::forced ? forced_acceptance : acceptance;
  }
  /// True when one new token follows after all that is computed.
  [[nodiscard]] bool decoding() const {
    return length() > prompt_length() && computed + 1 == length();
  }
  /// True when the next token is not known before a step under way has ended.
  [[nodiscard]] bool awaits_token() const { return pending >= 0 || awaits_reading; }
  /// True when nothing is left to compute: the token that is being drawn is the last one.
  [[nodiscard]] bool complete() const { return length() >= max_length; }
  /// The first position whose logits are wanted, of those not computed yet.
  [[nodiscard]] int64_t first_logits_position() const {
    const int64_t last = length() - 1;
    return score_from < 0 ? last : std::min(last, score_from);
  }
};

}  // namespace plimsoll::engine
