// Loads drawn at random: the scheduler computes in each step what it did when
// tests/data/digests/schedules.txt was written (README there).
#include <catch2/catch.hpp>
#include <map>

#include "digests.h"
#include "engine/scheduler_bench.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

Bench::Limits drawn_limits(Draw& draw) {
  static const std::vector<std::vector<int64_t>> windows = {{0}, {0}, {6}, {0, 6}, {0, 9, 1}};
  Bench::Limits limits;
  limits.windows = draw.of(windows);
  const size_t groups = limits.windows.size();
  limits.blocks = static_cast<int64_t>(groups * (14 + draw.below(60)));
  limits.sequences = static_cast<int64_t>(1 + draw.below(12));
  limits.tokens = static_cast<int64_t>(4 + draw.below(40));
  limits.prefix_caching = draw.below(3) != 0;
  limits.admission = draw.below(2) == 0 ? Admission::next_step : Admission::forecast;
  limits.steps = static_cast<int64_t>(1 + draw.below(3));
  limits.head_start = draw.below(3) == 0 ? 2 : 0;
  return limits;
}

/// Up to 48 tokens in all, as the pool holds one such sequence.
void add_sequence(Draw& draw, Bench& bench, std::map<const Sequence*, size_t>& answers) {
  const auto length = static_cast<int64_t>(1 + draw.below(30));
  Sequence& sequence = bench.add(length, static_cast<TokenId>(10 * draw.below(3)));
  answers[&sequence] = 1 + draw.below(17);
  sequence.max_length = length + static_cast<int64_t>(answers[&sequence]);
  sequence.ends_at_limit = draw.below(2) == 0;
  if (!sequence.ends_at_limit) sequence.max_length += static_cast<int64_t>(draw.below(9));
  if (draw.below(6) == 0) sequence.score_from = 0;
  sequence.long_rope = draw.below(9) == 0;
}

/// A draft behind what is known, as speculation proposes it before a step.
void propose(Draw& draw, Sequence& sequence) {
  if (!sequence.decoding() || sequence.awaits_token() || !sequence.draft.empty()) return;
  sequence.draft_kind = draw.below(2) == 0 ? engine::DraftKind::guessed : engine::DraftKind::forced;
  sequence.draft.assign(draw.below(4), 5);
}

std::string run(const std::string& name) {
  Draw draw(name);
  const Bench::Limits limits = drawn_limits(draw);
  Bench bench(limits);
  const bool speculates = limits.steps == 1 && draw.below(3) == 0;
  constexpr size_t kSequences = 25;
  std::map<const Sequence*, size_t> answers;
  std::string steps;
  for (size_t done = 0, count = 0; done < kSequences; ++count) {
    REQUIRE(count < 5'000);
    while (bench.sequences.size() < kSequences && draw.below(2) == 0)
      add_sequence(draw, bench, answers);
    if (speculates)
      for (Sequence& sequence : bench.sequences)
        if (!sequence.tables.empty()) propose(draw, sequence);
    const std::vector<Piece> pieces = bench.scheduler.schedule();
    steps += fmt::format("{} | {} {} {:.6f} {}\n", Bench::print(pieces), bench.scheduler.running(),
                         bench.scheduler.waiting(), bench.scheduler.under_way(),
                         bench.cache.pool().used());
    for (const Piece& piece : pieces) steps += fmt::format(" {}", piece.logits_from);
    bench.start(pieces, [&](Sequence& sequence) {
      sequence.output.push_back(static_cast<TokenId>(draw.below(3)));
      sequence.draft.clear();
      sequence.drafted = 0;
      sequence.computed = std::min(sequence.computed, sequence.length() - 1);
      if (sequence.output.size() < answers[&sequence]) return;
      if (draw.below(4) == 0) {
        bench.scheduler.remove(sequence);
      } else {
        bench.scheduler.finish(sequence);
      }
      ++done;
    });
  }
  return steps + fmt::format("{} preempted, {} of {} found", bench.scheduler.preemptions(),
                             bench.scheduler.prefix_hits(), bench.scheduler.prefix_queries());
}

}  // namespace

TEST_CASE("loads drawn at random are scheduled as they were") {
  Digests digests("schedules");
  for (int i = 0; i < 120; ++i) {
    const std::string name = fmt::format("load-{:03}", i);
    digests.compare(name, {{name, run(name)}});
  }
  digests.finish();
}
