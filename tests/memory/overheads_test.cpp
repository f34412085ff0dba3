#include <catch2/catch.hpp>

#include "memory/device_overheads.h"

using namespace plimsoll::memory;

TEST_CASE("ranks of several processes talk over NCCL in their stage and to those beside it") {
  const auto is = [](const NcclShape& shape, int64_t team, int64_t neighbours) {
    return shape.team == team && shape.neighbours == neighbours;
  };
  CHECK(is(nccl_shape(4, 3, 1), 0, 0));
  CHECK(is(nccl_shape(4, 1, 2), 4, 0));
  CHECK(is(nccl_shape(1, 2, 2), 0, 1));
  CHECK(is(nccl_shape(1, 4, 2), 0, 2));
  CHECK(is(nccl_shape(2, 2, 2), 0, 1));  // whole stages
  CHECK(is(nccl_shape(2, 3, 2), 2, 2));  // the second one is cut
  CHECK(is(nccl_shape(2, 2, 4), 2, 1));
}

TEST_CASE("NCCL's buffers are a named overhead, by connection") {
  const auto bytes_of = [](const NcclShape& shape) -> size_t {
    for (const Overhead& overhead : device_overheads({.nccl = shape})) {
      if (overhead.name == "NCCL") return overhead.bytes;
    }
    return 0;
  };
  constexpr size_t kConnection = 524288 + 4915200 + 4194304, kMebi = size_t{1} << 20;
  CHECK(bytes_of({}) == 0);
  CHECK(bytes_of({.team = 2}) == 16 * kConnection + 80 * kMebi);
  CHECK(bytes_of({.team = 4}) == (16 + 4 * 2 * 3) * kConnection + 80 * kMebi);
  CHECK(bytes_of({.neighbours = 1}) == 4 * kConnection + 80 * kMebi);
  CHECK(bytes_of({.team = 2, .neighbours = 2}) == (16 + 8) * kConnection + 96 * kMebi);
  CHECK(overhead_bytes({.nccl = {.team = 2}}) == overhead_bytes({}) + bytes_of({.team = 2}));
}
