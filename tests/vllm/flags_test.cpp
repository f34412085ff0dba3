// The first and the last release that has a flag of vLLM, or a key of --compilation-config.
#include "vllm/launch/flags.h"

#include <catch2/catch.hpp>

using namespace plimsoll::vllm;

TEST_CASE("a flag and a key are taken from their first release to their last") {
  CHECK(!takes_flag("--kv-cache-memory-bytes", {0, 10, 1}));
  CHECK(takes_flag("--kv-cache-memory-bytes", {0, 10, 2}));
  CHECK(takes_flag("--swap-space", {0, 17, 1}));
  CHECK(!takes_flag("--swap-space", {0, 18, 0}));
  CHECK(!takes_compilation_key("full_cuda_graph", {0, 8, 5}));
  CHECK(takes_compilation_key("full_cuda_graph", {0, 9, 0}));
  CHECK(takes_compilation_key("full_cuda_graph", {0, 11, 0}));
  CHECK(!takes_compilation_key("full_cuda_graph", {0, 11, 1}));
  CHECK(takes_compilation_key("level", {0, 17, 1}));
  CHECK(!takes_compilation_key("level", {0, 18, 0}));
}
