// The arrays of an image encoder's segments.
#include "engine/vision/segments.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "backend/test_footprint.h"

using namespace plimsoll;

TEST_CASE("segments are sequences whose rows see their whole segment, each in its own blocks") {
  const std::vector<int64_t> lengths = {2, 17};
  const testing::TestFootprint footprint;
  const model::AttentionSpec attention{.heads = 1, .kv_heads = 1, .head_dim = 8};
  std::vector<std::byte> memory(size_t{1} << 16, std::byte{0x55});
  memory::Arena arrays = memory::Arena::placing(memory.data(), memory.size());
  const engine::Segments segments(lengths, backend::Segmentation::frames, attention, footprint,
                                  arrays);

  const backend::BatchMeta& batch = segments.batch();
  const auto values = [](std::span<const int32_t> array) {
    return std::vector<int32_t>(array.begin(), array.end());
  };
  std::vector<int32_t> positions = {0, 1}, owners = {0, 0}, ends = {2, 2};
  for (int32_t position = 0; position < 17; ++position) {
    positions.push_back(position);
    owners.push_back(1);
    ends.push_back(17);
  }
  CHECK(values(batch.positions) == positions);
  CHECK(values(batch.row_sequence) == owners);
  CHECK(values(batch.seen_end) == ends);
  CHECK(values(batch.query_start) == std::vector<int32_t>{0, 2, 19});
  CHECK(values(batch.context_length) == std::vector<int32_t>{2, 17});
  REQUIRE(batch.block_tables.size() == 1);
  CHECK(values(batch.block_tables[0]) == std::vector<int32_t>{0, -1, 1, 2});
  CHECK(batch.table_stride == 2);
  CHECK(batch.table_width == 2);
  CHECK(segments.blocks() == 3);
}
