// Decides what each step computes. No clock and no addresses: equal requests in equal order give
// the same schedule.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "engine/admission.h"
#include "engine/cache/kv_cache.h"
#include "engine/sequence.h"
#include "engine/vision/image_holds.h"

namespace plimsoll::engine {

/// Positions [first, first + count) of one sequence.
struct Piece {
  Sequence* sequence = nullptr;
  int64_t first = 0;
  int64_t count = 0;
  int64_t logits_from = 0;  // logits are wanted of positions [logits_from, first + count)

  [[nodiscard]] int64_t end() const { return first + count; }
};

struct SchedulerLimits {
  int64_t sequences = 0;  // running at once
  int64_t tokens = 0;     // of one step
  Admission admission = Admission::next_step;
  int64_t steps = 1;  // under way at once, which share the decoding sequences evenly
  /// Sequences that may run before any has finished, and one more for each that has; 0: no such
  /// bound.
  int64_t head_start = 0;
};

/// The scheduler. Each step: one token for every decoding sequence (where several steps are under
/// way: for an even share of them) and the draft behind it, as far as there is room, then pieces of
/// prompts, oldest first; then new sequences while there are blocks for all their tokens
/// (Admission). When blocks run short, the youngest sequence that this step does not run releases
/// its blocks and waits, to be computed again. The oldest is never preempted, and by plan one
/// sequence always fits: so every sequence ends.
///
/// A sequence whose next token is being drawn (Sequence::pending) continues with it, except when it
/// is the last one; if it has lost its blocks it waits until the token is known. A sequence whose
/// token the host is to read (Sequence::awaits_reading) always waits.
class Scheduler {
 public:
  Scheduler(KvCache& cache, SchedulerLimits limits, ImageHolds* images = nullptr)
      : cache_(cache), limits_(limits), images_(images) {}

  /// Queues a sequence; it must outlive its stay here.
  void add(Sequence& sequence);
  /// Removes a sequence that is done, running or not, and releases its blocks.
  void remove(Sequence& sequence);
  /// Removes a sequence whose answer is complete, and notes its length for forecasts of others.
  void finish(Sequence& sequence);

  /// The next step; empty only when there is nothing to run, or nothing can run before a token that
  /// is awaited is known. Allocates the blocks of its tokens.
  const std::vector<Piece>& schedule();
  /// Notes that the step is started: its tokens count as computed.
  void commit();
  /// Notes that the sequence's pending token has become known.
  void apply_token(Sequence& sequence) { cache_.apply_token(sequence); }

  [[nodiscard]] int64_t running() const { return static_cast<int64_t>(running_.size()); }
  [[nodiscard]] int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  [[nodiscard]] uint64_t preemptions() const { return preemptions_; }
  /// Sum over the running sequences of the share of each one's tokens that is computed; the length
  /// of its answer is a forecast.
  [[nodiscard]] double under_way() const;
  /// Tokens that admitted sequences looked for in the prefix cache and found there.
  [[nodiscard]] uint64_t prefix_queries() const { return prefix_queries_; }
  [[nodiscard]] uint64_t prefix_hits() const { return prefix_hits_; }

 private:
  struct Older {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->serial < b->serial; }
  };

  void schedule_decodes();
  /// Tokens of the draft that the step computes, at most `room`; none where blocks are scarce.
  [[nodiscard]] int64_t draft_of(const Sequence& sequence, int64_t room) const;
  /// False when a prompt had to stop for want of blocks: nothing younger may start before it.
  [[nodiscard]] bool schedule_prompts();
  void admit();
  /// Most sequences that may run at once.
  [[nodiscard]] int64_t most_running() const;
  [[nodiscard]] bool fits(const Sequence& candidate);
  /// Tokens until the sequence ends, at least one.
  [[nodiscard]] int64_t remaining(const Sequence& sequence) const;
  /// Tokens from now at which blocks may be shortest; `last` is when the candidate ends.
  [[nodiscard]] const std::vector<int64_t>& moments(int64_t last);
  /// Blocks that the running sequences and the candidate will have taken beyond those they hold,
  /// `tokens` tokens from now; sequences that end before have released theirs.
  [[nodiscard]] int64_t blocks_after(int64_t tokens, const Sequence& candidate) const;
  [[nodiscard]] bool awaits_tokens() const;
  /// Plans up to `count` tokens of the sequence, preempting younger ones if it has room for none.
  /// False when it has to wait.
  [[nodiscard]] bool plan(Sequence& sequence, int64_t count);
  [[nodiscard]] Sequence* victim(const Sequence& beneficiary) const;
  void preempt(Sequence& sequence);

  KvCache& cache_;
  SchedulerLimits limits_;
  ImageHolds* images_;              // null: prompts have no images
  bool lacks_image_room_ = false;   // why plan() made a sequence wait
  std::vector<Sequence*> running_;  // oldest first
  std::set<Sequence*, Older> waiting_;
  std::vector<Piece> step_;
  AnswerLengths lengths_;
  std::vector<int64_t> remaining_;  // of the running sequences; while admitting
  std::vector<int64_t> moments_;    // while admitting
  /// True when the forecast has refused the first waiting sequence, and no sequence has left since.
  bool is_full_ = false;
  int64_t budget_ = 0;  // tokens left in the step
  int64_t finished_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t prefix_queries_ = 0;
  uint64_t prefix_hits_ = 0;
};

}  // namespace plimsoll::engine
