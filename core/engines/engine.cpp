#include "engines/engine.h"

#include <algorithm>

#include "base/lower_case.h"
#include "engines/lmdeploy/lmdeploy.h"
#include "engines/sglang/flags.h"
#include "engines/sglang/sglang.h"
#include "engines/transformers/transformers.h"

namespace plimsoll::engines {
namespace {

constexpr OwnFlag kOfSglang[] = {
    {"--max-model-len", "--context-length"},
    {"--max-num-seqs", "--max-running-requests"},
    {"--max-num-batched-tokens", "--chunked-prefill-size"},
    {"--gpu-memory-utilization", "--mem-fraction-static"},
    {"--block-size", "--page-size"},
    {"--mamba-ssm-cache-dtype", "--mamba-ssm-dtype"},
};

constexpr OwnFlag kOfLmdeploy[] = {
    {"--max-model-len", "--session-len"},
    {"--max-num-seqs", "--max-batch-size"},
    {"--max-num-batched-tokens", "--max-prefill-token-num"},
    {"--gpu-memory-utilization", "--cache-max-entry-count"},
    {"--block-size", "--cache-block-seq-len"},
    {"--tensor-parallel-size", "--tp"},
    {"--data-parallel-size", "--dp"},
};

constexpr OwnFlag kOfTransformers[] = {
    {"--max-model-len", "--max-length"},
    {"--max-num-seqs", "--batch-size"},
    {"--max-num-batched-tokens", "--max-batch-tokens"},
    {"--gpu-memory-utilization", "--max-memory-percent"},
    {"--block-size", "--page-size"},
};

const std::vector<Engine>& table() {
  static const std::vector<Engine> engines = {
      {"sglang", {}, "sglang serve", "--model-path", sglang::flags(), kOfSglang, sglang::ask},
      {"lmdeploy",
       {},
       "lmdeploy serve api_server",
       "",
       lmdeploy::flags(),
       kOfLmdeploy,
       lmdeploy::ask},
      {"transformers",
       {"hf"},
       "transformers serve --continuous-batching --force-model",
       "",
       transformers::flags(),
       kOfTransformers,
       transformers::ask},
  };
  return engines;
}

}  // namespace

std::span<const Engine> engines() {
  return table();
}

const Engine* find_engine(std::string_view name) {
  const std::string wanted = lower_case(std::string(name));
  for (const Engine& engine : table()) {
    const bool alias = std::ranges::find(engine.aliases, wanted) != engine.aliases.end();
    if (engine.name == wanted || alias) return &engine;
  }
  return nullptr;
}

}  // namespace plimsoll::engines
