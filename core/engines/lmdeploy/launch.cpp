// Sources: lmdeploy/messages.py and lmdeploy/pytorch/config.py, configurations/ of 0.18.0.
#include "engines/lmdeploy/launch.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::engines::lmdeploy {
namespace {

/// Source: lmdeploy/utils.py, get_max_batch_size.
struct BatchRow {
  std::string_view card;  // a part of the card's name
  int64_t batch;
};
constexpr BatchRow kBatches[] = {{"A100", 384},  {"A800", 384},  {"H100", 1024},
                                 {"H800", 1024}, {"L20Y", 1024}, {"H200", 1024}};
constexpr int64_t kUsualBatch = 128;

/// Architectures without a class in lmdeploy/pytorch/models/module_map.py.
constexpr std::string_view kUnmapped[] = {"ChatGLMModel",
                                          "GPT2LMHeadModel",
                                          "BloomForCausalLM",
                                          "FalconForCausalLM",
                                          "GPTNeoXForCausalLM",
                                          "OPTForCausalLM",
                                          "MPTForCausalLM",
                                          "PhiForCausalLM",
                                          "CohereForCausalLM",
                                          "Cohere2ForCausalLM",
                                          "StableLmForCausalLM",
                                          "OlmoForCausalLM",
                                          "Olmo2ForCausalLM",
                                          "Olmo3ForCausalLM",
                                          "GraniteForCausalLM",
                                          "GraniteMoeForCausalLM",
                                          "MiniMaxM2ForCausalLM",
                                          "NemotronHForCausalLM",
                                          "Exaone4ForCausalLM",
                                          "MiMoV2FlashForCausalLM",
                                          "LagunaForCausalLM",
                                          "KimiK3ForConditionalGeneration",
                                          "Gemma4ForConditionalGeneration",
                                          "MuseGlimmerForConditionalGeneration",
                                          "SmolLM3ForCausalLM",
                                          "DbrxForCausalLM",
                                          "Qwen4ExpForCausalLM",
                                          "Qwen4ExpForConditionalGeneration",
                                          "Glm5NextForCausalLM",
                                          "Glm5NextForConditionalGeneration"};

/// Quantizations that its PyTorch engine loads.
constexpr std::string_view kMethods[] = {"awq", "fp8", "smooth_quant", "compressed-tensors"};

/// The quantization that config.json itself states: files beside it are not read.
std::string method_of(const ModelConfig& config) {
  const ConfigView stated = config.quantization();
  if (stated.has_child({"quantization"})) return "";
  return stated.text({"quant_method"}, "");
}

std::string dtype_of(const Fields& fields, const ModelConfig& config) {
  std::string asked = fields.text("dtype", "auto");
  if (asked != "auto") return asked;
  if (method_of(config) == "awq") return "float16";
  const std::string dtype = config.dtype();
  return dtype == "bfloat16" ? dtype : "float16";
}

void check_fields(const Fields& fields) {
  fields.check_names("PytorchEngineConfig", {"dtype",
                                             "tp",
                                             "dp",
                                             "dp_rank",
                                             "ep",
                                             "session_len",
                                             "max_batch_size",
                                             "attn_tp_size",
                                             "mlp_tp_size",
                                             "moe_tp_size",
                                             "cache_max_entry_count",
                                             "prefill_interval",
                                             "block_size",
                                             "kernel_block_size",
                                             "num_cpu_blocks",
                                             "num_gpu_blocks",
                                             "adapters",
                                             "max_prefill_token_num",
                                             "thread_safe",
                                             "enable_prefix_caching",
                                             "prefix_cache_state_budget",
                                             "device_type",
                                             "eager_mode",
                                             "custom_module_map",
                                             "download_dir",
                                             "revision",
                                             "quant_policy",
                                             "distributed_executor_backend",
                                             "empty_init",
                                             "enable_microbatch",
                                             "enable_eplb",
                                             "enable_mp_engine",
                                             "mp_engine_backend",
                                             "model_format",
                                             "enable_metrics",
                                             "hf_overrides",
                                             "disable_vision_encoder",
                                             "logprobs_mode",
                                             "role",
                                             "migration_backend",
                                             "dllm_block_length",
                                             "enable_return_routed_experts",
                                             "flash_mla",
                                             "speculative"});
}

/// lmdeploy/pytorch/config.py: DistConfig. Widths of layers count with data parallelism alone.
void read_ranks(Launch& launch, const Fields& fields) {
  constexpr Bounds kRanks{1, 1 << 12};
  const int64_t tp = fields.integer("tp", 1, kRanks), dp = fields.integer("dp", 1, kRanks);
  launch.experts = fields.integer("ep", 1, kRanks);
  launch.mlp_tp = dp > 1 ? fields.integer("mlp_tp_size", tp, kRanks) : tp;
  launch.ranks = launch.experts > 1 ? launch.experts : launch.mlp_tp;
  launch.tp = fields.integer("attn_tp_size", std::max<int64_t>(1, launch.ranks / dp), kRanks);
}

void read_fields(Launch& launch, const Question& question, const Fields& fields) {
  launch.batch = fields.integer("max_batch_size", largest_batch(question.gpu), kTokens);
  if (launch.batch <= 0) refuse_launch("AssertionError: invalid max_batch_size");
  launch.share = fields.number("cache_max_entry_count", launch.share);
  if (!(launch.share > 0 && launch.share < 1))
    refuse_launch("AssertionError: invalid cache_max_entry_count");
  launch.prefill = fields.integer("max_prefill_token_num", launch.prefill, kTokens);
  if (launch.prefill <= 0) refuse_launch("AssertionError: invalid max_prefill_token_num");
  launch.quant_policy = fields.integer("quant_policy", 0, kTokens);
  constexpr int64_t kPolicies[] = {0, 4, 8, 16, 17, 42};
  if (std::ranges::find(kPolicies, launch.quant_policy) == std::end(kPolicies))
    refuse_launch("AssertionError: invalid quant_policy");
  read_ranks(launch, fields);
  launch.block = fields.integer("block_size", launch.block, {1, 1 << 12});
  launch.kernel_block = fields.integer("kernel_block_size", launch.block, {1, 1 << 12});
  if (launch.kernel_block < 16 || launch.block % launch.kernel_block != 0)
    refuse_launch("AssertionError: invalid kernel_block_size");
  launch.blocks = fields.integer("num_gpu_blocks", kTokens);
  if (launch.blocks == 0) launch.blocks.reset();
  launch.session = fields.integer("session_len", kTokens);
  launch.prefix_caching = fields.flag("enable_prefix_caching", false);
  launch.state_budget = fields.integer("prefix_cache_state_budget", 0, {0, 1 << 20});
}

void read_heads(Launch& launch, const ModelConfig& config) {
  launch.layers = config.layers();
  if (is_latent(launch.architecture)) {
    launch.kv_heads = 1;
    launch.k_dim = config.latent_width();
  } else {
    launch.kv_heads = config.kv_heads();
    launch.k_dim = launch.v_dim = config.head_dim();
  }
  if (launch.deepseek_v4) {
    launch.kv_heads = 1;
    return;
  }
  const bool divided = launch.kv_heads % launch.tp == 0 || launch.tp % launch.kv_heads == 0;
  if (!divided || config.heads() % launch.tp != 0) refuse_launch("AssertionError: ");
  launch.kv_heads = std::max(launch.kv_heads, launch.tp);
}

void read_window(Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  if (launch.architecture.starts_with("Gemma3")) return;  // windows by layer
  if (!text.flag({"use_sliding_window"}, true)) return;
  launch.window = text.integer({"sliding_window"}, -1, kTokens);
}

void read_attention(Launch& launch, const Question& question, const ModelConfig& config,
                    const Fields& fields) {
  constexpr double kHopper = 9;
  const bool capable = question.gpu == nullptr || question.gpu->compute_capability >= kHopper;
  const bool installed = fields.flag("flash_mla", capable);
  const bool latent = is_latent(launch.architecture);
  launch.flash_mla = latent && capable && installed;
  const ConfigView text = config.text();
  if (latent && text.has("index_topk")) {
    if (!launch.flash_mla)
      refuse_launch("AssertionError: DeepSeek-V3.2 requires flash_mla to be available.");
    launch.selects = text.integer({"index_topk"}, 0, kTokens);
  }
  constexpr int64_t kWide = 512, kWideBlock = 32, kBlockOfV4 = 256;
  if (launch.k_dim >= kWide && !launch.flash_mla) launch.block = launch.kernel_block = kWideBlock;
  if (launch.deepseek_v4) launch.block = launch.kernel_block = kBlockOfV4;
}

void read_drafts(Launch& launch, const ModelConfig& config, const Fields& fields) {
  if (!fields.has("speculative")) return;
  const Fields drafts = fields.object("speculative");
  launch.draft_tokens = drafts.integer("num_speculative_tokens", 1, {1, 1 << 6});
  const std::string method = drafts.text("method", "");
  if (method == "deepseek_mtp")
    launch.draft_layers = config.text().integer({"num_nextn_predict_layers"}, 1, {0, 1024});
  if (method == "qwen3_5_mtp")
    launch.draft_layers = config.text().integer({"mtp_num_hidden_layers"}, 1, {0, 1024});
}

}  // namespace

void refuse_launch(std::string words) {
  throw Refusal{"arguments", std::move(words)};
}

void refuse_size(std::string words) {
  throw Refusal{"memory", std::move(words)};
}

bool is_latent(const std::string& architecture) {
  constexpr std::string_view kLatent[] = {"DeepseekV2", "DeepseekV3", "Glm4MoeLite",
                                          "GlmMoeDsa",  "KimiK25",    "KimiK2"};
  return std::ranges::any_of(
      kLatent, [&](std::string_view begin) { return architecture.starts_with(begin); });
}

int64_t largest_batch(const hardware::Gpu* gpu) {
  if (gpu == nullptr) return kUsualBatch;
  for (const BatchRow& row : kBatches)
    if (gpu->name.find(row.card) != std::string::npos) return row.batch;
  return kUsualBatch;
}

Launch resolve(const Question& question, const ModelConfig& config, const Fields& fields) {
  Launch launch;
  launch.architecture = config.architecture();
  check_fields(fields);
  read_fields(launch, question, fields);
  if (std::ranges::find(kUnmapped, launch.architecture) != std::end(kUnmapped)) {
    refuse_launch(fmt::format("NotImplementedError: {} is not in the engine's module map",
                              launch.architecture));
  }
  const std::string method = method_of(config);
  if (!method.empty() && std::ranges::find(kMethods, method) == std::end(kMethods))
    refuse_launch(fmt::format("TypeError: Unsupported quant method: {}", method));
  launch.dtype = dtype_of(fields, config);
  launch.deepseek_v4 = launch.architecture.starts_with("DeepseekV4");
  launch.hybrid =
      launch.architecture.starts_with("Qwen3_5") || launch.architecture.starts_with("Qwen3Next");
  launch.vocabulary = config.vocabulary();
  read_heads(launch, config);
  read_window(launch, config);
  read_attention(launch, question, config, fields);
  read_drafts(launch, config, fields);
  if (launch.hybrid) {
    const int64_t interval = config.text().integer({"full_attention_interval"}, 4, {1, 1 << 14});
    const std::vector<std::string> types = config.layer_types();
    launch.layers = types.empty() ? launch.layers / interval : count_of(types, "full_attention");
  }
  return launch;
}

OrderedJson settings_json(const Settings& settings) {
  return {{"architecture", settings.architecture},
          {"max_batch_size", settings.batch},
          {"max_prefill_token_num", settings.prefill},
          {"cache_max_entry_count", settings.share},
          {"quant_policy", settings.quant_policy},
          {"dtype", settings.dtype},
          {"layers", settings.layers}};
}

OrderedJson resolved_json(const Launch& launch) {
  OrderedJson json = settings_json(launch);
  json.update(
      {{"kv_heads", launch.kv_heads},
       {"k_head_dim", launch.k_dim},
       {"v_head_dim", launch.v_dim},
       {"vocab_size", launch.vocabulary},
       {"sliding_window", launch.window},
       {"attn_tp", launch.tp},
       {"use_flash_mla", launch.flash_mla},
       {"mla_index_topk", launch.selects ? OrderedJson(*launch.selects) : OrderedJson(nullptr)}});
  return json;
}

}  // namespace plimsoll::engines::lmdeploy
