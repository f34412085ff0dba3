// Configs of a few models, with the keys that a plan reads.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "plan/vllm_plan.h"

namespace plimsoll::plan {

using namespace vllm;

/// Published ones, a file each.
inline const std::string kConfigs = PLIMSOLL_SOURCE_DIR "/samples/plans/configs/";

inline PlanResult plan_of(const Json& config, const EngineArgs& args = {},
                          const char* gpu = "h100") {
  return plan_vllm({config, "config.json"}, args, &hardware::find_gpu(gpu));
}

/// The message with which plan_of refuses; empty: it does not.
inline std::string refusal_of(const Json& config, const EngineArgs& args,
                              const char* gpu = "h100") {
  try {
    plan_of(config, args, gpu);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

/// Bytes of a part of the plan; 0: it has no such part.
inline int64_t part_bytes(const PlanResult& result, const std::string& name) {
  for (const PlanPart& part : result.parts) {
    if (part.name == name) return part.bytes;
  }
  return 0;
}

inline EngineArgs at(VllmVersion version) {
  EngineArgs args;
  args.version = version;
  return args;
}

inline constexpr int64_t kGib = int64_t{1} << 30;
inline double gib(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGib);
}

/// Llama's keys of an architecture that nobody knows.
inline Json unknown_decoder() {
  return parse_json<Json>(R"({"architectures":["WombatForCausalLM"],"torch_dtype":"bfloat16",
    "hidden_size":1024,"intermediate_size":4096,"num_hidden_layers":8,"num_attention_heads":16,
    "num_key_value_heads":4,"vocab_size":32000,"max_position_embeddings":4096})");
}

inline Json llama_8b() {
  return parse_json<Json>(
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16",
    "hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
    "vocab_size":128256,"max_position_embeddings":131072,"rope_theta":500000.0,"tie_word_embeddings":false})");
}

inline Json qwen_with_yarn() {
  Json config = llama_8b();
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["model_type"] = "qwen2";
  config["max_position_embeddings"] = 32768;
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  return config;
}

inline Json gemma2() {
  Json config = llama_8b();
  config["architectures"] = {"Gemma2ForCausalLM"};
  config["model_type"] = "gemma2";
  config["head_dim"] = 128;
  config["max_position_embeddings"] = 8192;
  return config;
}

/// A model with recurrent layers and attention between them.
inline Json hybrid() {
  return parse_json<Json>(R"({"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h",
    "torch_dtype":"bfloat16","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":8,
    "hybrid_override_pattern":"M-M-M*M-","num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,
    "vocab_size":131072,"mamba_num_heads":128,"mamba_head_dim":64,"ssm_state_size":128,"n_groups":8,
    "conv_kernel":4,"expand":2,"max_position_embeddings":8192})");
}

inline Json gpt_oss(int64_t layers, int64_t experts) {
  return {{"architectures", {"GptOssForCausalLM"}},
          {"model_type", "gpt_oss"},
          {"torch_dtype", "bfloat16"},
          {"hidden_size", 2880},
          {"intermediate_size", 2880},
          {"head_dim", 64},
          {"num_hidden_layers", layers},
          {"num_local_experts", experts},
          {"num_experts_per_tok", 4},
          {"num_attention_heads", 64},
          {"num_key_value_heads", 8},
          {"vocab_size", 201088},
          {"sliding_window", 128},
          {"max_position_embeddings", 131072},
          {"rope_scaling",
           {{"rope_type", "yarn"}, {"factor", 32.0}, {"original_max_position_embeddings", 4096}}},
          {"quantization_config", {{"quant_method", "mxfp4"}}}};
}

}  // namespace plimsoll::plan
