#include "engine/scheduler.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/scheduler_bench.h"

using namespace plimsoll::engine;
using plimsoll::testing::Bench;

TEST_CASE("prompts are cut to the step's tokens, oldest first, after decodes") {
  Bench bench({.tokens = 10});
  bench.add(6, 100);
  bench.add(9, 200);
  bench.add(3, 300);
  CHECK(bench.step() == "1:0+6 2:0+4");
  CHECK(bench.step() == "1:6+1 2:4+5 3:0+3");
  CHECK(bench.step() == "1:7+1 2:9+1 3:3+1");
}

TEST_CASE("no more sequences run than may") {
  Bench bench({.sequences = 2});
  for (TokenId i = 0; i < 3; ++i) bench.add(2, 100 * i);
  CHECK(bench.step() == "1:0+2 2:0+2");
  bench.scheduler.remove(bench.sequences[0]);
  CHECK(bench.step() == "2:2+1 3:0+2");
  CHECK(bench.scheduler.running() == 2);
  CHECK(bench.scheduler.waiting() == 0);
}

TEST_CASE("with a head start, as many more sequences run as have finished") {
  Bench bench({.sequences = 4, .head_start = 2});
  for (TokenId i = 0; i < 8; ++i) bench.add(2, 100 * i);
  CHECK(bench.step() == "1:0+2 2:0+2");
  CHECK(bench.step() == "1:2+1 2:2+1");
  bench.scheduler.finish(bench.sequences[0]);
  CHECK(bench.step() == "2:3+1 3:0+2 4:0+2");
  for (size_t i : {1, 2, 3}) bench.scheduler.finish(bench.sequences[i]);
  CHECK(bench.step() == "5:0+2 6:0+2 7:0+2 8:0+2");
}

TEST_CASE("what runs is under way by its share of computed tokens") {
  Bench bench({.tokens = 6});
  CHECK(bench.scheduler.under_way() == 0);
  for (TokenId i = 0; i < 2; ++i) {
    Sequence& sequence = bench.add(4, 100 * i);
    sequence.max_length = 8;
    sequence.ends_at_limit = true;
  }
  bench.step();
  CHECK(bench.scheduler.under_way() == Approx(4. / 8 + 2. / 8));
  bench.step();
  CHECK(bench.scheduler.under_way() == Approx(5. / 8 + 4. / 8));
}

TEST_CASE("steps under way share the sequences that decode, and prompts go on without waiting") {
  Bench bench({.tokens = 10, .steps = 2});
  for (TokenId i = 0; i < 3; ++i) bench.add(2, 100 * i);
  bench.add(12, 1000);
  CHECK(bench.step() == "1:0+2 2:0+2 3:0+2 4:0+4");
  CHECK(bench.step() == "4:4+8");
  CHECK(bench.step() == "1:2+1 2:2+1");
  CHECK(bench.step() == "3:2+1 4:12+1");
  CHECK(bench.step() == "1:3+1 2:3+1");
  bench.scheduler.remove(bench.sequences[3]);
  bench.scheduler.remove(bench.sequences[2]);
  CHECK(bench.step().empty());
  CHECK(bench.step() == "1:4+1");
  CHECK(bench.step() == "2:4+1");
}

TEST_CASE("logits are asked for at the end of a prompt, or from a position on") {
  Bench bench({.tokens = 4});
  bench.add(6, 100);
  Sequence& scored = bench.add(3, 200);
  scored.score_from = 0;
  const std::vector<Piece>* pieces = &bench.scheduler.schedule();
  CHECK(pieces->at(0).logits_from == 4);
  bench.scheduler.commit();
  pieces = &bench.scheduler.schedule();
  CHECK(pieces->at(0).logits_from == 5);
  CHECK(pieces->at(1).logits_from == 0);
}

TEST_CASE("the prefix of an earlier sequence is not computed again") {
  Bench bench({});
  bench.add(10, 100);
  CHECK(bench.step() == "1:0+10");
  bench.add(10, 100);
  CHECK(bench.step() == "1:10+1 2:8+2");
  CHECK(bench.scheduler.prefix_hits() == 8);
  CHECK(bench.cache.pool().used() == 3 + 1);
  SECTION("but the last token is") {
    bench.add(8, 100);
    CHECK(bench.step() == "1:11+1 2:10+1 3:4+4");
  }
  SECTION("and scored positions are") {
    bench.add(8, 100).score_from = 0;
    CHECK(bench.step() == "1:11+1 2:10+1 3:0+8");
  }
  SECTION("nor with another RoPE table") {
    bench.add(8, 100).long_rope = true;
    CHECK(bench.step() == "1:11+1 2:10+1 3:0+8");
  }
}

TEST_CASE("without prefix caching nothing is shared") {
  Bench bench({.prefix_caching = false});
  bench.add(10, 100);
  bench.step();
  bench.add(10, 100);
  CHECK(bench.step() == "1:10+1 2:0+10");
  CHECK(bench.scheduler.prefix_queries() == 0);
}

TEST_CASE("a sequence is admitted when all its tokens have room") {
  Bench bench({.blocks = 6});
  bench.add(8, 100);   // 2 blocks, and one for its next token
  bench.add(12, 200);  // 4 with its next token
  CHECK(bench.step() == "1:0+8");
  CHECK(bench.step() == "1:8+1");
  bench.scheduler.remove(bench.sequences[0]);
  CHECK(bench.step() == "2:0+12");
}

TEST_CASE("answers are expected to be as long as those before") {
  AnswerLengths lengths;
  CHECK(lengths.expect(0, 4096) == 512);
  CHECK(lengths.expect(0, 100) == 100);
  CHECK(lengths.expect(2000, 1'000'000) == 4000);
  for (int i = 0; i < 996; ++i) lengths.observe(i % 3 == 0 ? 3000 : 90);
  CHECK(lengths.expect(0, 4096) == (332 * 3000 + 664 * 90 + 4 * 512) / 1000);
  CHECK(lengths.expect(0, 64) == 64);
  CHECK(lengths.expect(200, 4096) == (332 * 3000 + 4 * 512) / 336);
  CHECK(lengths.expect(5000, 9000) == 9000);  // none became as long: twice
  CHECK(lengths.expect(2999, 4096) > 2999);
  // Lengths of long ago fade.
  for (int i = 0; i < 20'000; ++i) lengths.observe(10);
  CHECK(lengths.expect(0, 4096) < 30);
}

TEST_CASE("by forecast a sequence starts when it will have room to its end") {
  Bench bench({.blocks = 10, .admission = Admission::forecast});
  const auto add = [&](int64_t prompt, int64_t answer) {
    Sequence& sequence = bench.add(prompt, 100 * static_cast<TokenId>(bench.last_serial + 1));
    sequence.max_length = prompt + answer;
    sequence.ends_at_limit = true;
  };
  add(4, 20);  // 6 blocks at its end
  SECTION("beside the others' ends") {
    add(4, 12);  // 4 at its end: 10 in all, were it as late
    CHECK(bench.step() == "1:0+4 2:0+4");
  }
  SECTION("not where both would not end") {
    add(4, 20);
    CHECK(bench.step() == "1:0+4");
    bench.scheduler.finish(bench.sequences[0]);
    CHECK(bench.step() == "2:0+4");
  }
  SECTION("with blocks that come back before they are needed") {
    // The third ends late, when the second has long ended.
    add(4, 4);
    add(4, 12);
    CHECK(bench.step() == "1:0+4 2:0+4 3:0+4");
  }
}

TEST_CASE("where answers' lengths are known nobody is computed again") {
  const auto preemptions = [](Admission admission) {
    Bench bench({.blocks = 60,
                 .sequences = 20,
                 .tokens = 200,
                 .prefix_caching = false,
                 .admission = admission});
    std::mt19937 random(3);
    const auto below = [&](unsigned limit) { return static_cast<int64_t>(random() % limit); };
    for (int i = 0; i < 300; ++i) {
      const int64_t length = 1 + below(30);
      Sequence& sequence = bench.add(length, 100);
      sequence.max_length = length + 1 + below(60);
      sequence.ends_at_limit = true;
    }
    for (size_t done = 0; done < bench.sequences.size();) {
      bench.step();
      for (Sequence& sequence : bench.sequences) {
        if (sequence.length() < sequence.max_length || sequence.tables.empty()) continue;
        bench.scheduler.finish(sequence);
        ++done;
      }
    }
    return bench.scheduler.preemptions();
  };
  CHECK(preemptions(Admission::next_step) > 20);
  CHECK(preemptions(Admission::forecast) == 0);
}

TEST_CASE("the youngest makes room and is computed again") {
  Bench bench({.blocks = 5});
  bench.add(4, 100);
  bench.add(4, 200);
  CHECK(bench.step() == "1:0+4 2:0+4");
  for (int i = 0; i < 4; ++i) bench.step();
  // Both hold two full blocks; one is left, and the older takes it.
  CHECK(bench.step() == "1:8+1");
  CHECK(bench.scheduler.preemptions() == 1);
  CHECK(bench.scheduler.waiting() == 1);
  // Tokens that the sequence had computed are still remembered, except those that were overwritten.
  bench.scheduler.remove(bench.sequences[0]);
  CHECK(bench.step() == "2:8+1");
}

TEST_CASE("nobody loses blocks in a step that runs it") {
  // The older prompt comes late, as one that was preempted does, and takes 20
  // steps; meanwhile the younger sequence grows into the blocks that it counted on.
  Bench bench({.blocks = 26, .tokens = 5});
  bench.add(4, 200, 20);
  for (int i = 0; i < 5; ++i) bench.step();
  bench.add(80, 100, 10);
  CHECK(bench.step() == "20:8+1 10:0+4");
  std::string last;
  for (int i = 0; i < 18; ++i) last = bench.step();
  CHECK(last == "20:26+1 10:72+4");
  CHECK(bench.step() == "20:27+1");
  CHECK(bench.scheduler.preemptions() == 0);
  // Now the younger one needs a block itself: it makes room.
  CHECK(bench.step() == "10:76+4");
  CHECK(bench.scheduler.preemptions() == 1);
}

TEST_CASE("blocks before the window go back to the pool") {
  Bench bench({.blocks = 5, .tokens = 4, .windows = {6}});
  bench.add(40, 100);
  for (int i = 0; i < 10; ++i) {
    bench.step();
    CHECK(bench.cache.pool().used() <= 3);
  }
  CHECK(bench.sequences[0].computed == 40);
  // Position 40 sees 35 and later: blocks 8 and 9.
  CHECK(bench.sequences[0].tables[0].released == 8);
}

TEST_CASE("a window needs only its last blocks to be remembered") {
  Bench bench({.blocks = 4, .tokens = 4, .windows = {6}});
  bench.add(16, 100);
  for (int i = 0; i < 4; ++i) bench.step();
  bench.scheduler.remove(bench.sequences[0]);
  Sequence& other = bench.add(5, 500);  // takes the oldest idle blocks: the first of the prompt
  bench.step();
  bench.step();
  bench.scheduler.remove(other);
  bench.add(17, 100);
  CHECK(bench.step() == "3:16+1");
}

TEST_CASE("any load ends, and every position sees what its own sequence wrote") {
  struct Row {
    std::vector<int64_t> windows;
    int64_t blocks, tokens, sequences;
    bool prefix_caching;
  };
  const Row row = GENERATE(Row{{0}, 13, 16, 8, true}, Row{{0}, 13, 5, 8, false},
                           Row{{6}, 9, 16, 20, true}, Row{{0, 6}, 40, 16, 20, true},
                           Row{{0, 9, 1}, 60, 7, 20, true}, Row{{0, 0}, 200, 64, 20, true});
  const int64_t under_way = GENERATE(1, 2, 4);
  Bench bench({row.blocks, row.sequences, row.tokens, row.windows, row.prefix_caching,
               Admission::next_step, under_way});
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  // Slots hold the sequence's tokens up to theirs, as a stand-in for K and V.
  std::map<std::tuple<size_t, BlockId, int64_t>, std::vector<TokenId>> slots;
  const auto history = [](const Sequence& sequence, int64_t position) {
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i <= position; ++i) tokens.push_back(sequence.token(i));
    return tokens;
  };
  std::map<const Sequence*, size_t> output_lengths;
  size_t done = 0;
  constexpr size_t kSequences = 60;
  for (int steps = 0; done < kSequences; ++steps) {
    REQUIRE(steps < 10'000);
    while (bench.sequences.size() < kSequences && below(2) == 0) {
      Sequence& sequence = bench.add(1 + below(30), 10 * below(3));
      output_lengths[&sequence] = static_cast<size_t>(1 + below(18));
    }
    const std::vector<Piece> pieces = bench.scheduler.schedule();
    int64_t tokens = 0;
    for (const Piece& piece : pieces) {
      const Sequence& sequence = *piece.sequence;
      REQUIRE(piece.count > 0);
      tokens += piece.count;
      for (size_t group = 0; group < row.windows.size(); ++group) {
        const auto slot = [&](int64_t position) -> std::vector<TokenId>& {
          const BlockId id =
              sequence.tables[group].blocks.at(static_cast<size_t>(position / 4)).id();
          REQUIRE(id != kNoBlock);
          return slots[{group, id, position % 4}];
        };
        for (int64_t position = piece.first; position < piece.end(); ++position) {
          slot(position) = history(sequence, position);
          const int64_t window = row.windows[group];
          const int64_t from = window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
          for (int64_t seen = from; seen <= position; ++seen) {
            REQUIRE(slot(seen) == history(sequence, seen));
          }
        }
      }
    }
    REQUIRE(tokens <= row.tokens);
    REQUIRE(static_cast<int64_t>(pieces.size()) <= row.sequences);
    bench.start(pieces, [&](Sequence& sequence) {
      sequence.output.push_back(below(3));
      if (sequence.output.size() < output_lengths[&sequence]) return;
      bench.scheduler.remove(sequence);
      ++done;
    });
  }
  CHECK(bench.cache.pool().used() == 0);
  CHECK(bench.scheduler.running() == 0);
  if (row.blocks < 20 && row.sequences < 20) CHECK(bench.scheduler.preemptions() > 0);
  CHECK((bench.scheduler.prefix_hits() > 0) == row.prefix_caching);
}
