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

TEST_CASE("FlashInfer plans the decodes of each whole graph in a workspace of its own") {
  const auto more = [](VllmVersion version, const char* gpu) {
    EngineArgs args = at(version);
    args.max_num_seqs = 256;
    args.max_num_batched_tokens = 8192;
    const auto bytes = [&](const char* backend) {
      args.attention_backend = backend;
      return part_bytes(plan_of(llama_8b(), args, gpu), "cuda graphs");
    };
    return (bytes("FLASHINFER") - bytes("FLASH_ATTN")) >> 20;
  };
  constexpr int64_t kPlanned = 394 + 35 * 8;  // graphs of 1, 2, 4, 8 ... 256 sequences
  CHECK(more(k33, "a100") == kPlanned);
  CHECK(more(k33, "b200") == 394);  // TensorRT-LLM's kernels decode
  CHECK(more({0, 24, 0}, "h100") == kPlanned);
  CHECK(more({0, 25, 0}, "h100") == 394);  // XQA decodes
  CHECK(more({0, 27, 0}, "5090") == kPlanned);
  CHECK(more({0, 28, 0}, "5090") == 394);
}

TEST_CASE("levels and modes of compilation change the graphs by release") {
  CHECK(graphs(k33, level(0)) == 0);
  CHECK(graphs(k33, level(1)) == 51);
  CHECK(graphs(k33, level(2)) == 51 + 35);
  CHECK(graphs(k33, level(3)) == 51 + 35);
  CHECK(graphs(k33, compile(0)) == 35);
  CHECK(graphs(k33, compile(1)) == 0);
  const auto whole = [](const char* name) {
    return [name](EngineArgs& args) {
      args.graphs.mode = name;
      args.graphs.compile = 0;
    };
  };
  CHECK(graphs({0, 29, 0}, whole("FULL_DECODE_ONLY")) == 35);
  CHECK(graphs({0, 29, 0}, whole("PIECEWISE")) == 0);
  CHECK(graphs({0, 12, 0}, whole("FULL_DECODE_ONLY")) == 0);
  CHECK(graphs({0, 11, 1}, whole("FULL_DECODE_ONLY")) == 35);
  CHECK(graphs(k33, whole("FULL")) == 51);
  CHECK(graphs(k33, whole("FULL"), "a100") == 35);
  EngineArgs pieces = at({0, 11, 0});
  whole("PIECEWISE")(pieces);
  CHECK_THAT(refusal_of(llama_8b(), pieces, "h100"),
             Catch::Contains("Compilation level should be CompilationLevel.PIECEWISE"));
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
  CHECK(graphs({0, 10, 0}, mode("NONE")) == 0);
  CHECK(graphs({0, 8, 5}, mode("NONE")) == 67);
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
  // Sizes are whole steps of 3 tokens a sequence, up to 300 tokens where all decode. To 0.12 they
  // end at 200 (4 and 8 become 6 and 9, and so on; 200 is none: 26 sizes), then at 512 (49, of
  // which 36 decode); from 0.29 on 6, 12, 24 ... 288 and 300 are among them.
  CHECK(graphs({0, 12, 0}, drafted) == 26 + 26);
  CHECK(graphs({0, 13, 0}, drafted) == 49 + 36);
  CHECK(graphs({0, 29, 0}, drafted) == 52 + 39);
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
  CHECK(graphs(k33, stated({1, 8191, 8192, 8193})) == 3 + 1);  // a step has 8192
  CHECK(graphs(k33, stated({0, 1, 256, 257})) == 3 + 2);       // 256 sequences decode
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
  const auto up_to = [](int64_t size) {
    return [size](EngineArgs& args) { args.graphs.up_to = size; };
  };
  CHECK(graphs({0, 11, 0}, up_to(64)) == 11 + 11);
  CHECK(graphs({0, 12, 0}, up_to(64)) == 1 + 1);
  CHECK(graphs({0, 13, 0}, up_to(64)) == 11 + 11);
  const auto adapters = [](bool apart) {
    return [apart](EngineArgs& args) {
      args.capture_sizes = {1, 8};
      args.lora = true;
      args.graphs.by_adapters = apart;
    };
  };
  CHECK(graphs(k33, adapters(true)) == 2 * (2 + 2));
  CHECK(graphs(k33, adapters(false)) == 2 + 2);
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
  args = at(k33);
  args.capture_sizes = {1, 2};
  args.draft_method = "ngram";
  args.draft_tokens = 4;
  CHECK_THAT(refusal_of(llama_8b(), args, "h100"), Catch::Contains("No valid cudagraph sizes"));
}

TEST_CASE("a class may state the largest size, and the first engine captures what suffices") {
  const auto counted = [](const Json& config, VllmVersion version, int64_t sequences) {
    EngineArgs args = at(version);
    args.max_num_seqs = sequences;
    args.max_num_batched_tokens = 8192;
    return plan_of(config, args, "h100").cuda_graphs;
  };
  CHECK(counted(gpt_oss(24, 32), k33, 64) == 83 + 11);
  CHECK(counted(gpt_oss(24, 32), {0, 11, 0}, 64) == 81 + 11);
  CHECK(counted(llama_8b(), {0, 7, 3}, 3) == 3);
  CHECK(counted(llama_8b(), {0, 7, 3}, 16) == 5);
  CHECK(counted(llama_8b(), {0, 7, 3}, 256) == 35);
  CHECK(counted(llama_8b(), {0, 7, 3}, 512) == 67);
}
