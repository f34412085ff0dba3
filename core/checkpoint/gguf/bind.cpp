#include "checkpoint/gguf/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/gguf/binder.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::checkpoint::gguf {

void Binder::fit(const std::string& tensor, const std::vector<int64_t>& shape) {
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

void Binder::bind(WeightId id, const std::vector<TensorRows>& rows, const char* ending) {
  if (id == kNoWeight) return;
  WeightSpec& weight = spec_.weights[static_cast<size_t>(id)];
  const int64_t columns = weight.columns();
  const bool vector = weight.shape.size() == (weight.is_stack() ? 2 : 1);
  const std::vector<Part> before = std::exchange(weight.parts, {});
  for (size_t i = 0; i < rows.size(); ++i) {
    const TensorRows& from = rows[i];
    Part part{.tensor = from.base + ending,
              .stored_shape = vector ? std::vector{from.stored} : std::vector{from.stored, columns},
              .first_row = from.first,
              .block_rows = from.block,
              .block_stride = from.stride,
              .block_count = from.count,
              .order = from.order};
    part.every_rank = before.size() == rows.size() && before[i].every_rank;
    fit(part.tensor, part.stored_shape);
    weight.parts.push_back(std::move(part));
  }
  weight.rows_in_turn = false;
  weight.interleaved = model::InterleavedCut::untangled;
}

void Binder::bind_layer(size_t index) {
  LayerSpec& layer = spec_.layers[index];
  blk_ = fmt::format("blk.{}.", index);
  bind_norms(layer);
  bind_layer_inputs(layer);
  if (layer.streams) bind_stream_layer(*layer.streams);
  bind_xielu(layer.mlp.xielu, index);
  if (layer.has_attention()) bind_attention(layer.attention);
  if (layer.recurrent) bind_recurrent(*layer.recurrent);
  if (layer.mlp.kind == model::MlpKind::experts) {
    bind_experts(layer.mlp);
  } else if (layer.mlp.kind != model::MlpKind::none) {
    bind_mlp(layer.mlp.up, layer.mlp.down, layer.mlp.kind == model::MlpKind::gated, "");
  }
}

std::string Binder::mlp_norm() const {
  if (architecture_.unsaid.late_mlp_norm) return blk_ + "post_attention_norm";
  const bool dbrx = has(blk_ + "attn_output_norm.weight");
  return blk_ + (dbrx ? "attn_output_norm" : "ffn_norm");
}

void Binder::bind_norms(LayerSpec& layer) {
  const bool one_branch =
      layer.mlp.kind == model::MlpKind::none || (!layer.has_attention() && !layer.recurrent);
  const bool alone = one_branch && !has(mlp_norm() + ".weight");  // of Nemotron-H
  const bool two = has(blk_ + "attn_norm_2.weight");  // Falcon: "attn_norm" is the MLP's
  norm(layer.attention_norm, blk_ + (two ? "attn_norm_2" : "attn_norm"));
  norm(layer.attention_post_norm, blk_ + "post_attention_norm");
  if (!alone && layer.mlp_norm.weight != layer.attention_norm.weight)
    norm(layer.mlp_norm, mlp_norm());
  if (alone || two) norm(layer.mlp_norm, blk_ + "attn_norm");
  layer.mlp_norm.weight_offset = 0;
  norm(layer.mlp_post_norm, blk_ + "post_ffw_norm");
}

void Binder::bind_layer_inputs(LayerSpec& layer) {
  one(layer.factor, blk_ + "layer_output_scale.weight");
  if (!layer.input) return;
  linear(layer.input->gate, blk_ + "inp_gate");
  linear(layer.input->projection, blk_ + "proj");
  norm(layer.input->norm, blk_ + "post_norm");
}

void Binder::bind_streams() {
  for (const auto& [linears, base] : {std::pair(&spec_.streams.in, "altup_proj"),
                                      std::pair(&spec_.streams.out, "altup_unembd_proj")}) {
    const auto count = static_cast<int64_t>(linears->size());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rows = spec_.hidden_size;
      linear((*linears)[static_cast<size_t>(i)], {{base, count * rows, i * rows, rows}});
    }
  }
}

void Binder::bind_stream_layer(model::StreamLayer& layer) {
  one(layer.input_scale, blk_ + "altup_correct_scale.weight");
  linear(layer.correct, blk_ + "altup_correct_coef");
  linear(layer.predict, blk_ + "altup_predict_coef");
  linear(layer.router, blk_ + "altup_router");
  norm(layer.norm, blk_ + "altup_router_norm");
  linear(layer.laurel.down, blk_ + "laurel_l");
  linear(layer.laurel.up, blk_ + "laurel_r");
  norm(layer.laurel_norm, blk_ + "laurel_post_norm");
}

void Binder::bind_xielu(WeightId id, size_t layer) {
  if (id == kNoWeight) return;
  WeightSpec& weight = spec_.weights[static_cast<size_t>(id)];
  size_t part = 0;
  for (const char* key : {"alpha_p", "alpha_n", "beta", "eps"}) {
    weight.parts.at(part).tensor = fmt::format("xielu.{}[{}]", key, layer);
    weight.parts.at(part++).stored_shape = {1};
  }
}

void Binder::divide_frequencies() {
  const auto divisors = Keys(*checkpoint_.gguf()).tensor("rope_freqs.weight");
  if (!divisors || architecture_.name == "gemma4") return;  // Gemma's are in its config
  for (model::RopeSpec& rope : spec_.ropes) {
    std::vector<float>& speeds = rope.table.inverse_frequencies;
    if (speeds.size() != divisors->size()) continue;
    for (size_t i = 0; i < speeds.size(); ++i) speeds[i] /= (*divisors)[i];
  }
}

void Binder::ignore() {
  spec_.ignored_suffixes = {"rope_freqs.weight", "rope_factors_long.weight",
                            "rope_factors_short.weight"};
  const auto predicting = Keys(*checkpoint_.gguf()).integer("nextn_predict_layers").value_or(0);
  spec_.ignored_prefixes.clear();
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    if (spec_.layers[i].attention.keys_of < 0) continue;
    for (const char* own : {"attn_k.", "attn_v.", "attn_k_norm."})  // stored, and not read
      spec_.ignored_prefixes.push_back(fmt::format("blk.{}.{}", i, own));
  }
  for (int64_t i = 0; i < predicting; ++i) {
    spec_.ignored_prefixes.push_back(
        fmt::format("blk.{}.", static_cast<int64_t>(spec_.layers.size()) + i));
  }
}

void Binder::bind_head() {
  if (spec_.head == spec_.embedding) return;
  WeightSpec& head = spec_.weights[static_cast<size_t>(spec_.head)];
  const model::Mapping mapping = head.parts.front().mapping;  // Baichuan 2: rows of unit length
  one(spec_.head, "output.weight");
  head.parts.front().mapping = mapping;
}

void Binder::run() {
  spec_.tensor_prefixes.clear();
  spec_.tensor_words.clear();
  spec_.stacked_tensors.clear();
  spec_.tied_head.reset();
  one(spec_.embedding, "token_embd.weight");
  one(spec_.position_embedding, "position_embd.weight");
  norm(spec_.embedding_norm, "token_embd_norm");
  norm(spec_.final_norm, has("output_norm.weight") ? "output_norm" : "token_embd_norm");
  bind_head();
  one(spec_.head_bias, "output.bias");
  one(spec_.layer_inputs.table, "per_layer_token_embd.weight");
  linear(spec_.layer_inputs.projection, "per_layer_model_proj");
  norm(spec_.layer_inputs.norm, "per_layer_proj_norm");
  bind_streams();
  for (size_t i = 0; i < spec_.layers.size(); ++i) bind_layer(i);
  divide_frequencies();
  ignore();
}

void bind_tensors(Checkpoint& checkpoint, model::ModelSpec& spec) {
  Binder(checkpoint, spec).run();
}

}  // namespace plimsoll::checkpoint::gguf
