#include "cli/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "model/config.h"

namespace plimsoll::cli {
namespace {

struct TinyModel {
  const char* name;
  const char* covers;
  const char* config;  // what differs from kCommon
};

constexpr const char* kCommon =
    R"({"hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 256,
  "vocab_size": 1003, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "torch_dtype": "float32", "eos_token_id": 2})";

constexpr TinyModel kModels[] = {
    {"llama", "embedding, norms, products, rotation, cache, attention, activation, drawing",
     R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})"},
    {"gemma2", "soft caps, windows, tanh GELU, heads of 128",
     R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "head_dim": 128,
         "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 96, "sliding_window": 24,
         "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": true})"},
    {"qwen3_moe", "norms of heads, routing, experts",
     R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
         "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 192,
         "norm_topk_prob": true, "num_experts": 8, "num_experts_per_tok": 2})"}};

/// Weights that follow from their names: the same on every backend and machine.
class NamedWeights final : public checkpoint::WeightSource {
 public:
  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
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

 private:
  /// In [-1, 1): the mixing of splitmix64.
  static float number(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return static_cast<float>(static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1);
  }
};

/// What a model says of the prompt, and goes on with.
struct Answer {
  std::vector<float> logprobs;  // of the prompt's tokens, from the second on
  std::vector<engine::TokenId> tokens;
};

Answer ask(const model::ModelSpec& spec, backend::Backend& backend, DType dtype) {
  engine::EngineOptions options;
  options.dtype = dtype;
  options.max_model_len = 128;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.num_kv_blocks = 64;
  options.capture_sizes = std::vector<int64_t>{1, 2};
  options.prefix_caching = false;
  engine::Engine engine(spec, NamedWeights(), backend, nullptr, options);
  engine::Request request;
  request.key = "doctor";
  for (engine::TokenId i = 0; i < 72; ++i) request.prompt.push_back(3 + i * 13 % 997);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 8;
  request.sampling.ignore_eos = true;
  request.sampling.detokenize = false;
  engine.add(request);  // drawn on the device
  request.tag = 1;
  request.sampling.max_tokens = 1;
  request.sampling.prompt_logprobs = 0;
  engine.add(request);
  std::vector<engine::RequestOutput> finished;
  while (!engine.idle()) engine.step(finished);
  Answer answer;
  for (const engine::RequestOutput& output : finished) {
    if (output.failure) fail(ExitCode::bug, "{}", output.failure->message);
    if (output.tag == 0) answer.tokens = output.completions.at(0).token_ids;
    for (const auto& position : output.prompt_logprobs) {
      if (position) answer.logprobs.push_back(position->at(0).logprob);
    }
  }
  return answer;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

}  // namespace

std::vector<Check> check_backend(backend::Backend& subject, backend::Backend& twin, DType dtype) {
  std::vector<Check> checks;
  for (const TinyModel& tiny : kModels) {
    Check check;
    check.what = fmt::format("{} in {} ({})", tiny.name, torch_name(dtype), tiny.covers);
    // Sums of up to 384 products in float32, through two layers; in bfloat16 some twenty roundings
    // of 2^-9 each, of values about 1.
    check.allowed = dtype == DType::f32 ? 1e-4 : 0.15;
    try {
      Json config = parse_json<Json>(kCommon);
      config.update(parse_json<Json>(tiny.config));
      const model::ModelSpec spec = model::make_model_spec(config);
      const Answer found = ask(spec, subject, dtype), expected = ask(spec, twin, dtype);
      check.largest = largest_difference(found.logprobs, expected.logprobs);
      // In sixteen bits two tokens may be near enough to change places.
      check.same_tokens = dtype != DType::f32 || found.tokens == expected.tokens;
    } catch (const std::exception& error) {
      check.trouble = error.what();
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace plimsoll::cli
