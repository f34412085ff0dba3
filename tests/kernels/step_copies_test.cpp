#include "kernels/runtime/step_copies.h"

#include <array>
#include <catch2/catch.hpp>

using namespace plimsoll;
using kernels::Extent;
using kernels::join_extents;

TEST_CASE("near pieces of a slab are copied as one") {
  CHECK(join_extents({}, 10).empty());
  CHECK(join_extents({{5, 5}}, 10).empty());
  CHECK(join_extents({{100, 120}, {0, 20}}, 10) == std::vector<Extent>{{0, 20}, {100, 120}});
  CHECK(join_extents({{100, 120}, {0, 90}}, 10) == std::vector<Extent>{{0, 120}});
  CHECK(join_extents({{0, 50}, {10, 20}, {60, 61}}, 10) == std::vector<Extent>{{0, 61}});
}

TEST_CASE("all arrays of a batch are copied, its tables are not") {
  std::array<int32_t, 64> slab{};
  backend::BatchMeta batch;
  batch.host_base = reinterpret_cast<const std::byte*>(slab.data());
  const std::span<const int32_t> all(slab);
  batch.token_ids = all.subspan(0, 4);
  batch.positions = all.subspan(8, 4);
  batch.query_start = all.subspan(16, 2);
  const std::array<std::span<const int32_t>, 1> tables{all.subspan(32, 8)};
  batch.block_tables = tables;
  CHECK(join_extents(kernels::flat_extents(batch), 0) ==
        std::vector<Extent>{{0, 16}, {32, 48}, {64, 72}});
}
