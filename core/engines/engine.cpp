#include "engines/engine.h"

#include <algorithm>

#include "base/lower_case.h"
#include "engines/lmdeploy/lmdeploy.h"
#include "engines/sglang/flags.h"
#include "engines/sglang/sglang.h"
#include "engines/tensorrt_llm/tensorrt_llm.h"
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

constexpr OwnFlag kOfTensorrtLlm[] = {
    {"--max-model-len", "--max-seq-len"},
    {"--max-num-seqs", "--max-batch-size"},
    {"--max-num-batched-tokens", "--max-num-tokens"},
    {"--gpu-memory-utilization", "--kv-cache-free-gpu-memory-fraction"},
    {"--tensor-parallel-size", "--tp-size"},
    {"--pipeline-parallel-size", "--pp-size"},
};

/// Changes that help where a launch does not fit, or holds too little.
constexpr Remedy kForSglang[] = {
    {"--kv-cache-dtype fp8_e4m3", "store the KV cache in 8 bits", "answers differ a little"},
    {"--mem-fraction-static 0.92", "give weights and cache 92 % of the card",
     "less is left for graphs and activations: it may run out of memory while it serves"},
    {"--chunked-prefill-size 2048", "read prompts in chunks of 2048 tokens",
     "long prompts take longer"},
    {"--cuda-graph-max-bs-decode 16", "capture fewer CUDA graphs",
     "batches above 16 decode without graphs, slower"},
    {"--disable-cuda-graph", "capture no CUDA graphs", "decoding is slower"},
    {"--mamba-ssm-dtype bfloat16", "store recurrent states in 16 bits", "answers differ a little"},
};
constexpr Remedy kForLmdeploy[] = {
    {"--quant-policy 8", "store the KV cache in 8 bits", "answers differ a little"},
    {"--cache-max-entry-count 0.9", "give the cache 90 % of what is free",
     "less is left for what is not planned"},
    {"--max-batch-size 64", "run at most 64 sequences at once", "fewer requests at once"},
    {"--max-prefill-token-num 2048", "read prompts in steps of 2048 tokens",
     "long prompts take longer"},
};
constexpr Remedy kForTransformers[] = {
    {"--max-batch-tokens 1024", "run batches of 1024 tokens", "long prompts take longer"},
    {"--max-memory-percent 0.95", "give the cache 95 % of what is free",
     "less is left for what is not planned"},
    {"--max-requests-per-batch 64", "run at most 64 requests at once", "fewer requests at once"},
};
constexpr Remedy kForTensorrtLlm[] = {
    {"--kv-cache-dtype fp8", "store the KV cache in 8 bits", "answers differ a little"},
    {"--max-num-tokens 2048", "run steps of 2048 tokens", "long prompts take longer"},
    {"--kv-cache-free-gpu-memory-fraction 0.95", "give the cache 95 % of what is free",
     "less is left for what is not planned"},
};

const std::vector<Engine>& table() {
  static const std::vector<Engine> engines = {
      {"sglang",
       {},
       "sglang serve",
       "--model-path",
       sglang::flags(),
       kOfSglang,
       kForSglang,
       sglang::ask},
      {"lmdeploy",
       {},
       "lmdeploy serve api_server",
       "",
       lmdeploy::flags(),
       kOfLmdeploy,
       kForLmdeploy,
       lmdeploy::ask},
      {"tensorrt-llm",
       {"trtllm", "trt-llm"},
       "trtllm-serve",
       "",
       tensorrt_llm::flags(),
       kOfTensorrtLlm,
       kForTensorrtLlm,
       tensorrt_llm::ask},
      {"transformers",
       {"hf"},
       "transformers serve --continuous-batching --force-model",
       "",
       transformers::flags(),
       kOfTransformers,
       kForTransformers,
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
