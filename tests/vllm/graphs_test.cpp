// Sizes of CUDA graphs, and what is refused of them, at the releases and numbers at which they
// change: counted by hand from each release's vllm/config (_set_cudagraph_sizes).
#include "vllm/launch/graphs.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "launches.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;

namespace {

/// 256 sequences and 8192 tokens a step, of a dense model on an H100.
constexpr EngineLimits kGraphLimits{.max_num_seqs = 256, .max_num_batched_tokens = 8192};

EngineArgs in_mode(VllmVersion version, const char* mode) {
  EngineArgs args = at(version);
  args.graphs.mode = mode;
  return args;
}

int64_t count_graphs(const EngineArgs& args) {
  ModelShape shape;
  shape.architecture = "LlamaForCausalLM";
  return plan_graphs(args, kGraphLimits, &hardware::find_gpu("h100"), shape).count();
}

/// The refusal; empty: there is none.
std::string graphs_refusal(const EngineArgs& args) {
  try {
    check_graphs(args, kGraphLimits);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("graphs without vLLM's own compiler change from one release to the next") {
  struct Row {
    VllmVersion version;
    const char* mode;
    int64_t compile, graphs;
  };
  // 51 sizes up to 512 tokens, 35 of them up to 256 sequences.
  for (const Row& row :
       {Row{{0, 29, 9}, "", 0, 0}, Row{{0, 30, 0}, "", 0, 35}, Row{{0, 30, 0}, "PIECEWISE", 0, 0},
        Row{{0, 33, 0}, "PIECEWISE", 2, 0}, Row{{0, 33, 0}, "FULL_DECODE_ONLY", 2, 35},
        Row{{0, 31, 9}, "", 1, 35}, Row{{0, 32, 0}, "", 1, 0}, Row{{0, 32, 0}, "", 2, 35},
        Row{{0, 12, 9}, "FULL_DECODE_ONLY", 0, 0}, Row{{0, 13, 0}, "FULL_DECODE_ONLY", 0, 35},
        Row{{0, 33, 0}, "", 3, 86}}) {
    INFO(version_text(row.version) << " " << row.mode << " " << row.compile);
    EngineArgs args = in_mode(row.version, row.mode);
    args.graphs.compile = row.compile;
    CHECK(count_graphs(args) == row.graphs);
  }
}

TEST_CASE("the mode NONE is heeded from 0.9 on, and one stated size from 0.11.1 on is one size") {
  CHECK(count_graphs(in_mode({0, 8, 9}, "NONE")) == 67);
  CHECK(count_graphs(in_mode({0, 9, 0}, "NONE")) == 0);
  const auto up_to = [](VllmVersion version) {
    EngineArgs args = at(version);
    args.graphs.up_to = 64;
    return count_graphs(args);
  };
  CHECK(up_to({0, 11, 0}) == 11 + 11);  // 1, 2, 4, 8, 16 ... 64
  CHECK(up_to({0, 11, 1}) == 1 + 1);
}

TEST_CASE("pieces without their compiler are refused from 0.10.1 to 0.11") {
  for (const char* mode : {"PIECEWISE", "FULL_AND_PIECEWISE"}) {
    for (const auto& [version, refused] : {std::pair{VllmVersion{0, 10, 0}, false},
                                           {{0, 10, 1}, true},
                                           {{0, 11, 0}, true},
                                           {{0, 11, 9}, true},
                                           {{0, 12, 0}, false},
                                           {{0, 33, 0}, false}}) {
      INFO(mode << " " << version_text(version));
      EngineArgs args = in_mode(version, mode);
      args.graphs.compile = 0;
      CHECK(graphs_refusal(args).empty() != refused);
      args.graphs.compile = 3;
      CHECK(graphs_refusal(args).empty());
    }
  }
  EngineArgs args = in_mode({0, 11, 0}, "FULL_DECODE_ONLY");
  args.graphs.compile = 0;
  CHECK(graphs_refusal(args).empty());
  args.graphs.mode = "PIECEWISE";
  args.enforce_eager = true;
  CHECK(graphs_refusal(args).empty());
}

TEST_CASE("stated sizes hold one whole step of a draft, where whole steps are recorded") {
  const auto drafted = [](int64_t largest, const char* mode, std::optional<int64_t> level) {
    EngineArgs args = in_mode({0, 33, 0}, mode);
    args.capture_sizes = {1, largest, 9000};  // a step has 8192 tokens at most
    args.draft_method = "ngram";
    args.draft_tokens = 4;
    args.graphs.level = level;
    return graphs_refusal(args);
  };
  CHECK(drafted(5, "", {}).empty());
  CHECK_THAT(drafted(4, "", {}),
             Catch::Contains("multiple of 5 ") &&
                 Catch::Contains("num_speculative_tokens (4) or max_cudagraph_capture_size (4) or "
                                 "cudagraph_capture_sizes ([1, 4, 9000])"));
  CHECK(drafted(4, "PIECEWISE", {}).empty());
  CHECK(drafted(4, "", 1).empty());
  CHECK_FALSE(drafted(4, "", 2).empty());
  EngineArgs args = at({0, 33, 0});
  args.capture_sizes = {9000};
  CHECK(graphs_refusal(args).empty());  // none is left, and nothing is drafted
  CHECK(count_graphs(args) == 0);
  args.draft_method = "eagle";
  args.draft_tokens = 4;
  args.second_runner = false;
  CHECK(count_graphs(args) == 0);
}

TEST_CASE("the largest stated size is the largest of a step, in whatever order they stand") {
  EngineArgs args = at({0, 33, 0});
  args.graphs.largest = 8192;
  args.capture_sizes = {8192, 1};
  CHECK(graphs_refusal(args).empty());
  args.capture_sizes = {1, 8192, 8193};
  CHECK(graphs_refusal(args).empty());
  args.graphs.largest = 8193;
  CHECK_THAT(graphs_refusal(args), Catch::Contains("(=8193)") && Catch::Contains("(=8192)"));
}

TEST_CASE("graphs are checked from 0.11.1 on") {
  EngineArgs args = at({0, 11, 0});
  args.capture_sizes = {1, 8};
  args.graphs.largest = 16;
  CHECK(graphs_refusal(args).empty());
  args.version = {0, 11, 1};
  CHECK_THAT(graphs_refusal(args), Catch::Contains("(=16)") && Catch::Contains("(=8)"));
}
