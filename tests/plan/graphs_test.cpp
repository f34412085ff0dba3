// Graphs that vLLM captures, by flags, release and card: numbers counted by hand from the lists of
// sizes in each release's vllm/config (_set_cudagraph_sizes).
#include <catch2/catch.hpp>

#include <functional>

#include "plan/configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

/// A step of 8192 tokens and 256 sequences on an H100, changed.
int64_t graphs(VllmVersion version, const std::function<void(EngineArgs&)>& change,
               const char* gpu = "h100") {
  EngineArgs args = at(version);
  args.max_num_seqs = 256;
  args.max_num_batched_tokens = 8192;
  change(args);
  return plan_of(llama_8b(), args, gpu).cuda_graphs;
}

std::function<void(EngineArgs&)> mode(const char* name) {
  return [name](EngineArgs& args) { args.graphs.mode = name; };
}
std::function<void(EngineArgs&)> level(int64_t level) {
  return [level](EngineArgs& args) { args.graphs.level = level; };
}
std::function<void(EngineArgs&)> compile(int64_t mode) {
  return [mode](EngineArgs& args) { args.graphs.compile = mode; };
}

const VllmVersion k33{0, 33, 0};

}  // namespace

TEST_CASE("the mode says which graphs there are") {
  // 1, 2, 4, 8 ... 248, 256 ... 512: 51 sizes, 35 of them up to 256 sequences.
  CHECK(graphs(k33, mode("")) == 51 + 35);
  CHECK(graphs(k33, mode("FULL_AND_PIECEWISE")) == 51 + 35);
  CHECK(graphs(k33, mode("PIECEWISE")) == 51);
  CHECK(graphs(k33, mode("FULL_DECODE_ONLY")) == 35);
  CHECK(graphs(k33, mode("FULL")) == 51);
  CHECK(graphs(k33, mode("FULL"), "a100") == 51 + 35);
  CHECK(graphs(k33, mode("NONE")) == 0);
}

TEST_CASE("levels and modes of compilation change the graphs by release") {
  CHECK(graphs(k33, level(0)) == 0);
  CHECK(graphs(k33, level(1)) == 51);
  CHECK(graphs(k33, level(2)) == 51 + 35);
  CHECK(graphs(k33, level(3)) == 51 + 35);
  CHECK(graphs(k33, compile(0)) == 35);
  CHECK(graphs(k33, compile(1)) == 0);
  CHECK(graphs({0, 31, 0}, compile(1)) == 35);
  CHECK(graphs({0, 29, 0}, compile(0)) == 0);
  CHECK(graphs({0, 12, 0}, level(1)) == 51);
  // To 0.11 the level is that of compilation; sizes go by 8 up to 512.
  CHECK(graphs({0, 11, 0}, level(3)) == 67 + 35);
  CHECK(graphs({0, 11, 0}, level(1)) == 0);
  CHECK(graphs({0, 11, 0}, compile(2)) == 0);
  CHECK(graphs({0, 10, 1}, level(3)) == 67);
  CHECK(graphs({0, 10, 1}, level(0)) == 0);
  CHECK(graphs({0, 10, 0}, level(0)) == 67);  // vLLM sets the level itself
}

TEST_CASE("sizes go by sequences, drafts, tokens and card") {
  const auto sequences = [](int64_t count) {
    return [count](EngineArgs& args) { args.max_num_seqs = count; };
  };
  CHECK(graphs({0, 9, 0}, sequences(4)) == 67);
  CHECK(graphs({0, 10, 0}, sequences(4)) == 4);
  CHECK(graphs({0, 30, 0}, sequences(100)) == 28 + 15);
  CHECK(graphs({0, 31, 0}, sequences(100)) == 29 + 16);
  CHECK(graphs({0, 31, 0}, sequences(600)) == 51 + 51);
  const auto drafted = [](EngineArgs& args) {
    args.max_num_seqs = 100;
    args.draft_method = "ngram";
    args.draft_tokens = 2;
  };
  // Whole steps have 3 to 300 tokens. To 0.12 sizes end at 200, then at 512; from 0.29 on 3, 6, 12,
  // 24, 48 ... 288 and 300 are among them, of which 3, 6, 12, 264 and 300 were not.
  CHECK(graphs({0, 12, 0}, drafted) == 28 + 26);
  CHECK(graphs({0, 13, 0}, drafted) == 51 + 35);
  CHECK(graphs({0, 29, 0}, drafted) == 56 + 40);
  const auto small = [](EngineArgs& args) { args.max_num_batched_tokens = 300; };
  CHECK(graphs({0, 20, 0}, small) == 37 + 35);
  CHECK(graphs({0, 21, 0}, small) == 38 + 35);
  CHECK(graphs({0, 27, 0}, sequences(1024), "b200") == 51 + 51);
  CHECK(graphs({0, 28, 0}, sequences(1024), "b200") == 83 + 83);
  CHECK(graphs({0, 28, 0}, sequences(1024), "5090") == 51 + 51);
}

TEST_CASE("stated sizes are taken once each, up to the tokens of a step") {
  const auto stated = [](std::vector<int64_t> sizes) {
    return [sizes](EngineArgs& args) { args.capture_sizes = sizes; };
  };
  CHECK(graphs(k33, stated({4, 4, 2, 1, 1, 9000})) == 3 + 3);
  const auto largest = [](int64_t most) {
    return [most](EngineArgs& args) { args.graphs.largest = most; };
  };
  CHECK(graphs(k33, largest(16)) == 5 + 5);
  CHECK(graphs(k33, largest(1024)) == 83 + 35);
  const auto both = [](EngineArgs& args) {
    args.capture_sizes = {1, 8};
    args.graphs.largest = 8;
  };
  CHECK(graphs(k33, both) == 2 + 2);
  EngineArgs args = at(k33);
  args.capture_sizes = {1, 8};
  args.graphs.largest = 16;
  CHECK_THAT(refusal_of(llama_8b(), args, "h100"),
             Catch::Contains("customized max_cudagraph_capture_size(=16)") &&
                 Catch::Contains("cudagraph_capture_sizes(=8)"));
  args.graphs.mode = "NONE";
  CHECK(refusal_of(llama_8b(), args, "h100").empty());
  args.graphs = {};
  args.capture_sizes = std::vector<int64_t>{};
  CHECK_THAT(refusal_of(llama_8b(), args, "h100"), Catch::Contains("at least one element"));
  args.version = {0, 11, 0};
  CHECK(refusal_of(llama_8b(), args, "h100").empty());
}
