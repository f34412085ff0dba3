// Qwen3.8-Flash-Next: Qwen3.5's layers, whose attention sees keys that an index over pooled keys
// chooses, with gated residual streams and tables of n-grams. `plan` alone counts it.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/rounding.h"
#include "model/families/families.h"
#include "model/families/mixtures/qwen_mixture.h"
#include "model/families/recurrent/gated_delta.h"

namespace plimsoll::model {
namespace {

bool is_prime(int64_t number) {
  for (int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

/// Tables of n-grams of the layers that `ple_layer_ids` counts from 1, none with attention. Each
/// head of a table has a prime number of rows: all heads of all tables the primes from
/// `ngram_vocab_size_base` on.
std::vector<std::optional<NgramSpec>> read_ngrams(const ConfigReader& config,
                                                  const std::vector<LayerParts>& parts,
                                                  int64_t hidden, int64_t channels) {
  constexpr IntegerRange kHeads{1, 256}, kOrders{2, 64}, kRows{2, int64_t{1} << 31};
  constexpr int64_t kMostHeads = 1024;  // for whose prime numbers the time is short
  std::vector<std::optional<NgramSpec>> tables(parts.size());
  const auto layers = static_cast<int64_t>(parts.size());
  const auto chosen = read_layer_list(config, "ple_layer_ids", layers, 1);
  if (!chosen || std::ranges::none_of(*chosen, std::identity())) return tables;
  if (config.find({"eos_token_id"}) == nullptr) {
    config.refuse("eos_token_id", "a number: no n-gram goes beyond it");
  }
  const int64_t order = config.integer({"ngram_size"}, 3, kOrders);
  const int64_t heads = (order - 1) * config.integer({"heads_per_ngram"}, 8, kHeads);
  if (heads * std::ranges::count(*chosen, true) > kMostHeads) {
    config.refuse("heads_per_ngram", fmt::format("at most {} heads in all tables", kMostHeads));
  }
  const int64_t inputs = config.integer({"ple_embed_dim"}, hidden, kWidths);
  if (inputs % heads != 0) {
    config.refuse("ple_embed_dim", fmt::format("a multiple of the {} heads of n-grams", heads));
  }
  const int64_t divisor = config.integer({"make_ngram_vocab_size_divisible_by"}, 128, kWidths);
  int64_t prime = config.integer({"ngram_vocab_size_base"}, 20000000, kRows) - 1;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (!(*chosen)[i]) continue;
    if (parts[i].attention) config.refuse("ple_layer_ids", "layers of linear attention alone");
    NgramSpec& table = tables[i].emplace();
    for (int64_t head = 0; head < heads; ++head) {
      do ++prime;
      while (!is_prime(prime));
      table.rows += prime;
    }
    table.rows = round_up(table.rows, divisor);
    table.width = inputs / heads;
    table.inputs = inputs;
    table.channels = channels;
    table.taps = config.integer({"ple_conv_kernel_size"}, 4, {1, kMostTaps});
    table.dilation = order;
    table.numbers = order + 2 * heads;
  }
  return tables;
}

/// Weights that mix residual streams around both branches of a layer, and at the end.
void add_gated_streams(const ConfigReader& config, int64_t streams, Decoder& decoder) {
  constexpr int64_t kMultiple = 16;  // rows that make the mix, and a number for each stream
  const int64_t width = streams * decoder.sizes.hidden;
  const int64_t rank = config.integer({"hc_lowrank"}, 320, kWidths);
  const std::vector<VllmParameter> mix = {
      {"hc_norm.weight", {width}, DType::bf16},
      {"input_mix_weight_down_block_inject.weight",
       {round_up(rank + streams, kMultiple), width},
       DType::bf16},
      {"input_mix_weight_up.weight", {width, rank}, DType::bf16}};
  for (const char* branch : {"attn_", "mlp_"}) {
    for (VllmParameter parameter : mix) {
      parameter.name = branch + ("hyper_connection." + parameter.name);
      decoder.layer_parameters.push_back(std::move(parameter));
    }
  }
  const std::string end = "hyper_connection_mixer.";
  decoder.end_parameters = {{end + "hc_norm.weight", {width}, DType::bf16},
                            {end + "input_mix_weight_down.weight", {rank, width}, DType::bf16},
                            {end + "input_mix_weight_up.weight", {width, rank}, DType::bf16}};
  decoder.names.attention_norm = decoder.names.mlp_norm = decoder.names.final_norm = "";
}

/// An index over pooled keys, which keep their positions in time, height and width beside images.
/// Refuses what transformers' config refuses (qwen4_exp: validate_architecture).
std::optional<IndexerSpec> read_pooled_index(const ConfigReader& config, int64_t rotary_dim) {
  if (config.find({"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim", "indexer_budget",
                   "indexer_compress_ratio"}) == nullptr) {
    return std::nullopt;
  }
  constexpr IntegerRange kCounts{1, 1 << 20};
  constexpr int64_t kElementsOfNumber = 4;  // an int64 in 16-bit elements
  IndexerSpec indexer;
  indexer.heads = config.required({"indexer_n_heads"}, kCounts);
  if (config.required({"indexer_kv_heads"}, kCounts) != 1) config.refuse("indexer_kv_heads", "1");
  indexer.head_dim = config.required({"indexer_head_dim"}, kHeadDims);
  indexer.most = config.required({"indexer_budget"}, kCounts);
  indexer.pool = config.required({"indexer_compress_ratio"}, kCounts);
  if (indexer.most % indexer.pool != 0)
    config.refuse("indexer_budget", "a multiple of indexer_compress_ratio");
  if (indexer.head_dim < rotary_dim)
    config.refuse("indexer_head_dim",
                  fmt::format("the {} dimensions of RoPE at least", rotary_dim));
  indexer.ring = indexer.head_dim;
  if (config.object_or_empty("rope_parameters").find({"mrope_section"}) != nullptr) {
    indexer.ring = round_up(indexer.ring, kElementsOfNumber) + 3 * kElementsOfNumber;
  }
  return indexer;
}

/// Refuses kinds of layers and activations that transformers' config or vLLM's class refuses.
void check_kinds(const ConfigReader& config) {
  constexpr auto kTypes =
      std::to_array<std::string_view>({"linear_attention", "full_attention", "indexed_attention"});
  for (const std::string& type : config.texts("layer_types").value_or(std::vector<std::string>())) {
    if (std::ranges::find(kTypes, type) == kTypes.end())
      config.refuse("layer_types", "linear_attention, full_attention and indexed_attention alone");
  }
  want_silu(config);
  const std::string gate = config.text({"output_gate_type"}, "silu");
  if (gate != "silu" && gate != "sigmoid") config.refuse("output_gate_type", "silu or sigmoid");
}

}  // namespace

ModelSpec make_qwen4_exp(const ConfigReader& config) {
  check_kinds(config);
  Decoder decoder = read_qwen(config, "qwen4_exp");
  const Sizes& sizes = decoder.sizes;
  const int64_t period = config.integer({"full_attention_interval"}, 4, {1, 4096});
  decoder.parts = attention_or_linear(config, sizes.layers, period);
  decoder.mixture = read_qwen_mixture(config, sizes.layers);
  decoder.mixture->sizes.router.normalize = true;
  add_gated_shared(config, *decoder.mixture);
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  decoder.pooled_index = read_pooled_index(config, decoder.ropes.front().spec.rotary_dim);
  decoder.vllm.idle_scales = decoder.vllm.plain_fp4_queries = decoder.pooled_index.has_value();
  const int64_t streams = config.integer({"hc_count"}, 4, {2, 1 << 10});
  add_gated_streams(config, streams, decoder);
  decoder.vllm.predicted_streams = streams;
  decoder.ngrams = read_ngrams(config, decoder.parts, sizes.hidden, streams * sizes.hidden);
  return build(decoder);
}

}  // namespace plimsoll::model
