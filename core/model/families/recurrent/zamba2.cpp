// Zamba 2 (Glorioso et al. 2024): Mamba-2 in all layers; before some of them a block of attention
// and MLP over the residual and the embedding. Few such blocks serve all layers in turn, each with
// the layer's own adapters.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

std::vector<bool> read_hybrid_layers(const ConfigReader& config, int64_t layers) {
  const auto types = read_layer_types(config, "layers_block_type", layers, "hybrid", "mamba");
  if (types) return *types;
  const auto listed = read_layer_list(config, "hybrid_layer_ids", layers);
  if (!listed) config.refuse("layers_block_type", "a list of mamba and hybrid");
  return *listed;
}

RecurrentTable read_mixer(const ConfigReader& config, const Sizes& sizes) {
  constexpr Mamba2Keys kKeys{"n_mamba_heads", "mamba_headdim", "mamba_ngroups",  "mamba_d_state",
                             "mamba_d_conv",  "use_conv_bias", "add_bias_linear"};
  const int64_t expand = config.integer({"mamba_expand"}, 2, {1, 65536});
  RecurrentTable mixer =
      read_mamba2(config, kKeys, expand * sizes.hidden, {.heads = 8, .groups = 1, .state = 64});
  mixer.module = "mamba";
  return mixer;
}

/// Adds layers in the order of vLLM's class. A block's weights, with the adapters of all layers
/// that use it, stand at the first of these.
class Zamba2Builder {
 public:
  Zamba2Builder(const ConfigReader& config, const Decoder& decoder, ModelSpec& spec)
      : decoder_(decoder),
        sizes_(decoder.sizes),
        spec_(spec),
        add_(spec),
        hybrid_(read_hybrid_layers(config, decoder.sizes.layers)),
        mixer_(read_mixer(config, decoder.sizes)),
        blocks_(config.integer({"num_mem_blocks"}, 1, {1, 4096})),
        rank_(config.integer({"adapter_rank"}, 128, kWidths)),
        uses_(std::count(hybrid_.begin(), hybrid_.end(), true)),
        attention_adapters_(config.boolean({"use_shared_attention_adapter"}, false)) {}

  void build() {
    int64_t use = 0;
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      LayerSpec layer;
      layer.mlp.kind = MlpKind::none;
      const bool hybrid = hybrid_[static_cast<size_t>(i)];
      if (hybrid) add_use(layer, prefix, use++);
      const std::string inner = prefix + (hybrid ? "mamba_decoder." : "");
      layer.recurrent = add_recurrent(mixer_, inner, sizes_.hidden, add_);
      layer.attention_norm = add_.norm(inner + "input_layernorm", sizes_.hidden, decoder_.norm);
      spec_.layers.push_back(std::move(layer));
    }
  }

 private:
  /// A block, and by use the adapters of its layers.
  struct Block {
    AttentionSpec attention{};
    SharedBlock block{};
    std::vector<Adapter> q, k, v, up;
  };

  void add_use(LayerSpec& layer, const std::string& prefix, int64_t use) {
    const auto number = static_cast<size_t>(use % blocks_);
    if (number == made_.size()) made_.push_back(make_block(prefix + "shared_transformer.", use));
    const Block& made = made_[number];
    const auto turn = static_cast<size_t>(use / blocks_);
    layer.attention = made.attention;
    if (attention_adapters_) {
      layer.attention.q_adapter = made.q[turn];
      layer.attention.k_adapter = made.k[turn];
      layer.attention.v_adapter = made.v[turn];
    }
    SharedBlock block = made.block;
    block.adapter = made.up[turn];
    block.out = add_.linear(prefix + "linear", sizes_.hidden, sizes_.hidden, {});
    layer.shared_block = block;
  }

  Block make_block(const std::string& module, int64_t first_use) {
    const int64_t hidden = sizes_.hidden, wide = 2 * hidden;
    const int64_t q = sizes_.heads * sizes_.head_dim, kv = sizes_.kv_heads * sizes_.head_dim;
    const std::string attention = module + "self_attn.", mlp = module + "feed_forward.";
    Block made;
    AttentionSpec& spec = made.attention;
    spec = {.heads = sizes_.heads, .kv_heads = sizes_.kv_heads, .head_dim = sizes_.head_dim};
    spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes_.head_dim) / 2));
    spec.rope = decoder_.ropes.empty() ? -1 : 0;
    spec.lists_scales = true;
    spec.qkv = add_.linear(attention + "qkv_proj",
                           {Rows::all(attention + "q_proj", q), Rows::all(attention + "k_proj", kv),
                            Rows::all(attention + "v_proj", kv)},
                           wide, {.split = Split::qkv});
    spec.out = add_.linear(attention + "o_proj", hidden, q, {.split = Split::row});
    for (int64_t use = first_use; use < uses_; use += blocks_) add_scales(attention, use);
    if (attention_adapters_) {
      made.q = adapters(attention + "linear_q_adapter_list", first_use, {{q}}, wide);
      made.k = adapters(attention + "linear_k_adapter_list", first_use, {{kv}}, wide);
      made.v = adapters(attention + "linear_v_adapter_list", first_use, {{kv}}, wide);
    }
    SharedBlock& block = made.block;
    const int64_t inner = sizes_.intermediate;
    const std::string up = mlp + "gate_up_proj";
    block.mlp = {.activation = decoder_.activation, .intermediate = inner};
    block.mlp.up =
        add_.linear(up, Rows::parts(up, {inner, inner}), hidden, {.split = Split::merged_column});
    block.mlp.down = add_.linear(mlp + "down_proj", hidden, inner, {.split = Split::row});
    made.up = adapters(up + "_adapter_list", first_use, {inner, inner}, hidden);
    block.input_norm = add_.norm(module + "input_layernorm", wide, decoder_.norm);
    block.mlp_norm = add_.norm(module + "pre_ff_layernorm", hidden, decoder_.norm);
    return made;
  }

  /// Adapters of all uses of a block: "LIST.2.0" is the down projection, "LIST.2.1" the up
  /// projection to `parts`, which ranks cut one by one.
  std::vector<Adapter> adapters(const std::string& list, int64_t first_use,
                                const std::vector<int64_t>& parts, int64_t columns) {
    std::vector<Adapter> made;
    for (int64_t use = first_use; use < uses_; use += blocks_) {
      const std::string name = list + "." + std::to_string(use);
      Adapter& adapter = made.emplace_back();
      adapter.down = add_.linear(name + ".A", {Rows::all(name + ".0", rank_)}, columns,
                                 {.split = Split::column});
      adapter.up = add_.linear(name + ".B", Rows::parts(name + ".1", parts), rank_,
                               {.split = parts.size() == 1 ? Split::column : Split::merged_column});
    }
    return made;
  }

  /// vLLM has an attention for each use of a block.
  void add_scales(const std::string& attention, int64_t use) {
    for (const char* name : kScaleNames) {
      add_.add({.name = fmt::format("{}dpa_list.{}.{}", attention, use, name),
                .shape = {},
                .use = WeightUse::vector,
                .dtype = DType::f32,
                .kept = Kept::in_vllm,
                .constant = {1}});
    }
  }

  const Decoder& decoder_;
  const Sizes& sizes_;
  ModelSpec& spec_;
  SpecBuilder add_;
  std::vector<bool> hybrid_;
  RecurrentTable mixer_;
  int64_t blocks_, rank_, uses_;
  bool attention_adapters_;
  std::vector<Block> made_;
};

/// Attention is as wide as its input, twice the hidden size.
Decoder read_zamba2(const ConfigReader& config) {
  Decoder decoder{.family = "zamba2"};
  const int64_t hidden = config.integer({"hidden_size"}, 2560, kWidths);
  const int64_t heads = config.integer({"num_attention_heads"}, 32, kHeadCounts);
  const int64_t head = config.integer({"attention_head_dim"}, 2 * hidden / heads, kHeadDims);
  read_common(config, decoder);
  if (heads * head != 2 * hidden) {
    config.refuse("attention_head_dim", fmt::format("{}: twice the hidden size, cut into {} heads",
                                                    2 * hidden / heads, heads));
  }
  decoder.sizes.head_dim = head;
  for (const char* key : {"use_long_context", "add_bias_linear"}) {
    if (config.boolean({key}, false)) config.doubt(key, "false");
  }
  decoder.ropes.clear();
  if (config.boolean({"use_mem_rope"}, false)) {
    decoder.ropes = {read_rope(
        config, {.head_dim = head, .max_position = decoder.sizes.max_position, .theta = 10000})};
  }
  return decoder;
}

}  // namespace

ModelSpec make_zamba2(const ConfigReader& config) {
  const Decoder decoder = read_zamba2(config);
  const Sizes& sizes = decoder.sizes;
  ModelSpec spec;
  spec.family = decoder.family;
  spec.vllm.idle_scales = true;
  if (!decoder.tied) spec.vllm.refused = "vLLM's class ties the head to the token table always";
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = decoder.ropes.empty() ? sizes.max_position : decoder.ropes.front().context;
  for (const Rope& rope : decoder.ropes) spec.ropes.push_back(rope.spec);
  SpecBuilder add(spec);
  const VocabularyTables vocabulary{.table = "model.embed_tokens.weight",
                                    .width = sizes.hidden,
                                    .tied = decoder.tied || config.describes()};
  add_table(vocabulary, add, spec);
  Zamba2Builder(config, decoder, spec).build();
  spec.final_norm = add.norm("model.final_layernorm", sizes.hidden, decoder.norm);
  add_head(vocabulary, add, spec);
  return spec;
}

}  // namespace plimsoll::model
