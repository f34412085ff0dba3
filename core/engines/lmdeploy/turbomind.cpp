#include "engines/lmdeploy/turbomind.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rounding.h"

namespace plimsoll::engines::lmdeploy::turbomind {
namespace {

constexpr Version kAlways{0, 0, 0};
constexpr Version kStill{1 << 20, 0, 0};
constexpr Version kLastOfOldClasses{0, 13, 0};

/// Releases whose table (lmdeploy/turbomind/supported_models.py) has an architecture.
struct Supported {
  std::string_view architecture;
  Version first = kAlways;
  Version last = kStill;
};
constexpr Supported kSupported[] = {
    {"LlamaForCausalLM"},
    {"InternLM2ForCausalLM"},
    {"InternLM3ForCausalLM", {0, 7, 0}},
    {"Qwen2ForCausalLM"},
    {"Qwen2MoeForCausalLM", {0, 6, 3}},
    {"Qwen2VLForConditionalGeneration", {0, 9, 2}},
    {"Qwen2_5_VLForConditionalGeneration", {0, 9, 2}},
    {"Qwen3ForCausalLM", {0, 7, 3}},
    {"Qwen3MoeForCausalLM", {0, 7, 3}},
    {"Qwen3_5ForConditionalGeneration", {0, 12, 2}},
    {"Qwen3_5MoeForConditionalGeneration", {0, 12, 2}},
    {"InternS2PreviewForConditionalGeneration", {0, 14, 0}},
    {"InternS2MobiusForConditionalGeneration", {0, 16, 0}},
    {"InternVLChatModel", {0, 4, 0}},
    {"InternVLForConditionalGeneration", {0, 9, 0}},
    {"InternS1ForConditionalGeneration", {0, 9, 2}},
    {"MixtralForCausalLM"},
    {"GptOssForCausalLM", {0, 10, 0}},
    {"Glm4MoeLiteForCausalLM", {0, 12, 2}},
    {"MistralForCausalLM", kAlways, kLastOfOldClasses},
    {"BaichuanForCausalLM", kAlways, kLastOfOldClasses},
    {"BaiChuanForCausalLM", kAlways, kLastOfOldClasses},
    {"InternLMForCausalLM", kAlways, kLastOfOldClasses},
    {"QWenLMHeadModel", kAlways, kLastOfOldClasses},
    {"ChatGLMModel", kAlways, kLastOfOldClasses},
    {"ChatGLMForConditionalGeneration", {0, 5, 2}, kLastOfOldClasses},
    {"DeepseekV2ForCausalLM", {0, 6, 4}, kLastOfOldClasses},
    {"LlavaLlamaForCausalLM", {0, 2, 6}, kLastOfOldClasses},
    {"LlavaMistralForCausalLM", {0, 5, 0}, kLastOfOldClasses},
    {"LlavaForConditionalGeneration", {0, 6, 3}, kLastOfOldClasses},
    {"InternLMXComposer2ForCausalLM", {0, 4, 0}, kLastOfOldClasses},
    {"MiniCPMV", {0, 5, 0}, kLastOfOldClasses},
    {"MolmoForCausalLM", {0, 6, 3}, kLastOfOldClasses},
};

/// Releases to 0.13 took heads of 64 and 128 alone, and left some models of a class out.
bool taken_before_0_14(const ModelConfig& config) {
  const std::string& architecture = config.architecture();
  if (architecture == "BaichuanForCausalLM") return config.heads() != 40;
  if (architecture.starts_with("ChatGLM"))
    return config.text().integer({"num_layers"}, 0, kSizeOrNone) == 40;
  const bool by_head = architecture == "Qwen2ForCausalLM" || architecture == "LlamaForCausalLM" ||
                       architecture.starts_with("InternVL") ||
                       architecture == "LlavaForConditionalGeneration";
  return !by_head || config.head_dim() == 64 || config.head_dim() == 128;
}

void check_group_size(const std::string& method, int64_t group) {
  const bool narrow = method == "compressed-tensors" && group == 32;
  const int64_t usual = method == "mxfp4" ? 32 : 128;
  if (group == 0 || group == usual || narrow) return;
  refuse_launch(fmt::format(
      "ValueError: Unsupported group_size={} for model_format=\"{}\". Supported group_size "
      "values: {}.",
      group, method, method == "compressed-tensors" ? "32, 128" : std::to_string(usual)));
}

/// The checkpoint's quantization, as get_tm_config reads it; empty: none.
std::string method_of(const ModelConfig& config) {
  const ConfigView stated = config.quantization();
  std::string method = stated.text({"quant_method"}, "");
  if (method.empty()) return method;
  int64_t group = stated.integer({"group_size"}, 0, {-1, 1 << 20});
  bool known = method == "fp8" || method == "mxfp4";
  if (method == "awq") known = stated.text({"version"}, "") == "gemm";
  if (method == "gptq") known = !stated.flag({"desc_act"}, false) && stated.flag({"sym"}, true);
  if (method == "compressed-tensors") {
    const ConfigView part = stated.child({"config_groups"}).child({"group_0"});
    const ConfigView weights = part.child({"weights"});
    known = part.text({"format"}, stated.text({"format"}, "")) == "pack-quantized" &&
            weights.integer({"num_bits"}, 4, {1, 64}) == 4 &&
            weights.text({"type"}, "int") == "int";
    group = weights.integer({"group_size"}, 0, {0, 1 << 20});
  }
  if (!known) refuse_launch(fmt::format("AssertionError: unsupported quant_config: {}", method));
  if (method != "fp8" && method != "mxfp4") check_group_size(method, group);
  return method;
}

std::string dtype_of(const Question& question, const Fields& fields, const ModelConfig& config,
                     const std::string& method) {
  if (method == "awq" || method == "gptq" || method == "compressed-tensors") return "float16";
  constexpr double kAmpere = 8;
  const bool capable = question.gpu == nullptr || question.gpu->compute_capability >= kAmpere;
  std::string dtype = fields.text("dtype", "auto");
  if (dtype == "auto") dtype = config.dtype() == "float16" ? "float16" : "bfloat16";
  return capable ? dtype : "float16";
}

void check_fields(const Fields& fields) {
  fields.check_names("TurbomindEngineConfig", {"dtype",
                                               "model_format",
                                               "tp",
                                               "dp",
                                               "cp",
                                               "ep",
                                               "device_num",
                                               "attn_tp_size",
                                               "attn_cp_size",
                                               "attn_dp_size",
                                               "mlp_tp_size",
                                               "mlp_dp_size",
                                               "outer_dp_size",
                                               "nnodes",
                                               "node_rank",
                                               "dist_init_addr",
                                               "devices",
                                               "session_len",
                                               "max_batch_size",
                                               "cache_max_entry_count",
                                               "cache_chunk_size",
                                               "quant_policy",
                                               "cache_block_seq_len",
                                               "enable_prefix_caching",
                                               "cache_prompt",
                                               "cache_generation",
                                               "cache_checkpoint_interval",
                                               "download_dir",
                                               "rope_scaling_factor",
                                               "cache_prompt_boundary_skip",
                                               "use_logn_attn",
                                               "max_prefill_token_num",
                                               "num_tokens_per_iter",
                                               "revision",
                                               "max_prefill_iters",
                                               "async_",
                                               "empty_init",
                                               "language_model_only",
                                               "communicator",
                                               "hf_overrides",
                                               "enable_metrics"});
}

void read_share(Launch& launch, const Fields& fields, Version release) {
  launch.share = fields.number("cache_max_entry_count", launch.share);
  if (!(launch.share > 0)) refuse_launch("AssertionError: invalid cache_max_entry_count");
  if (launch.share < 1) return;
  if (release >= kObjectCache)
    refuse_launch("object-cache path no longer accepts cache_max_block_count as a block count");
  constexpr double kMost = 0x1p31;
  launch.blocks = static_cast<int64_t>(std::min(launch.share, kMost));
}

void read_policy(Launch& launch, const Fields& fields) {
  launch.quant_policy = fields.integer("quant_policy", 0, kTokens);
  const int64_t policy = launch.quant_policy;
  if (policy == 16 || policy == 17) {
    refuse_launch(
        "AssertionError: invalid quant_policy for TurboMind, FP8 quantization is not supported");
  }
  if (policy != 0 && policy != 4 && policy != 8)
    refuse_launch(fmt::format("ValueError: invalid quant_policy: {}", policy));
}

/// parallel_config.py, where all GPUs that tp and dp ask for are there: attention is cut by tp, and
/// what the rest is cut by divides tp too.
void read_ranks(Launch& launch, const Fields& fields) {
  constexpr Bounds kRanks{1, 1 << 12};
  const int64_t tp = fields.integer("tp", 1, kRanks), dp = fields.integer("dp", 1, kRanks);
  launch.experts = fields.integer("ep", 1, kRanks);
  launch.ranks = tp * dp;
  launch.tp = fields.integer("attn_tp_size", tp, kRanks);
  for (int64_t copies = 1; copies <= dp; ++copies) {
    const int64_t parts = copies * launch.experts;
    if (dp % copies != 0 || launch.ranks % parts != 0) continue;
    launch.mlp_tp = launch.ranks / parts;
    if (tp % launch.mlp_tp == 0) return;
  }
  refuse_launch(fmt::format(
      "AssertionError: no valid parallel config: dp={}, tp={}, ep={}, cp=1; note the legacy "
      "\"tp=1, ep=N\" spelling must be \"tp=N, ep=N\"",
      dp, tp, launch.experts));
}

void read_fields(Launch& launch, const Question& question, const Fields& fields, Version release) {
  launch.batch = fields.integer("max_batch_size", largest_batch(question.gpu), kTokens);
  if (launch.batch <= 0) {
    refuse_launch(fmt::format("AssertionError: max_batch_size should be greater than 0, but got {}",
                              launch.batch));
  }
  read_share(launch, fields, release);
  read_policy(launch, fields);
  read_ranks(launch, fields);
  launch.prefill = fields.integer("max_prefill_token_num", 8192, kTokens);
  if (launch.prefill < 0) refuse_launch("AssertionError: invalid max_prefill_token_num");
  launch.block = fields.integer("cache_block_seq_len", launch.block, {1, 1 << 12});
  launch.prefix_caching = fields.flag("enable_prefix_caching", false);
}

/// Heads of keys that ranks cannot divide are repeated up to the next multiple of them.
void read_heads(Launch& launch, const ModelConfig& config) {
  launch.layers = config.layers();
  launch.head_dim = is_latent(config.architecture()) ? config.latent_width() : config.head_dim();
  const int64_t heads = is_latent(config.architecture()) ? 1 : config.kv_heads();
  const int64_t repeated = round_up(heads, launch.tp);
  if (repeated % heads != 0) {
    refuse_launch(fmt::format("AssertionError: target_heads={} must be divisible by heads={}",
                              repeated, heads));
  }
  launch.kv_heads = repeated / launch.tp;
}

void read_states(Launch& launch, const Question& question, const ModelConfig& config) {
  const std::vector<std::string> types = config.layer_types();
  const int64_t linear = count_of(types, "linear_attention");
  if (linear == 0) return;
  const DeltaSizes delta = config.delta_sizes();
  if (delta.k_heads % launch.tp != 0 || delta.v_heads % launch.tp != 0) {
    refuse_launch(fmt::format("Check failed: first.num_k_heads % tp_size_ == 0 ({} vs. 0)",
                              delta.k_heads % launch.tp));
  }
  launch.layers -= linear;
  if (launch.layers == 0) refuse_launch("Check failed: weights.size() >= 1 (0 vs. 1)");
  const auto variable = question.variables.find("LMDEPLOY_FP32_MAMBA_SSM_DTYPE");
  const bool wide = variable != question.variables.end() && variable->second == "1";
  const int64_t channels = 2 * delta.k_heads * delta.k_dim + delta.v_heads * delta.v_dim;
  launch.convolutions = linear * (channels / launch.tp) * delta.kernel * 2;
  launch.state = delta.v_heads / launch.tp * delta.k_dim * delta.v_dim * (wide ? 4 : 2);
  launch.state_layers = linear;
}

}  // namespace

bool takes(const ModelConfig& config, Version release) {
  const auto* const row =
      std::ranges::find(kSupported, config.architecture(), &Supported::architecture);
  if (row == std::end(kSupported) || release < row->first || row->last < release) return false;
  if (config.quantization().text({"quant_method"}, "") == "smooth_quant") return false;
  if (is_latent(config.architecture()) && config.has_part({"vision_config"})) return false;
  return release > kLastOfOldClasses || taken_before_0_14(config);
}

Launch resolve(const Question& question, const ModelConfig& config, const Fields& fields,
               Version release) {
  check_fields(fields);
  Launch launch;
  launch.architecture = config.architecture();
  read_fields(launch, question, fields, release);
  launch.dtype = dtype_of(question, fields, config, method_of(config));
  launch.vocabulary = config.vocabulary();
  read_heads(launch, config);
  read_states(launch, question, config);
  constexpr int64_t kLengthUnstated = 2048;
  const int64_t length =
      config.text().integer({"max_position_embeddings", "seq_length", "max_sequence_length"},
                            kLengthUnstated, {1, int64_t{1} << 40});
  launch.session = fields.integer("session_len", length, {1, int64_t{1} << 31});
  return launch;
}

OrderedJson resolved_json(const Launch& launch) {
  OrderedJson json = settings_json(launch);
  json.update({{"backend", "turbomind"},
               {"kv_heads", launch.kv_heads},
               {"head_dim", launch.head_dim},
               {"vocab_size", launch.vocabulary},
               {"attn_tp", launch.tp},
               {"session_len", launch.session},
               {"cache_block_seq_len", launch.block},
               {"prefix_caching", launch.prefix_caching}});
  return json;
}

}  // namespace plimsoll::engines::lmdeploy::turbomind
