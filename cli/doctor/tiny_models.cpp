#include "cli/doctor/tiny_models.h"

#include <cstddef>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "quantization/online.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kCommon =
    R"({"hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 1024,
  "vocab_size": 1000, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "torch_dtype": "float32", "eos_token_id": 2})";

constexpr const char* kLlama =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "head_dim": 128})";

constexpr TinyModel kModels[] = {
    {.name = "llama",
     .covers = "embedding, norms, products, rotation, cache, attention, activation, penalties, "
               "drawing",
     .config = kLlama,
     .in_half = true,
     .has_penalties = true},
    {.name = "llama, fp8 weights",
     .covers = "products with quantized weights",
     .config = kLlama,
     .quantization = "fp8"},
    {.name = "gemma2",
     .covers = "soft caps, windows, tanh GELU, heads of 256",
     .config =
         R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "head_dim": 256,
         "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 96, "sliding_window": 24,
         "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": true})",
     .in_half = true,
     // Gemma 2's embeddings are 16 times as large; the emulated device differs by 0.17.
     .allowed_in_half = 0.5},
    {.name = "qwen3_moe",
     .covers = "norms of heads, routing, experts, heads of 64",
     .config = R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
         "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 192,
         "norm_topk_prob": true, "num_experts": 8, "num_experts_per_tok": 2})",
     .in_half = true},
    {.name = "gpt2",
     .covers = "layer norms, biases, learned positions",
     .config = R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 256,
         "n_head": 4, "n_layer": 2, "n_positions": 1024, "activation_function": "gelu_new",
         "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})"},
    {.name = "mamba",
     .covers = "convolution, selective scan",
     .config = R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba", "conv_kernel": 4,
         "expand": 2, "intermediate_size": 512, "layer_norm_epsilon": 1e-5, "state_size": 16,
         "time_step_rank": 16, "use_bias": false, "use_conv_bias": true,
         "tie_word_embeddings": true})"},
    {.name = "qwen3_5",
     .covers = "gated delta rule, gates of heads",
     .config = R"({"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
         "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
         "linear_key_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_value_head_dim": 32, "rope_parameters": {"mrope_interleaved": true,
         "mrope_section": [3, 3, 2], "partial_rotary_factor": 0.25, "rope_theta": 10000000.0,
         "rope_type": "default"}})"},
    {.name = "recurrent_gemma",
     .covers = "linear recurrence",
     .config = R"({"architectures": ["RecurrentGemmaForCausalLM"], "model_type": "recurrent_gemma",
         "attention_window_size": 48, "block_types": ["recurrent", "attention"],
         "conv1d_width": 4, "hidden_activation": "gelu_pytorch_tanh", "logits_soft_cap": 30.0,
         "lru_width": 256, "num_key_value_heads": 1, "partial_rotary_factor": 0.5,
         "tie_word_embeddings": true})"},
    {.name = "glm_moe_dsa",
     .covers = "latent attention, chosen keys",
     .config = R"({"architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
         "first_k_dense_replace": 1, "head_dim": 32, "index_head_dim": 48, "index_n_heads": 16,
         "index_topk": 32, "indexer_types": ["full", "full"],
         "layer_types": ["indexed_attention", "indexed_attention"], "kv_lora_rank": 96,
         "mlp_layer_types": ["dense", "sparse"], "moe_intermediate_size": 96, "n_group": 1,
         "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": true,
         "num_key_value_heads": 4, "num_experts_per_tok": 2, "q_lora_rank": 80, "qk_head_dim": 80,
         "qk_nope_head_dim": 48, "qk_rope_head_dim": 32, "routed_scaling_factor": 2.5,
         "topk_group": 1, "v_head_dim": 64, "indexer_rope_interleave": true,
         "scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1})"},
};

constexpr const char* kWideLlama =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 32,
        "num_key_value_heads": 8})";
constexpr const char* kForHopper = "prefill by the kernels for Hopper";

constexpr TinyModel kWide[] = {
    {.name = "llama, heads of 64", .covers = kForHopper, .config = kWideLlama, .head_dim = 64},
    {.name = "llama, heads of 128", .covers = kForHopper, .config = kWideLlama, .head_dim = 128},
    {.name = "llama, heads of 256", .covers = kForHopper, .config = kWideLlama, .head_dim = 256},
};

/// A number in [-1, 1) made from `x` by the mixing of splitmix64.
float number(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<float>(static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1);
}

}  // namespace

std::span<const TinyModel> tiny_models() {
  return kModels;
}

std::span<const TinyModel> wide_models() {
  return kWide;
}

model::ModelSpec spec_of(const TinyModel& tiny) {
  Json config = parse_json<Json>(kCommon);
  config.update(parse_json<Json>(tiny.config));
  if (tiny.head_dim > 0) config["head_dim"] = tiny.head_dim;
  model::ModelSpec spec = model::make_model_spec(config);
  quantization::assign_online(tiny.quantization, quantization::Activations::whole, spec);
  return spec;
}

void NamedWeights::read_rows(const model::WeightSpec& weight, int64_t first, int64_t count,
                             DType dtype, void* to) const {
  const bool is_norm = weight.name.find("norm") != std::string::npos;
  uint64_t seed = 14695981039346656037ull;  // FNV-1a
  for (const char letter : weight.name) {
    seed = (seed ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  }
  const int64_t columns = weight.columns();
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float x = 0.1f * number(seed + static_cast<uint64_t>((first + r) * columns + c));
      row[static_cast<size_t>(c)] = is_norm ? 1 + x : x;
    }
    const size_t bytes = row.size() * dtype_size(dtype);
    convert(row.data(), DType::f32, static_cast<std::byte*>(to) + static_cast<size_t>(r) * bytes,
            dtype, row.size());
  }
}

}  // namespace plimsoll::cli
