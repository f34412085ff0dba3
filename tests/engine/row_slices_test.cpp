#include "engine/forward/row_slices.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

using namespace plimsoll;

namespace {

std::vector<int64_t> slices(int64_t rows, const memory::Arena& scratch) {
  std::vector<int64_t> counts;
  int64_t next = 0;
  engine::for_row_slices(rows, scratch, [&](int64_t first, int64_t count) {
    CHECK(first == next);
    next += count;
    counts.push_back(count);
  });
  CHECK(next == rows);
  return counts;
}

}  // namespace

TEST_CASE("slices of rows are even, and counted as the largest that there may be") {
  alignas(memory::Arena::kAlignment) std::array<std::byte, 64> memory{};
  const memory::Arena placed = memory::Arena::placing(memory.data(), memory.size());
  const memory::Arena counting = memory::Arena::counting();
  CHECK(slices(0, placed).empty());
  CHECK(slices(2048, placed) == std::vector<int64_t>{2048});
  CHECK(slices(2049, placed) == std::vector<int64_t>{1025, 1024});
  CHECK(slices(8192, placed) == std::vector<int64_t>(4, 2048));
  CHECK(slices(2049, counting) == std::vector<int64_t>{2048, 1});
  CHECK(slices(100, counting) == std::vector<int64_t>{100});
}
