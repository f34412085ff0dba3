// RecurrentGemma (De et al. 2024, "Griffin"): gated linear recurrences, and attention with a window
// and one key head in some layers.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/dense/gemma.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kTrainedLength = 8192;  // as trained; configs do not say

/// `block_types` in turn: "recurrent" or "attention".
std::vector<LayerParts> read_block_types(const ConfigReader& config, int64_t layers) {
  const auto kinds = config.texts("block_types")
                         .value_or(std::vector<std::string>{"recurrent", "recurrent", "attention"});
  if (kinds.empty()) config.refuse("block_types", "recurrent and attention alone");
  std::vector<bool> attends;
  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
    const std::string& kind = kinds[i % kinds.size()];
    if (kind != "attention" && kind != "recurrent") {
      config.refuse("block_types", "recurrent and attention alone");
    }
    attends.push_back(kind == "attention");
  }
  return attention_or_recurrent(attends);
}

RecurrentTable read_lru(const ConfigReader& config, const Sizes& sizes) {
  RecurrentTable table{.module = "temporal_block", .conv = "conv_1d", .conv_bias = true};
  refuse_many_heads(config, sizes);
  const int64_t width = config.integer({"lru_width"}, sizes.hidden, kWidths);
  if (width % sizes.heads != 0) config.refuse("lru_width", "a multiple of num_attention_heads");
  RecurrentSpec& mixer = table.sizes;
  mixer.kind = RecurrentKind::gated_linear;
  mixer.heads = mixer.groups = sizes.heads;
  mixer.head_dim = width / sizes.heads;
  mixer.state = 1;
  mixer.conv = {.width = width, .taps = config.integer({"conv1d_width"}, 4, {1, kMostTaps})};
  return table;
}

/// Gates of the heads, which a checkpoint holds over each other.
void add_stacks(const RecurrentSpec& mixer, const std::string& lru, ModelSpec& spec) {
  const int64_t heads = mixer.heads, head = mixer.head_dim;
  for (const char* gate : {"input_gate", "recurrent_gate"}) {
    spec.stacked_tensors.push_back(
        {.tensor = lru + gate + "_weight", .stored_shape = {heads, head, head}, .count = heads});
    spec.stacked_tensors.push_back(
        {.tensor = lru + gate + "_bias", .stored_shape = {heads, head}, .count = heads});
  }
}

}  // namespace

ModelSpec make_recurrent_gemma(const ConfigReader& config) {
  Decoder decoder{.family = "recurrent_gemma"};
  read_common(config, decoder,
              {.max_position = kTrainedLength, .activation_key = "hidden_activation"});
  Sizes& sizes = decoder.sizes;
  if (sizes.intermediate % 2 != 0) config.refuse("intermediate_size", "an even number");
  sizes.intermediate /= 2;  // of the gate and of what it multiplies
  decoder.norm.weight_offset = 1;
  decoder.embedding_scale = embedding_scale_bf16(sizes.hidden);
  decoder.final_soft_cap = static_cast<float>(config.positive({"logits_soft_cap"}, 30));
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.out_bias = decoder.mlp_bias = true;
  decoder.windows.assign(static_cast<size_t>(sizes.layers),
                         config.integer({"attention_window_size"}, 2048, {.least = 1}));
  decoder.parts = read_block_types(config, sizes.layers);
  decoder.recurrent = read_lru(config, sizes);
  DecoderNames& names = decoder.names;
  names.attention = "temporal_block";
  names.mlp = "mlp_block";
  names.attention_norm = "temporal_pre_norm";
  names.mlp_norm = "channel_pre_norm";
  names.final_norm = "final_norm";
  decoder.vllm.refused = "vLLM 0.32.0 has no class for RecurrentGemma";
  ModelSpec spec = build(decoder);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].recurrent) continue;
    const std::string lru = fmt::format("model.layers.{}.temporal_block.rg_lru.", i);
    add_stacks(*spec.layers[i].recurrent, lru, spec);
  }
  return spec;
}

}  // namespace plimsoll::model
