// Scenes for the dates of releases: a model, a launch, a card, and the figure that is watched.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/configs.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/stage.h"
#include "vllm_config.h"

namespace plimsoll::plan {

using namespace vllm;

using Releases = std::vector<std::string>;  // "20.1" is 0.20.1
using Ask = std::function<void(EngineArgs&)>;

/// The releases at which `answer` changes, from the first that serves the model on.
inline Releases changes_of(const std::function<std::string(const VllmVersion&)>& answer) {
  constexpr int kFirstMinor = 5;
  constexpr int kPatches = 6;  // more than any release has had
  Releases changes;
  std::string before = answer({0, kFirstMinor, 0});
  for (int minor = kFirstMinor; minor <= model::kNewestRelease.minor; ++minor) {
    for (int patch = 0; patch < kPatches; ++patch) {
      if (VllmVersion{0, minor, patch} > model::kNewestRelease) break;
      std::string now = answer({0, minor, patch});
      const bool served = before.find("are not supported for now") == std::string::npos;
      if (served && now != before) changes.push_back(fmt::format("{}.{}", minor, patch));
      before = std::move(now);
    }
  }
  return changes;
}

inline Json sample(const char* name) {
  return test::vllm_config(std::string(PLIMSOLL_SOURCE_DIR) + "/samples/plans/configs/" + name);
}

inline Json with(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

inline Json quantized(const Json& settings) {
  return with(llama_8b(), {{"quantization_config", settings}});
}

/// Ten layers with whole attention and fourteen with windows: one group or two.
inline Json uneven_windows() {
  Json config = gpt_oss(24, 32);
  for (int layer = 0; layer < 24; ++layer) {
    config["layer_types"].push_back(layer < 10 ? "full_attention" : "sliding_attention");
  }
  return config;
}

/// Latent attention beside recurrent layers.
inline Json kimi_linear() {
  return {{"architectures", {"KimiLinearForCausalLM"}},
          {"model_type", "kimi_linear"},
          {"torch_dtype", "bfloat16"},
          {"hidden_size", 2304},
          {"intermediate_size", 9216},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 32},
          {"vocab_size", 163840},
          {"model_max_length", 8192},
          {"kv_lora_rank", 512},
          {"qk_nope_head_dim", 128},
          {"qk_rope_head_dim", 64},
          {"v_head_dim", 128},
          {"mla_use_nope", true},
          {"linear_attn_config",
           {{"full_attn_layers", {4}},
            {"kda_layers", {1, 2, 3}},
            {"head_dim", 128},
            {"num_heads", 32},
            {"short_conv_kernel_size", 4}}}};
}

// ---- settings of launches ----

inline void nothing(EngineArgs&) {}
inline void same_share(EngineArgs& args) {
  args.gpu_memory_utilization = 0.9;
}
inline void same_step(EngineArgs& args) {
  args.max_num_seqs = 256;
  args.max_num_batched_tokens = 8192;
}
inline void without_groups(EngineArgs& args) {
  args.hybrid_kv = false;
}

inline Ask quantize(const char* method, const char* dtype = "auto") {
  return [=](EngineArgs& args) {
    args.quantization = method;
    args.dtype = dtype;
  };
}

inline Ask draft(const char* method) {
  return [=](EngineArgs& args) {
    args.draft_method = method;
    args.draft_tokens = 3;
  };
}

// ---- what is watched ----

using Watch = std::function<std::string(const PlanResult&)>;

/// The whole answer but the release's own name.
inline std::string everything(PlanResult result) {
  result.version.clear();
  for (std::string& note : result.notes) {
    if (note.find("is newer than") != std::string::npos) note = "newer";
  }
  return to_json(result);
}

inline Watch number(int64_t PlanResult::*which) {
  return [which](const PlanResult& result) { return std::to_string(result.*which); };
}
inline Watch number(int64_t StageFigures::*which) {
  return [which](const PlanResult& result) { return std::to_string(result.*which); };
}

inline std::string reason(const PlanResult& result) {
  return result.reason;
}
inline std::string is_fit(const PlanResult& result) {
  return result.fits.value_or(false) ? "fits" : "does not fit";
}
inline std::string groups(const PlanResult& result) {
  return fmt::format("{}", result.group_sizes.size());
}
inline std::string needs(const PlanResult& result) {
  std::string text;
  for (const GroupNeed& need : result.group_needs) text += fmt::format("{} ", need.most_blocks);
  return text;
}
/// Whether graphs are taken from the budget.
inline std::string counts_graphs(const PlanResult& result) {
  for (const PlanPart& part : result.parts) {
    if (part.name == "cuda graphs") return part.inside_budget ? "inside" : "outside";
  }
  return "none";
}
inline std::string length_notes(const PlanResult& result) {
  std::string text = std::to_string(result.max_model_len);
  for (const std::string& note : result.notes) {
    if (note.find("YaRN") != std::string::npos) text += " note";
  }
  return text;
}

inline std::string notes(const PlanResult& result) {
  std::string text;
  for (const std::string& note : result.notes) {
    if (note.starts_with("it fits at the middle")) continue;  // its figures have dates of their own
    text += note.find("is newer than") == std::string::npos ? note : "newer";
  }
  return text;
}

struct Scene {
  const char* name;
  Json config;
  Ask ask;
  const char* card;
  Watch watch;
  Releases changes;
};

inline std::string answer(const Scene& scene, const VllmVersion& version) {
  EngineArgs args;
  args.version = version;
  scene.ask(args);
  try {
    return scene.watch(
        plan_vllm({scene.config, "config.json"}, args, &hardware::find_gpu(scene.card)));
  } catch (const Error& error) {
    return error.what();
  }
}

inline const auto kSequences = number(&PlanResult::max_num_seqs);
inline const auto kTokens = number(&PlanResult::max_num_batched_tokens);
inline const auto kGraphs = number(&PlanResult::cuda_graphs);
inline const auto kBudget = number(&PlanResult::budget_bytes);
inline const auto kWeights = number(&StageFigures::weights_bytes);
inline const auto kActivations = number(&StageFigures::activation_peak_bytes);
inline const auto kOutsideTorch = number(&StageFigures::non_torch_bytes);
inline const auto kCacheTokens = number(&PlanResult::kv_tokens);
inline const auto kLongest = number(&PlanResult::estimated_max_model_len);

inline const Json kInt8 = {
    {"quant_method", "compressed-tensors"},
    {"format", "int-quantized"},
    {"config_groups",
     {{"group_0",
       {{"targets", {"Linear"}},
        {"weights", {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}}},
        {"input_activations",
         {{"num_bits", 8}, {"type", "int"}, {"strategy", "token"}, {"dynamic", true}}}}}}}};
/// Packed integers whose groups are made in the order of activations.
inline const Json kOrdered = {{"quant_method", "compressed-tensors"},
                              {"format", "pack-quantized"},
                              {"config_groups",
                               {{"group_0",
                                 {{"targets", {"Linear"}},
                                  {"weights",
                                   {{"num_bits", 4},
                                    {"type", "int"},
                                    {"strategy", "group"},
                                    {"group_size", 128},
                                    {"symmetric", true},
                                    {"actorder", "group"}}}}}}}};
inline const Json kGptq = {
    {"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", true}};

}  // namespace plimsoll::plan
