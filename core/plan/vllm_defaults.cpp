// What vLLM fills in when an argument is not given (vllm/engine/arg_utils.py, vllm/config).
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "plan/amount.h"
#include "plan/vllm_plan.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kUnstatedLength = 2048;

std::string stripped(std::string dtype) {
  constexpr std::string_view kPrefix = "torch.";
  if (dtype.starts_with(kPrefix)) dtype.erase(0, kPrefix.size());
  if (dtype == "half" || dtype == "fp16") return "float16";
  if (dtype == "bf16") return "bfloat16";
  if (dtype == "float" || dtype == "fp32") return "float32";
  return dtype;
}

/// Models that answer with vectors: encoders, rewards, and configs that name no architecture.
bool is_pooling(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  if (names.empty()) return true;
  const std::string& name = names.front();
  for (const char* mark : {"MaskedLM", "SequenceClassification", "TokenClassification",
                           "RewardModel", "ForEmbedding"}) {
    if (name.find(mark) != std::string::npos) return true;
  }
  return name.ends_with("Model") && !name.ends_with("LMHeadModel") && !name.ends_with("ChatModel");
}

/// The factor by which rope scaling lengthens the stated positions.
double rope_factor(const ConfigView& text) {
  const ConfigView rope = text.child({"rope_parameters", "rope_scaling"});
  const std::string model_type = text.text({"model_type"}, "");
  if (model_type.find("gemma3") != std::string::npos) return 1.0;
  const auto factor_of = [](const ConfigView& settings) {
    const std::string type = settings.text({"rope_type", "type"}, "default");
    for (const char* unscaled : {"su", "longrope", "llama3", "yarn", "deepseek_yarn"}) {
      if (type == unscaled) return 1.0;
    }
    return settings.number({"factor"}, 1.0);
  };
  if (rope.has_child({"full_attention"})) return factor_of(rope.child({"full_attention"}));
  return factor_of(rope);
}

}  // namespace

int64_t derived_max_model_len(const ConfigView& config) {
  const ConfigView text = text_config(config);
  int64_t length = 0;
  for (const char* key :
       {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
        "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}) {
    const int64_t stated = text.integer({key}, 0);
    if (stated > 0 && (length == 0 || stated < length)) length = stated;
  }
  const int64_t own = text.integer({"model_max_length"}, 0);
  if (own > 0) length = own;
  if (length == 0) return kUnstatedLength;
  const ConfigView rope = text.child({"rope_parameters", "rope_scaling"});
  const std::string type = rope.text({"rope_type", "type"}, "");
  if (type == "longrope" || type == "su") {
    return text.integer({"original_max_position_embeddings"},
                        rope.integer({"original_max_position_embeddings"}, length));
  }
  const double scaled = static_cast<double>(length) * rope_factor(text);
  return scaled < 1e15 ? std::max<int64_t>(1, static_cast<int64_t>(scaled)) : length;
}

std::string resolve_dtype(const ConfigView& config, const EngineArgs& args, const Gpu* gpu) {
  const ConfigView text = text_config(config);
  std::string dtype = stripped(args.dtype);
  const bool old_card =
      gpu != nullptr && gpu->compute_capability > 0 && gpu->compute_capability < 8.0;
  if (dtype == "auto") {
    dtype = stripped(
        text.text({"dtype", "torch_dtype"}, config.text({"dtype", "torch_dtype"}, "float32")));
    const std::string type = text.text({"model_type"}, "");
    const bool unstable =
        type == "gemma2" || type == "gemma3" || type == "gemma3_text" || type == "glm4";
    if (dtype == "float32") {
      const bool narrow = is_pooling(config) || args.version < VllmVersion{0, 9, 1};
      dtype = narrow && !unstable ? "float16" : "bfloat16";
    }
    if (dtype == "float16" && unstable) dtype = "bfloat16";
    if (dtype == "bfloat16" && old_card) dtype = "float16";
  }
  if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32") {
    fail(ExitCode::usage, "--dtype {}: expected auto, bfloat16, float16 or float32", dtype);
  }
  if (dtype == "bfloat16" && old_card) {
    fail(ExitCode::usage,
         "--dtype bfloat16: {} has compute capability {:.1f}, bfloat16 needs 8.0; use --dtype "
         "float16",
         gpu->name, gpu->compute_capability);
  }
  return dtype;
}

void check_card(const std::string& method, const VllmVersion& version, const Gpu* gpu) {
  if (gpu == nullptr || gpu->compute_capability == 0 || method.empty()) return;
  const int recent = version >= VllmVersion{0, 14, 0} ? 75 : 80;
  const std::map<std::string_view, int> least = {
      {"fp8", version < VllmVersion{0, 5, 2} ? 89 : recent},
      {"awq", 75},
      {"awq_marlin", recent},
      {"gptq", 60},
      {"gptq_marlin", version >= VllmVersion{0, 22, 0} ? 60 : recent},
      {"compressed-tensors", 70},
      {"bitsandbytes", 70},
      {"mxfp4", 80},
      {"gpt_oss_mxfp4", 80},
      {"modelopt", version >= VllmVersion{0, 27, 0} ? 80 : 89},
      {"modelopt_fp4", recent}};
  const auto wanted = least.find(method);
  const auto has = static_cast<int>(std::lround(gpu->compute_capability * 10));
  if (wanted == least.end() || has >= wanted->second) return;
  fail(ExitCode::usage,
       "The quantization method {} is not supported for the current GPU. Minimum capability: {}. "
       "Current capability: {}.",
       method, wanted->second, has);
}

namespace {

struct BatchDefaults {
  int64_t tokens;
  int64_t seqs;
};

BatchDefaults batch_defaults(const EngineArgs& args, const Gpu* gpu) {
  if (args.version < VllmVersion{0, 8, 0}) return {kUnstatedLength, 256};
  if (args.usage == Usage::batch) return {2048, 128};
  const bool offline = args.usage == Usage::offline;
  const int64_t total = gpu != nullptr ? gpu->visible_bytes() : 0;
  std::string name = gpu != nullptr ? gpu->name : "";
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const auto named = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (total >= 160 * kGiB && args.version >= VllmVersion{0, 28, 0}) return {16384, 1024};
  bool large = total >= 70 * kGiB;
  if (args.version >= VllmVersion{0, 9, 0}) large = large && !named("a100");
  if (args.version < VllmVersion{0, 8, 5}) large = named("h100") || named("h200");
  const bool many = large || args.version < VllmVersion{0, 8, 4};
  return {(offline ? 8192 : 2048) * (large ? (offline ? 2 : 4) : 1), many ? 1024 : 256};
}

}  // namespace

EngineLimits resolve_limits(const EngineArgs& args, const Gpu* gpu, int64_t max_model_len) {
  const BatchDefaults defaults = batch_defaults(args, gpu);
  EngineLimits limits;
  limits.utilization = args.gpu_memory_utilization;
  if (limits.utilization == 0)
    limits.utilization = args.version >= VllmVersion{0, 20, 0} ? 0.92 : 0.90;
  limits.max_num_seqs = args.max_num_seqs > 0 ? args.max_num_seqs : defaults.seqs;
  if (args.max_num_batched_tokens > 0) {
    limits.max_num_batched_tokens = args.max_num_batched_tokens;
    return limits;
  }
  const bool old = args.version < VllmVersion{0, 8, 0};
  const bool chunked = args.chunked_prefill.value_or(!old);
  int64_t tokens = defaults.tokens;
  if (old && chunked) tokens = 512;
  if (!chunked) tokens = std::max(max_model_len, tokens);
  const Amount most = Amount{limits.max_num_seqs} * max_model_len;
  limits.max_num_batched_tokens = std::min(most, Amount{tokens}).value();
  if (args.max_num_seqs == 0) {
    limits.max_num_seqs = std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
  }
  return limits;
}

GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const Gpu* gpu,
                      const std::string& architecture) {
  GraphPlan graphs;
  if (args.enforce_eager) return graphs;
  const bool blackwell =
      gpu != nullptr && gpu->compute_capability >= 10.0 && gpu->compute_capability < 11.0;
  if (args.version < VllmVersion{0, 8, 0}) {  // decode alone, up to 256 sequences
    for (const int64_t size : {1, 2, 4}) graphs.piecewise.push_back(size);
    for (int64_t size = 8; size <= 256; size += 8) graphs.piecewise.push_back(size);
    return graphs;
  }
  const int64_t cap = blackwell || architecture == "GptOssForCausalLM" ? 1024 : 512;
  const Amount drafted = Amount{limits.max_num_seqs} * 2 * (Amount{1} + args.draft_tokens);
  const int64_t most = std::min({limits.max_num_batched_tokens, drafted.value(), cap});
  if (args.capture_sizes) {
    graphs.piecewise = *args.capture_sizes;
    std::erase_if(graphs.piecewise,
                  [&](int64_t size) { return size < 1 || size > limits.max_num_batched_tokens; });
  } else if (args.version < VllmVersion{0, 11, 1}) {
    for (const int64_t size : {1, 2, 4}) graphs.piecewise.push_back(size);
    for (int64_t size = 8; size <= most; size += 8) graphs.piecewise.push_back(size);
  } else {
    for (const int64_t size : {1, 2, 4}) {
      if (size <= most) graphs.piecewise.push_back(size);
    }
    for (int64_t size = 8; size < 256 && size <= most; size += 8) graphs.piecewise.push_back(size);
    for (int64_t size = 256; size <= most; size += 16) graphs.piecewise.push_back(size);
  }
  if (args.version >= VllmVersion{0, 11, 0}) {
    graphs.full =
        std::count_if(graphs.piecewise.begin(), graphs.piecewise.end(), [&](int64_t size) {
          return Amount{size} <= Amount{limits.max_num_seqs} * (Amount{1} + args.draft_tokens);
        });
  }
  return graphs;
}

}  // namespace plimsoll::plan
