// Sources: sglang/srt/model_executor/pool_configurator.py and memory_pool.py of 0.5.23.
#include "engines/sglang/cells.h"

#include <algorithm>
#include <cmath>

#include "base/amount.h"
#include "base/rounding.h"
#include "engines/sglang/models.h"
#include "engines/sglang/states.h"

namespace plimsoll::engines::sglang {
namespace {

int64_t kv_element_bytes(const Launch& launch) {
  return element_bytes(launch.kv_dtype);
}

/// Bytes of keys and values of one layer for a token.
int64_t plain_layer_bytes(const Launch& launch, int64_t heads, int64_t head_dim,
                          int64_t v_head_dim) {
  const int64_t kept = std::max<int64_t>(1, heads / launch.attention_tp);
  const int64_t values = kept * (head_dim + v_head_dim);
  if (launch.kv_dtype.starts_with("float4")) return values / 2 + values / 16;
  const int64_t bytes = values * kv_element_bytes(launch);
  constexpr int64_t kScaled = 32;  // values of a scale of mxfp8
  return launch.kv_cache_dtype == "mxfp8" ? bytes + bytes / kScaled : bytes;
}

/// Values of a key; v_head_dim as stated, and where it is 0 or absent as wide as a key.
struct Widths {
  int64_t key = 0, value = 0;
};
Widths widths_of(const ModelConfig& config, const char* key_name, const char* value_name,
                 int64_t missing) {
  const ConfigView text = config.text();
  const int64_t key = text.integer({key_name}, missing, kHeadOrNone);
  const int64_t wide = key > 0 ? key : missing;
  const int64_t value = text.integer({value_name}, wide, kHeadOrNone);
  return {wide, value > 0 ? value : wide};
}

/// Layers that select tokens by an index of their own.
int64_t selecting_layers(const ModelConfig& config, int64_t layers) {
  const ConfigView text = config.text();
  if (const auto stated = config.indexing_layers()) return *stated;
  if (text.is_text("index_topk_pattern")) {
    const std::string pattern = text.text({"index_topk_pattern"}, "");
    return std::min<int64_t>(layers, std::ssize(pattern) - std::ranges::count(pattern, 'S'));
  }
  const int64_t every = text.integer({"index_topk_freq"}, 1, {1, 1 << 14});
  const int64_t offset = text.integer({"index_skip_topk_offset"}, 2, {0, 1 << 14});
  int64_t count = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    count += std::max<int64_t>(layer - offset + 1, 0) % every == 0 ? 1 : 0;
  return count;
}

int64_t index_bytes(const ModelConfig& config) {
  constexpr int64_t kScaled = 128;  // values of a scale of 4 bytes
  const ConfigView text = config.text();
  const int64_t width = config.index_width();
  return divide_up(width + width / kScaled * 4, text.integer({"index_kpool"}, 1, {1, 1024}));
}

/// Latent attention of one layer where an indexer selects tokens.
int64_t sparse_layer_bytes(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t rank = text.required({"kv_lora_rank"}, kHead);
  const int64_t rope = text.integer({"qk_rope_head_dim"}, 0, kHeadOrNone);
  if (launch.kv_dtype == "bfloat16") return (rank + rope) * 2;
  constexpr int64_t kConsumer = 12;
  const bool scaled =
      launch.card.capability < 10 ||
      (launch.facts.architecture == "GlmMoeDsaForCausalLM" && launch.card.capability == kConsumer);
  return scaled ? rank + rank / 128 * 4 + 2 * rope : rank + rope;
}

Cells sparse_cells(const Launch& launch, const ModelConfig& config, int64_t layers) {
  const int64_t keys = index_bytes(config);
  const int64_t layer = sparse_layer_bytes(launch, config);
  int64_t bytes = layer * layers + keys * selecting_layers(config, layers);
  if (launch.speculation) bytes += (layer + keys) * launch.speculation->draft_layers;
  return {.token_bytes = static_cast<double>(bytes), .kv_layers = layers};
}

Cells window_cells(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  Cells cells;
  const int64_t heads = config.kv_heads();
  if (launch.facts.architecture.starts_with("Gemma4")) {
    const int64_t wide = text.integer({"global_head_dim"}, config.head_dim(), kHead);
    const int64_t few = text.integer({"num_global_key_value_heads"}, heads, kHead);
    cells.full_layer_bytes = plain_layer_bytes(launch, few, wide, wide);
    cells.window_layer_bytes =
        plain_layer_bytes(launch, heads, config.head_dim(), config.head_dim());
  } else {
    const Widths full = widths_of(config, "head_dim", "v_head_dim", config.head_dim());
    const Widths window = {text.integer({"swa_head_dim"}, full.key, kHead),
                           text.integer({"swa_v_head_dim"}, full.value, kHead)};
    cells.full_layer_bytes = plain_layer_bytes(launch, heads, full.key, full.value);
    cells.window_layer_bytes = plain_layer_bytes(
        launch, text.integer({"swa_num_key_value_heads"}, heads, kHead), window.key, window.value);
  }
  const int64_t drafts = launch.speculation ? launch.speculation->draft_layers : 0;
  cells.kv_layers = config.layers();
  cells.token_bytes =
      static_cast<double>(cells.full_layer_bytes * (launch.full_layers.value_or(0) + drafts)) +
      launch.window_ratio.value_or(0) *
          static_cast<double>(cells.window_layer_bytes * launch.window_layers.value_or(0));
  cells.is_whole = false;
  return cells;
}

}  // namespace

Cells cells_of(const Launch& launch, const ModelConfig& config) {
  if (launch.facts.two_pools) return window_cells(launch, config);
  const int64_t all = config.layers();
  if (launch.facts.sparse) return sparse_cells(launch, config, all);
  Cells cells;
  cells.kv_layers = all;
  if (launch.facts.hybrid) {
    const States states = states_of(launch, config);
    cells.kv_layers = states.attention_layers;
    cells.state_layers = states.layers;
    cells.state_bytes = states.bytes_per_request;
  }
  int64_t layer = 0;
  if (launch.facts.latent) {
    layer = config.latent_width() * kv_element_bytes(launch);
    cells.key_share = 1;
  } else {
    const Widths widths = widths_of(config, "head_dim", "v_head_dim", config.head_dim());
    layer = plain_layer_bytes(launch, config.kv_heads(), widths.key, widths.value);
    cells.key_share =
        static_cast<double>(widths.key) / static_cast<double>(widths.key + widths.value);
  }
  int64_t bytes = layer * cells.kv_layers;
  // A draft's layers cost what the target's do, whatever the draft's own heads are.
  if (launch.speculation && cells.kv_layers > 0)
    bytes += bytes * launch.speculation->draft_layers / cells.kv_layers;
  cells.token_bytes = static_cast<double>(bytes);
  return cells;
}

CompressedCells compressed_cells(const Launch& launch, const ModelConfig& config) {
  const bool drafts = launch.speculation.has_value();
  const int64_t layers = config.layers();
  const auto width = static_cast<double>(config.head_dim());
  const auto index = static_cast<double>(config.index_width());
  const auto fourths = static_cast<double>(config.compressed_layers(4));
  const auto hundreds = static_cast<double>(config.compressed_layers(128));
  // 584 bytes of a token (448 in fp8, 64 in bf16, 8 of scales), pages aligned to 576.
  const auto padded = [](double tokens) { return std::ceil(584 * tokens / 576) * 576 / tokens; };
  CompressedCells cells;
  cells.state_rows = drafts ? 16 : 8;
  cells.request_rows = drafts ? 256 : 128;
  const double window =
      padded(256) * static_cast<double>(layers) +
      static_cast<double>(cells.state_rows) / 256 * (16 * width + 16 * index) * fourths;
  cells.token_bytes = launch.window_ratio.value_or(0) * window +
                      fourths * (padded(64) / 4 + (index + 4) / 4) + hundreds * padded(2) / 128;
  if (drafts)
    cells.token_bytes =
        cells.token_bytes * static_cast<double>(layers + 1) / static_cast<double>(layers);
  const int64_t running = launch.max_running.value_or(256) / launch.attention_dp;
  const int64_t rows =
      round_up((running + 1) * cells.request_rows + cells.request_rows + 1, int64_t{128});
  cells.fixed_bytes =
      (Amount{rows} * 2 * config.head_dim() * 4 * static_cast<int64_t>(hundreds)).value();
  return cells;
}

}  // namespace plimsoll::engines::sglang
