#include "checkpoint/gguf/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/gguf/architectures.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::checkpoint::gguf {
namespace {

using model::AttentionSpec;
using model::kNoWeight;
using model::LayerSpec;
using model::Linear;
using model::MlpSpec;
using model::ModelSpec;
using model::Norm;
using model::Part;
using model::RecurrentKind;
using model::RecurrentSpec;
using model::RowOrder;
using model::Split;
using model::WeightId;
using model::WeightSpec;

/// Rows of a tensor: `count` blocks of `block` rows, the first at `first`, each `stride` after the
/// last.
struct TensorRows {
  std::string base;  // "blk.0.attn_q": the tensor's name without ".weight" or ".bias"
  int64_t stored = 0;
  int64_t first = 0;
  int64_t block = 0;
  int64_t stride = 0;
  int64_t count = 1;
  RowOrder order = RowOrder::stored;

  /// All rows.
  TensorRows(std::string name, int64_t rows) : TensorRows(std::move(name), rows, 0, rows) {}
  /// Rows [first, first + rows) of `all`.
  TensorRows(std::string name, int64_t all, int64_t from, int64_t rows)
      : base(std::move(name)), stored(all), first(from), block(rows), stride(rows) {}
};

class Binder {
 public:
  Binder(Checkpoint& checkpoint, ModelSpec& spec)
      : checkpoint_(checkpoint),
        spec_(spec),
        architecture_(*find_architecture(checkpoint.gguf()->architecture())) {}

  void run() {
    spec_.tensor_prefixes.clear();
    spec_.tensor_words.clear();
    spec_.stacked_tensors.clear();
    spec_.tied_head.reset();
    one(spec_.embedding, "token_embd.weight");
    one(spec_.position_embedding, "position_embd.weight");
    norm(spec_.embedding_norm, "token_embd_norm");
    norm(spec_.final_norm, has("output_norm.weight") ? "output_norm" : "token_embd_norm");
    if (spec_.head != spec_.embedding) one(spec_.head, "output.weight");
    one(spec_.head_bias, "output.bias");
    for (size_t i = 0; i < spec_.layers.size(); ++i) bind_layer(i);
    divide_frequencies();
    ignore();
  }

 private:
  [[nodiscard]] bool has(const std::string& tensor) const {
    return checkpoint_.find(tensor) != nullptr;
  }

  /// Gives a tensor the shape that the weight table needs, where it holds as many values and rows
  /// stay rows.
  void fit(const std::string& tensor, const std::vector<int64_t>& shape) {
    const TensorEntry* const found = checkpoint_.find(tensor);
    if (found == nullptr || found->shape == shape) return;
    const auto product = [](const std::vector<int64_t>& sizes) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      return count;
    };
    const auto without_ones = [](std::vector<int64_t> sizes) {
      std::erase(sizes, 1);
      return sizes;
    };
    const bool vector = shape.size() == 1;
    const bool alike = without_ones(found->shape) == without_ones(shape);
    if (product(found->shape) == product(shape) && (vector || alike))
      checkpoint_.reshape(tensor, shape);
  }

  void bind(WeightId id, const std::vector<TensorRows>& rows, const char* ending) {
    if (id == kNoWeight) return;
    WeightSpec& weight = spec_.weights[static_cast<size_t>(id)];
    const int64_t columns = weight.columns();
    const bool vector = weight.shape.size() == (weight.is_stack() ? 2 : 1);
    weight.parts.clear();
    for (const TensorRows& from : rows) {
      Part part{
          .tensor = from.base + ending,
          .stored_shape = vector ? std::vector{from.stored} : std::vector{from.stored, columns},
          .first_row = from.first,
          .block_rows = from.block,
          .block_stride = from.stride,
          .block_count = from.count,
          .order = from.order};
      fit(part.tensor, part.stored_shape);
      weight.parts.push_back(std::move(part));
    }
    weight.rows_in_turn = false;
    weight.interleaved = model::InterleavedCut::untangled;
  }

  /// A weight that is one tensor.
  void one(WeightId id, const std::string& tensor) {
    if (id == kNoWeight) return;
    bind(id, {{tensor, spec_.weight(id).rows()}}, "");
  }
  void linear(const Linear& linear, const std::vector<TensorRows>& rows) {
    bind(linear.weight, rows, ".weight");
    bind(linear.bias, rows, ".bias");
  }
  void linear(const Linear& all, const std::string& base) {
    if (all.weight != kNoWeight) linear(all, {{base, spec_.weight(all.weight).rows()}});
  }

  /// Norms that had 1 added while they were converted need no offset any more.
  void norm(Norm& norm, const std::string& base) {
    one(norm.weight, base + ".weight");
    one(norm.bias, base + ".bias");
    norm.weight_offset = 0;
  }

  void bind_layer(size_t index) {
    LayerSpec& layer = spec_.layers[index];
    blk_ = fmt::format("blk.{}.", index);
    const bool alone = layer.mlp.kind == model::MlpKind::none ||
                       (!layer.has_attention() && !layer.recurrent);  // of Nemotron-H
    norm(layer.attention_norm, blk_ + "attn_norm");
    norm(layer.attention_post_norm, blk_ + "post_attention_norm");
    if (!alone && layer.mlp_norm.weight != layer.attention_norm.weight)
      norm(layer.mlp_norm,
           blk_ + (architecture_.late_mlp_norm ? "post_attention_norm" : "ffn_norm"));
    if (alone) norm(layer.mlp_norm, blk_ + "attn_norm");
    layer.mlp_norm.weight_offset = 0;
    norm(layer.mlp_post_norm, blk_ + "post_ffw_norm");
    if (layer.has_attention()) bind_attention(layer.attention);
    if (layer.recurrent) bind_recurrent(*layer.recurrent);
    if (layer.mlp.kind == model::MlpKind::experts) {
      bind_experts(layer.mlp);
    } else if (layer.mlp.kind != model::MlpKind::none) {
      bind_mlp(layer.mlp.up, layer.mlp.down, layer.mlp.kind == model::MlpKind::gated, "");
    }
  }

  /// Rows of q's or k's heads.
  [[nodiscard]] TensorRows heads(const std::string& base, int64_t count, int64_t size) const {
    TensorRows rows(base, count * size);
    if (!architecture_.permuted) return rows;
    rows.block = rows.stride = size;
    rows.count = count;
    rows.order = RowOrder::evens_first;
    return rows;
  }

  void bind_attention(AttentionSpec& attention) {
    one(attention.sinks, blk_ + "attn_sinks.weight");
    norm(attention.q_norm, blk_ + "attn_q_norm");
    norm(attention.k_norm, blk_ + "attn_k_norm");
    linear(attention.out, blk_ + "attn_output");
    linear(attention.gate, blk_ + "attn_gate");
    if (attention.latent.kv_rank > 0) return bind_latent(attention);
    const int64_t head = attention.head_dim;
    const int64_t q = attention.heads * head, k = attention.kv_heads * head;
    const int64_t v = attention.value_dim > 0 ? attention.kv_heads * attention.value_dim : k;
    const std::string fused = blk_ + "attn_qkv";
    if (has(fused + ".weight")) {
      const int64_t all = q + k + v;
      return linear(attention.qkv,
                    {{fused, all, 0, q}, {fused, all, q, k}, {fused, all, q + k, v}});
    }
    std::vector<TensorRows> rows;
    if (attention.gates_in_qkv) {  // q of a head, then its gate
      for (const int64_t first : {head, int64_t{0}}) {
        TensorRows part(blk_ + "attn_q", 2 * q, first, head);
        part.stride = 2 * head;
        part.count = attention.heads;
        rows.push_back(part);
      }
    } else {
      rows.push_back(heads(blk_ + "attn_q", attention.heads, head));
    }
    rows.push_back(heads(blk_ + "attn_k", attention.kv_heads, head));
    const std::vector<Part>& stored = spec_.weight(attention.qkv.weight).parts;
    const Part &last = stored.back(), &before = stored[stored.size() - 2];
    const bool keys_are_values = last.tensor == before.tensor && last.first_row == before.first_row;
    rows.emplace_back(blk_ + (keys_are_values ? "attn_k" : "attn_v"), v);
    linear(attention.qkv, rows);
  }

  void bind_latent(AttentionSpec& attention) {
    model::LatentSpec& latent = attention.latent;
    norm(latent.q_norm, blk_ + "attn_q_a_norm");
    norm(latent.kv_norm, blk_ + "attn_kv_a_norm");
    linear(latent.q_down, blk_ + "attn_q_a");
    linear(latent.q_up, blk_ + (latent.q_rank > 0 ? "attn_q_b" : "attn_q"));
    std::vector<TensorRows> down;
    const int64_t kv = latent.kv_rank + latent.rotated;
    if (spec_.weight(latent.kv_down.weight).rows() > kv)
      down.emplace_back(blk_ + "attn_q_a", latent.q_rank);
    down.emplace_back(blk_ + "attn_kv_a_mqa", kv);
    linear(latent.kv_down, down);
    if (has(blk_ + "attn_kv_b.weight")) return linear(latent.kv_up, blk_ + "attn_kv_b");
    bind_latent_heads(attention);
  }

  /// Rows of k and v of each head from the latent: k's are stored [latent, k], v's [v, latent].
  void bind_latent_heads(const AttentionSpec& attention) {
    const model::LatentSpec& latent = attention.latent;
    const std::string k = blk_ + "attn_k_b.weight", v = blk_ + "attn_v_b.weight";
    fit(v, {attention.heads * attention.value_dim, latent.kv_rank});
    const std::vector<int64_t> turned = {latent.kv_rank, latent.unrotated};
    const TensorEntry* const keys = checkpoint_.find(k);
    if (keys != nullptr && keys->shape == std::vector{attention.heads * turned[0], turned[1]})
      checkpoint_.split({.tensor = k, .stored_shape = keys->shape, .count = attention.heads});
    WeightSpec& weight = spec_.weights[static_cast<size_t>(latent.kv_up.weight)];
    weight.parts.clear();
    for (int64_t h = 0; h < attention.heads; ++h) {
      weight.parts.push_back({.tensor = fmt::format("{}[{}]", k, h),
                              .stored_shape = turned,
                              .transposed = true,
                              .block_rows = latent.unrotated,
                              .block_stride = latent.unrotated});
      weight.parts.push_back(
          {.tensor = v,
           .stored_shape = {attention.heads * attention.value_dim, latent.kv_rank},
           .first_row = h * attention.value_dim,
           .block_rows = attention.value_dim,
           .block_stride = attention.value_dim});
    }
  }

  /// `kind`: "", or "_shexp" of shared experts.
  void bind_mlp(const Linear& up, const Linear& down, bool gated, const std::string& kind) {
    linear(down, blk_ + "ffn_down" + kind);
    const std::string gate = blk_ + "ffn_gate" + kind, rest = blk_ + "ffn_up" + kind;
    if (!gated) return linear(up, rest);
    const int64_t rows = spec_.weight(up.weight).rows() / 2;
    if (has(gate + ".weight")) return linear(up, {{gate, rows}, {rest, rows}});
    linear(up, {{rest, 2 * rows, 0, rows}, {rest, 2 * rows, rows, rows}});  // the gate's first
  }

  void bind_experts(MlpSpec& mlp) {
    linear(mlp.router.gate, blk_ + "ffn_gate_inp");
    one(mlp.router.choice_bias, blk_ + "exp_probs_b.bias");
    const std::string down = blk_ + "ffn_down_exps";
    const int64_t width = spec_.weight(mlp.down.weight).rows();
    linear(mlp.down, of_experts(mlp, {{down, width}}));
    const int64_t inner = mlp.intermediate;
    const std::string fused = blk_ + "ffn_gate_up_exps", gate = blk_ + "ffn_gate_exps",
                      up = blk_ + "ffn_up_exps";
    std::vector<TensorRows> rows;
    if (!mlp.gated) {
      rows = {{up, inner}};
    } else if (has(fused + ".weight")) {
      rows = {{fused, 2 * inner, 0, inner}, {fused, 2 * inner, inner, inner}};
    } else {
      rows = {{gate, inner}, {up, inner}};
    }
    linear(mlp.up, of_experts(mlp, rows));
    for (const WeightId id : {mlp.up.weight, mlp.up.bias})
      if (id != kNoWeight && mlp.gated)
        spec_.weights[static_cast<size_t>(id)].split = Split::merged_column;
    if (mlp.shared.intermediate == 0) return;
    linear(mlp.shared.gate, blk_ + "ffn_gate_inp_shexp");
    bind_mlp(mlp.shared.up, mlp.shared.down, mlp.gated, "_shexp");
  }

  /// The rows of each expert, of which tensors hold all, one after the other.
  static std::vector<TensorRows> of_experts(const MlpSpec& mlp,
                                            const std::vector<TensorRows>& first) {
    std::vector<TensorRows> all;
    for (int64_t e = 0; e < mlp.experts; ++e) {
      for (TensorRows rows : first) {
        rows.first += e * rows.stored;
        rows.stored *= mlp.experts;
        all.push_back(rows);
      }
    }
    return all;
  }

  void bind_recurrent(RecurrentSpec& mixer) {
    if (mixer.kind == RecurrentKind::short_conv) {
      linear(mixer.in, in_parts(mixer.in, blk_ + "shortconv.in_proj"));
      one(mixer.conv.weight, blk_ + "shortconv.conv.weight");
      one(mixer.conv.bias, blk_ + "shortconv.conv.bias");
      return linear(mixer.out, blk_ + "shortconv.out_proj");
    }
    for (const auto& [id, ending] :
         {std::pair(mixer.conv.weight, ".weight"), std::pair(mixer.conv.bias, ".bias")})
      if (id != kNoWeight) bind(id, cut_like(id, blk_ + "ssm_conv1d"), ending);
    one(mixer.step_bias, blk_ + "ssm_dt.bias");
    one(mixer.skip, blk_ + "ssm_d");
    one(mixer.decay, blk_ + "ssm_a");
    norm(mixer.norm, blk_ + "ssm_norm");
    linear(mixer.out, blk_ + "ssm_out");
    if (mixer.kind == RecurrentKind::gated_delta) return bind_delta(mixer);
    linear(mixer.in, in_parts(mixer.in, blk_ + "ssm_in"));
    linear(mixer.choose, blk_ + "ssm_x");
    linear(mixer.step, blk_ + "ssm_dt");
    norm(mixer.step_norm, blk_ + "ssm_dt_norm");
    norm(mixer.b_norm, blk_ + "ssm_b_norm");
    norm(mixer.c_norm, blk_ + "ssm_c_norm");
  }

  /// The parts that a weight has of one tensor, under this name.
  [[nodiscard]] std::vector<TensorRows> cut_like(WeightId id, const std::string& base) const {
    std::vector<TensorRows> rows;
    const WeightSpec& weight = spec_.weight(id);
    int64_t first = 0;
    for (const Part& part : weight.parts) {
      rows.emplace_back(base, weight.rows(), first, part.rows());
      first += part.rows();
    }
    return rows;
  }
  [[nodiscard]] std::vector<TensorRows> in_parts(const Linear& in, const std::string& base) const {
    return cut_like(in.weight, base);
  }

  void bind_delta(RecurrentSpec& mixer) {
    spec_.weights[static_cast<size_t>(mixer.decay)].parts[0].mapping = model::Mapping::log_minus;
    const int64_t keys = mixer.groups * mixer.state, width = mixer.width();
    const int64_t all = 2 * keys + width;
    const std::string qkv = blk_ + "attn_qkv";
    WeightSpec& in = spec_.weights[static_cast<size_t>(mixer.in.weight)];
    linear(mixer.in, {{qkv, all, 0, keys},
                      {qkv, all, keys, keys},
                      {qkv, all, 2 * keys, width},
                      {blk_ + "attn_gate", width}});
    in.split = Split::merged_column;
    WeightSpec& steps = spec_.weights[static_cast<size_t>(mixer.steps.weight)];
    steps.split = Split::merged_column;
    const int64_t each = mixer.heads / mixer.groups;
    if (!has(blk_ + "ssm_ba.weight")) {
      mixer.tiled = true;
      return linear(mixer.steps,
                    {{blk_ + "ssm_beta", mixer.heads}, {blk_ + "ssm_alpha", mixer.heads}});
    }
    std::vector<TensorRows> rows;  // of each key head, beta of its heads, then alpha
    for (const int64_t first : {int64_t{0}, each}) {
      TensorRows part(blk_ + "ssm_ba", 2 * mixer.heads, first, each);
      part.stride = 2 * each;
      part.count = mixer.groups;
      rows.push_back(part);
    }
    linear(mixer.steps, rows);
  }

  /// Llama 3's scaling of RoPE, which the file has as divisors of the frequencies.
  void divide_frequencies() {
    const auto divisors = Keys(*checkpoint_.gguf()).tensor("rope_freqs.weight");
    if (!divisors) return;
    for (model::RopeSpec& rope : spec_.ropes) {
      std::vector<float>& speeds = rope.table.inverse_frequencies;
      if (speeds.size() != divisors->size()) continue;
      for (size_t i = 0; i < speeds.size(); ++i) speeds[i] /= (*divisors)[i];
    }
  }

  void ignore() {
    spec_.ignored_suffixes = {"rope_freqs.weight", "rope_factors_long.weight",
                              "rope_factors_short.weight"};
    const auto predicting = Keys(*checkpoint_.gguf()).integer("nextn_predict_layers").value_or(0);
    spec_.ignored_prefixes.clear();
    for (int64_t i = 0; i < predicting; ++i) {
      spec_.ignored_prefixes.push_back(
          fmt::format("blk.{}.", static_cast<int64_t>(spec_.layers.size()) + i));
    }
  }

  Checkpoint& checkpoint_;
  ModelSpec& spec_;
  const Architecture& architecture_;
  std::string blk_;  // "blk.0."
};

}  // namespace

void bind_tensors(Checkpoint& checkpoint, ModelSpec& spec) {
  Binder(checkpoint, spec).run();
}

}  // namespace plimsoll::checkpoint::gguf
