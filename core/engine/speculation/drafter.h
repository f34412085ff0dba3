// Speculation by a draft model: a smaller model continues the sequences that decode, greedily, and
// the next step of the large one computes what it proposed as far as that pays. As with prompt
// lookup (speculation.h) a proposed token is kept only where it equals the one that is drawn, so
// answers have the same bytes with it and without it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/cache/kv_cache.h"
#include "engine/layout.h"
#include "engine/step_runner.h"

namespace plimsoll::engine {

/// Acceptance of a new sequence: as good draft models have it, so that they are tried.
inline constexpr double kHopedAcceptance = 0.75;

/// Time of a step of a draft model, in steps of the large one, by the weights that both read for
/// one row; above 0.6 nothing is ever proposed (worthwhile_length).
double draft_cost(const model::ModelSpec& spec, const model::ModelSpec& draft, DType dtype,
                  const backend::Footprint& footprint);

/// Runs the draft model of a launch over sequences and KV blocks of its own
/// (DraftLayout::blocks_beside); where blocks run short a sequence has no draft.
class Drafter {
 public:
  /// `launch`, of `spec` and laid out as `layout` says, has a draft model. All must outlive it.
  Drafter(const model::ModelSpec& spec, Launch& launch, const EngineLayout& layout,
          backend::Backend& backend);

  /// Sets Sequence::draft of `sequences`, which decode, whose tokens are all known and which have
  /// no draft. Left empty where no token is likely enough to be kept (Sequence::acceptance), where
  /// too few are left for what the draft model would compute first, behind the end of its context,
  /// and beside images, which it does not see.
  void propose(std::span<Sequence* const> sequences);
  /// Returns the blocks of a sequence that has ended.
  void forget(const Sequence& sequence);
  /// KV blocks that copies of sequences hold.
  [[nodiscard]] int64_t blocks_used() const { return cache_.pool().used(); }

 private:
  /// A sequence that gets a draft of `wanted` tokens.
  struct Draft {
    Sequence* sequence = nullptr;
    Sequence* copy = nullptr;  // as the draft model has it
    int64_t wanted = 0;
  };

  /// True where the draft model knows all tokens of the sequence and sees what the large one does.
  [[nodiscard]] bool is_readable(const Sequence& sequence) const;
  /// How many tokens to propose beside `sequences` that decode. Where there are none, the
  /// sequence's acceptance goes back to the hoped one.
  [[nodiscard]] int64_t choose_length(Sequence& sequence, int64_t sequences) const;
  /// The draft model's copy of a sequence, with all tokens that are known now.
  Sequence& follow(const Sequence& sequence);
  /// Makes room for positions before `end`, in place of copies that `drafts_` does not use. False:
  /// there is none.
  [[nodiscard]] bool make_room(Sequence& copy, int64_t end);
  /// The pieces of the next step: what the copies have not computed, up to the end of their drafts.
  [[nodiscard]] std::vector<Piece> next_pieces();
  void run(const std::vector<Piece>& pieces);

  Launch& launch_;  // the large model's
  const DraftLayout& draft_;
  backend::Backend& backend_;
  int64_t vocabulary_;  // of the large model
  double cost_;         // of a step of the draft model, in steps of the large one
  KvCache cache_;
  BatchBuilder builder_;
  StepRunner runner_;
  Step step_;
  std::map<uint64_t, Sequence> copies_;  // by serial
  std::vector<Draft> drafts_;            // of the call of propose() under way
};

}  // namespace plimsoll::engine
