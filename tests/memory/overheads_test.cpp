#include <catch2/catch.hpp>
#include <tuple>

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

TEST_CASE("what a launch loads, records and maps beside its arena, by hand") {
  constexpr size_t kMebi = size_t{1} << 20;
  const auto bytes_of = [](const char* name, const OverheadShape& shape) -> size_t {
    size_t all = 0, named = 0;
    for (const Overhead& overhead : device_overheads(shape)) {
      all += overhead.bytes;
      if (overhead.name == name) named += overhead.bytes;
    }
    CHECK(overhead_bytes(shape) == all);
    return named;
  };
  OverheadShape shape;
  for (const auto& [capability, processors, mebi] :
       {std::tuple{90, 114, 527}, std::tuple{90, 113, 560}, std::tuple{100, 148, 560},
        std::tuple{89, 142, 560}}) {
    shape.compute_capability = capability;
    shape.processors = processors;
    CHECK(bytes_of("driver context", shape) == static_cast<size_t>(mebi) * kMebi);
  }
  CHECK(bytes_of("kernel modules", shape) == (48 + 96) * kMebi);
  CHECK(bytes_of("driver slack", shape) == 64 * kMebi);
  CHECK(bytes_of("cuda graphs", shape) == 0);
  CHECK(bytes_of("peer mappings", shape) == 0);
  shape.layers = 2;
  shape.graphs = 3;
  shape.peers = 2;
  CHECK(bytes_of("cuda graphs", shape) == 3 * (2 * 18 + 24) * 1536);
  CHECK(bytes_of("peer mappings", shape) == 2 * 32 * kMebi);
  shape.experts = true;
  shape.more_nodes = 5;
  CHECK(bytes_of("cuda graphs", shape) == 3 * (2 * 26 + 5 + 24) * 1536);
}
