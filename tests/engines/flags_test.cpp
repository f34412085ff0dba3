// Which flags of each engine a plan reads: all others are taken and move no memory.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engines/engine.h"

using namespace plimsoll::engines;

TEST_CASE("the flags of each engine that move memory are these and no others") {
  struct Row {
    const char* engine;
    const char* flags;
  };
  const Row rows[] = {
      {"sglang",
       "--model-path --tensor-parallel-size --pipeline-parallel-size "
       "--data-parallel-size --expert-parallel-size --enable-dp-attention "
       "--mem-fraction-static --context-length --chunked-prefill-size "
       "--max-prefill-tokens --max-running-requests --max-total-tokens --page-size "
       "--dtype --quantization --kv-cache-dtype --attention-backend "
       "--prefill-attention-backend --decode-attention-backend --disable-cuda-graph "
       "--disable-decode-cuda-graph --disable-prefill-cuda-graph "
       "--disable-cuda-graph-padding --cuda-graph-max-bs-decode "
       "--cuda-graph-max-bs-prefill --cuda-graph-bs-decode --cuda-graph-bs-prefill "
       "--cuda-graph-backend-decode --cuda-graph-backend-prefill --disable-radix-cache "
       "--disable-overlap-schedule --enable-multimodal --language-model-only "
       "--mm-feature-transport --swa-full-tokens-ratio --disable-hybrid-swa-memory "
       "--max-mamba-cache-size --mamba-full-memory-ratio --mamba-ssm-dtype "
       "--mamba-radix-cache-strategy --speculative-algorithm "
       "--speculative-draft-model-path --speculative-num-steps --speculative-eagle-topk "
       "--speculative-num-draft-tokens --moe-a2a-backend --enable-two-batch-overlap "
       "--decode-context-parallel-size --disaggregation-mode"},
      {"lmdeploy",
       "--model-path --tp --dp --ep --max-batch-size --cache-max-entry-count "
       "--cache-block-seq-len --max-prefill-token-num --session-len --quant-policy "
       "--kernel-block-size --prefix-cache-state-budget --speculative-algorithm "
       "--speculative-num-draft-tokens --dtype --enable-prefix-caching --model-format "
       "--backend"},
      {"tensorrt-llm",
       "--tp-size --pp-size --ep-size --max-batch-size --max-num-tokens --max-seq-len "
       "--max-beam-width --kv-cache-free-gpu-memory-fraction --kv-cache-dtype --backend"},
      {"transformers",
       "--continuous-batching --attn-implementation --dtype --tensor-parallel-size "
       "--page-size --num-blocks --max-batch-tokens --max-memory-percent "
       "--max-requests-per-batch --cache-implementation --batch-size --max-length"},
      {"llamacpp",
       "--ctx-size --batch-size --ubatch-size --parallel --gpu-layers --split-mode "
       "--tensor-split --main-gpu --device --override-tensor --cpu-moe --n-cpu-moe "
       "--cache-type-k --cache-type-v --swa-full --kv-unified --no-kv-unified "
       "--kv-offload --no-kv-offload --no-host --repack --no-repack --op-offload "
       "--no-op-offload --fit --fit-target --fit-ctx --fit-print --flash-attn "
       "--load-mode --mmproj --no-mmproj --mmproj-offload --no-mmproj-offload "
       "--model-draft --cache-type-k-draft --cache-type-v-draft --device-draft "
       "--gpu-layers-draft --override-tensor-draft --cpu-moe-draft --n-cpu-moe-draft "
       "--lora --lora-scaled --control-vector --control-vector-scaled"},
  };
  for (const Row& row : rows) {
    std::string moving;
    for (const Flag& flag : find_engine(row.engine)->flags) {
      if (!flag.moves || !flag.uncounted.empty() || !flag.unplanned.empty()) continue;
      if (!moving.empty()) moving += " ";
      moving += flag.names.substr(0, flag.names.find(','));
    }
    INFO(row.engine);
    CHECK(moving == row.flags);
  }
}

TEST_CASE("a flag of ours is the engine's, with its value as the engine spells it") {
  using Words = std::vector<std::string>;
  struct Row {
    const char *engine, *flag, *value;
    Words words;  // none: the engine has no such flag or value
  };
  const Row rows[] = {
      {"sglang", "--max-model-len", "16k", {"--context-length", "16000"}},
      {"sglang", "--max-model-len", "-1", {"--context-length", "-1"}},
      {"sglang", "--max-model-len", "auto", {}},
      {"sglang", "--gpu-memory-utilization", "0.8", {"--mem-fraction-static", "0.8"}},
      {"sglang", "--kv-cache-dtype", "fp8", {"--kv-cache-dtype", "fp8_e4m3"}},
      {"sglang", "--kv-cache-dtype", "fp8_e5m2", {"--kv-cache-dtype", "fp8_e5m2"}},
      {"sglang", "--kv-cache-dtype", "int8", {}},
      {"sglang", "--kv-cache-dtype", "", {"--kv-cache-dtype"}},
      {"tensorrt-llm", "--kv-cache-dtype", "fp8", {"--kv-cache-dtype", "fp8"}},
      {"lmdeploy", "--enable-prefix-caching", "", {"--enable-prefix-caching"}},
      {"lmdeploy", "--enable-prefix-caching", "on", {"--enable-prefix-caching"}},
      {"lmdeploy", "--enable-lora", "", {}},
      {"lmdeploy", "--kv-cache-dtype", "fp8", {"--quant-policy", "fp8"}},
      {"lmdeploy", "--kv-cache-dtype", "auto", {}},
      {"sglang", "--enforce-eager", "", {"--disable-cuda-graph"}},
  };
  for (const Row& row : rows) {
    INFO(row.engine << " " << row.flag << " " << row.value);
    CHECK(find_engine(row.engine)->translate(row.flag, row.value) == row.words);
  }
}
