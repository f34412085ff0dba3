#include "backend/cuda/attention_items.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace plimsoll::backend::cuda {

TEST_CASE("tiles hold the query heads of a KV head") {
  CHECK(plain_tile({32, 8, 0}).rows == 8);
  CHECK(plain_tile({8, 8, 0}).rows == 32);
  CHECK(plain_tile({71, 1, 0}).parts == 3);
  CHECK(plain_tile({71, 1, 0}).heads == 24);
  CHECK(plain_tile({71, 1, 0}).rows == 1);
}

TEST_CASE("plans cover each row's keys once and keep within the bounds") {
  std::mt19937 random(1);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const int64_t head_counts[][2] = {{32, 8}, {8, 8}, {64, 1}, {14, 2}, {71, 1}};
  for (int round = 0; round < 400; ++round) {
    const auto& heads = head_counts[pick(0, 4)];
    const PlainShape shape{heads[0], heads[1], pick(0, 2) == 0 ? pick(1, 3000) : 0};
    const int64_t processors = pick(1, 140);
    const bool decode = pick(0, 1) == 0;
    std::vector<int32_t> starts{0}, contexts;
    for (int64_t left = pick(1, 60); left > 0; --left) {
      const int64_t rows = decode || pick(0, 1) == 0 ? 1 : pick(1, 300);
      const bool padding = rows == 1 && pick(0, 9) == 0;
      contexts.push_back(
          static_cast<int32_t>(padding ? 0 : rows + pick(0, pick(0, 3) == 0 ? 140000 : 900)));
      starts.push_back(static_cast<int32_t>(starts.back() + rows));
    }
    PlainLimits limits{.tokens = starts.back(),
                       .sequences = static_cast<int64_t>(contexts.size()),
                       .multiprocessors = processors};
    if (pick(0, 4) == 0) limits.splits = PlainLimits::Splits::none;
    const PlainBounds bounds =
        decode ? plain_decode_bounds(limits.sequences, limits) : plain_bounds(shape, limits);
    if (limits.splits == PlainLimits::Splits::by_work)
      REQUIRE(bounds.partial_rows == limits.sequences + 4 * processors);
    std::vector<AttentionItem> items(static_cast<size_t>(bounds.items));
    std::vector<MergeItem> merges(static_cast<size_t>(bounds.merges));
    const PlainPlan plan = plan_attention({starts, contexts}, shape, limits, items, merges);
    REQUIRE(plan.partial_rows <= bounds.partial_rows);

    // Trace of a row through the items: the end of the tokens read so far, in ascending order, and
    // the partial rows written.
    struct Row {
      int64_t read_to = -1;
      std::vector<int64_t> partial;
    };
    std::vector<Row> rows(static_cast<size_t>(starts.back()));
    for (const AttentionItem& item : items)
      for (int32_t i = 0; i < item.rows; ++i) {
        Row& row = rows[static_cast<size_t>(item.first_row + i)];
        const auto s = static_cast<size_t>(item.sequence);
        const int64_t position = contexts[s] - (starts[s + 1] - (item.first_row + i));
        if (contexts[s] == 0) {
          REQUIRE((item.kv_begin == 0 && item.kv_end == 0 && row.read_to == -1));
          row.read_to = 0;
          continue;
        }
        REQUIRE(item.kv_begin < item.kv_end);
        REQUIRE(item.kv_end <= contexts[s]);
        if (row.read_to < 0) {
          const int64_t oldest =
              shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
          REQUIRE(item.kv_begin <= oldest);
          // Blocks before the first row's window may be gone.
          if (shape.window > 0 && i == 0) REQUIRE(item.kv_begin == oldest);
        } else {
          REQUIRE(item.kv_begin == row.read_to);
          REQUIRE(item.kv_begin % kPlainTokens == 0);
        }
        row.read_to = item.kv_end;
        if (item.partial >= 0) row.partial.push_back(item.partial + i);
      }
    bool covered = true;
    for (size_t s = 0; s < contexts.size(); ++s)
      for (int32_t t = starts[s]; t < starts[s + 1]; ++t) {
        const Row& row = rows[static_cast<size_t>(t)];
        covered = covered &&
                  row.read_to >= (contexts[s] == 0 ? 0 : contexts[s] - (starts[s + 1] - t) + 1);
      }
    REQUIRE(covered);
    std::vector<bool> written(static_cast<size_t>(plan.partial_rows));
    for (const MergeItem& merge : merges)
      for (int32_t c = 0; c < merge.count; ++c) {
        const Row& row = rows[static_cast<size_t>(merge.row)];
        REQUIRE(row.partial.size() == static_cast<size_t>(merge.count));
        const int64_t slot = merge.first + int64_t{c} * merge.step;
        REQUIRE(row.partial[static_cast<size_t>(c)] == slot);
        REQUIRE(!written[static_cast<size_t>(slot)]);
        written[static_cast<size_t>(slot)] = true;
      }
    REQUIRE(std::all_of(written.begin(), written.end(), [](bool b) { return b; }));
  }
}

TEST_CASE("one long sequence is cut for all processors") {
  const PlainShape shape{32, 8, 0};
  const PlainLimits limits{.tokens = 1, .sequences = 1, .multiprocessors = 132};
  const PlainBounds bounds = plain_decode_bounds(1, limits);
  std::vector<AttentionItem> items(static_cast<size_t>(bounds.items));
  std::vector<MergeItem> merges(static_cast<size_t>(bounds.merges));
  const std::vector<int32_t> starts{0, 1}, contexts{131072};
  const PlainPlan plan = plan_attention({starts, contexts}, shape, limits, items, merges);
  CHECK(plan.items == 512);  // of 256 tokens, the shortest chunk
  CHECK(plan.merges == 1);
}

}  // namespace plimsoll::backend::cuda
