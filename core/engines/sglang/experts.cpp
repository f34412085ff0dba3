#include "engines/sglang/experts.h"

#include <fmt/format.h>

#include "engines/answer.h"

namespace plimsoll::engines::sglang {
namespace {

/// sglang/srt/layers/quantization/fp8.py: a rank's slice of an expert ends with a block of scales.
void check_blocks(const ModelConfig& config, int64_t slice) {
  const std::vector<int64_t> block = config.quantization().integers({"weight_block_size"});
  if (block.empty() || block.front() < 1 || slice % block.front() == 0) return;
  throw Refusal{
      "arguments",
      fmt::format("ValueError: The output_size of gate's and up's weight = {} is not divisible by "
                  "weight quantization block_n = {}.",
                  slice, block.front())};
}

}  // namespace

bool exchanges_tokens(const CommandLine& line) {
  return line.text("--moe-a2a-backend", "none") != "none";
}

int64_t expert_ranks(const CommandLine& line, const ModelConfig& config, int64_t tp) {
  if (config.experts() == 0) return 1;
  const int64_t experts = config.experts() + line.integer("--ep-num-redundant-experts", 0);
  const bool exchanged = exchanges_tokens(line);
  const int64_t ranks = exchanged ? tp : line.integer("--expert-parallel-size", 1);
  if (ranks < 1 || tp % ranks != 0) {
    throw Refusal{"arguments", fmt::format("--expert-parallel-size {} does not divide "
                                           "--tensor-parallel-size {}: SGLang has no such groups",
                                           ranks, tp)};
  }
  if (experts % ranks != 0) {
    throw Refusal{
        "arguments",
        fmt::format("AssertionError: {} experts are not divisible by {} {}", experts,
                    exchanged ? "the ranks of --moe-a2a-backend," : "--expert-parallel-size",
                    ranks)};
  }
  const int64_t width = config.text().integer({"moe_intermediate_size"}, 0, kSizeOrNone);
  if (width > 0) check_blocks(config, width / (tp / ranks));
  return ranks;
}

}  // namespace plimsoll::engines::sglang
