#include "engines/engine.h"

#include <algorithm>
#include <stdexcept>

#include "base/lower_case.h"
#include "base/split_text.h"
#include "base/units.h"
#include "engines/llamacpp/llamacpp.h"
#include "engines/lmdeploy/lmdeploy.h"
#include "engines/sglang/flags.h"
#include "engines/sglang/releases.h"
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
    {"--enforce-eager", "--disable-cuda-graph"},
};

constexpr OwnFlag kOfLmdeploy[] = {
    {"--max-model-len", "--session-len"},
    {"--max-num-seqs", "--max-batch-size"},
    {"--max-num-batched-tokens", "--max-prefill-token-num"},
    {"--gpu-memory-utilization", "--cache-max-entry-count"},
    {"--block-size", "--cache-block-seq-len"},
    {"--tensor-parallel-size", "--tp"},
    {"--data-parallel-size", "--dp"},
    {"--kv-cache-dtype", "--quant-policy"},
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

constexpr OwnFlag kOfLlamaCpp[] = {
    {"--max-model-len", "--ctx-size"},
    {"--max-num-seqs", "--parallel"},
    {"--max-num-batched-tokens", "--ubatch-size"},
};

constexpr OwnFlag kVariablesOfLlamaCpp[] = {
    {"LLAMA_ARG_BATCH", "--batch-size"},    {"LLAMA_ARG_UBATCH", "--ubatch-size"},
    {"LLAMA_ARG_N_PARALLEL", "--parallel"}, {"LLAMA_ARG_SPEC_DRAFT_HF_REPO", "--hf-repo-draft"},
    {"LLAMA_ARG_BATCH_SIZE", ""},  // no names of llama.cpp's, which reads nothing there
    {"LLAMA_ARG_UBATCH_SIZE", ""},          {"LLAMA_ARG_PARALLEL", ""},
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
constexpr Remedy kForLlamaCpp[] = {
    {"--ctx-size", "take a shorter context", "longer requests are refused", &Figures::kv_tokens,
     256},
    {"--n-gpu-layers", "put fewer layers on the cards", "the others are computed on the host",
     &Figures::card_layers},
    {"--cache-type-k q8_0 --cache-type-v q8_0", "store the KV cache in 8 bits",
     "answers differ a little"},
    {"--ubatch-size 128", "run micro batches of 128 tokens", "long prompts take longer"},
    {"--cpu-moe", "keep the experts' weights on the host", "slower"},
    {"--fit on", "let llama.cpp place what fits", "a shorter context, or layers on the host"},
};

const std::vector<Engine>& table() {
  static const std::vector<Engine> engines = {
      {.name = "sglang",
       .aliases = {},
       .program = "sglang serve",
       .model_flag = "--model-path",
       .flags = sglang::flags(),
       .own_flags = kOfSglang,
       .remedies = kForSglang,
       .file_flag = "--config",
       .file_use = FileUse::flags,
       .newest = sglang::kNewest,
       .dated = true,
       .last_release = sglang::last_release_of,
       .answer_to = sglang::answer_to},
      {.name = "lmdeploy",
       .aliases = {},
       .program = "lmdeploy serve api_server",
       .model_flag = "",
       .flags = lmdeploy::flags(),
       .own_flags = kOfLmdeploy,
       .remedies = kForLmdeploy,
       .newest = lmdeploy::kNewest,
       .dated = true,
       .answer_to = lmdeploy::answer_to},
      {.name = "llamacpp",
       .aliases = {"llama.cpp", "llama-cpp"},
       .program = "llama-server",
       .model_flag = "-m",
       .flags = llamacpp::flags(),
       .own_flags = kOfLlamaCpp,
       .remedies = kForLlamaCpp,
       .variable_prefix = "LLAMA_ARG_",
       .variables = kVariablesOfLlamaCpp,
       .newest = llamacpp::kNewest,
       .answer_to = llamacpp::answer_to},
      {.name = "tensorrt-llm",
       .aliases = {"trtllm", "trt-llm"},
       .program = "trtllm-serve",
       .model_flag = "",
       .flags = tensorrt_llm::flags(),
       .own_flags = kOfTensorrtLlm,
       .remedies = kForTensorrtLlm,
       .file_flag = "--extra-llm-api-options",
       .file_use = FileUse::fields,
       .newest = tensorrt_llm::kNewest,
       .answer_to = tensorrt_llm::answer_to},
      {.name = "transformers",
       .aliases = {"hf"},
       .program = "transformers serve --continuous-batching --force-model",
       .model_flag = "",
       .flags = transformers::flags(),
       .own_flags = kOfTransformers,
       .remedies = kForTransformers,
       .newest = transformers::kNewest,
       .answer_to = transformers::answer_to},
  };
  return engines;
}

}  // namespace

std::string_view Engine::own_name(std::string_view flag) const {
  const auto named = std::ranges::find(own_flags, flag, &OwnFlag::first);
  if (named != own_flags.end()) return named->second;
  return find_named(flags, flag) != nullptr ? flag : std::string_view();
}

std::vector<std::string> Engine::translate(const std::string& flag,
                                           const std::string& value) const {
  const std::string theirs(own_name(flag));
  const Flag* const known = find_named(flags, theirs);
  if (known == nullptr) return {};
  if (known->kind == FlagKind::bare || value.empty()) return {theirs};
  const std::vector<std::string_view> choices = split_text(known->choices, ",");
  const auto is_choice = [&](const std::string& text) {
    return std::ranges::count(choices, text) > 0;
  };
  if (!known->choices.empty() && !is_choice(value)) {
    const std::string spelled = value + "_e4m3";
    return is_choice(spelled) ? std::vector{theirs, spelled} : std::vector<std::string>();
  }
  if (value == "auto" && (known->kind != FlagKind::text || theirs != flag)) return {};
  if (known->kind != FlagKind::integer) return {theirs, value};
  try {
    return {theirs, std::to_string(parse_count(value))};
  } catch (const std::invalid_argument&) {
    return {theirs, value};  // the engine refuses it, or takes it: -1
  }
}

Answer Engine::ask(const Question& question) const {
  const Version asked = question.version.empty() ? newest : parse_release(question.version, newest);
  const Version planned = dated ? std::min(asked, newest) : newest;
  Answer answer;
  answer.version = model::version_text(planned);
  if (asked != planned) answer.asked_for = question.version;
  try {
    answer_to(question, planned, answer);
  } catch (const Refusal& refusal) {
    answer.refused = refusal;
  }
  return answer;
}

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
