// Model specs for tests of the engine, built from a few numbers.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::testing {

struct Shape {
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t intermediate = 96;
  int64_t vocab = 101;
  int64_t max_position = 512;
  std::vector<int64_t> windows = {0, 0};  // one layer each
  model::NormPlacement placement = model::NormPlacement::pre;
  bool is_outer_only = false;  // of a sandwich
  float branch_factor = 1;
  int64_t gates = 0;  // of attention's output
  model::MlpKind mlp = model::MlpKind::gated;
  int64_t experts = 0, experts_per_token = 0;
  int64_t ropes = 1;
  int64_t narrow_embedding = 0;  // width of an embedding with projections in and out
  bool learned_positions = false;
};

class SpecMaker {
 public:
  explicit SpecMaker(Shape shape) : shape_(std::move(shape)) {}

  model::ModelSpec make() {
    spec_.dtype = DType::bf16;
    spec_.vocab_size = shape_.vocab;
    spec_.hidden_size = shape_.hidden;
    spec_.max_position = shape_.max_position;
    const int64_t width = shape_.narrow_embedding > 0 ? shape_.narrow_embedding : shape_.hidden;
    spec_.embedding = add({shape_.vocab, width});
    spec_.head = spec_.embedding;
    if (shape_.narrow_embedding > 0) {
      spec_.embedding_in = add({shape_.hidden, width});
      spec_.embedding_out = add({width, shape_.hidden});
    }
    if (shape_.learned_positions) {
      spec_.position_offset = 2;
      spec_.position_embedding = add({shape_.max_position + 2, shape_.hidden});
    }
    for (int64_t i = 0; i < shape_.ropes; ++i) {
      model::RopeSpec rope;
      rope.rotary_dim = shape_.head_dim;
      rope.table.inverse_frequencies.assign(static_cast<size_t>(shape_.head_dim / 2), 0.5f);
      spec_.ropes.push_back(rope);
    }
    for (const int64_t window : shape_.windows) spec_.layers.push_back(layer(window));
    if (shape_.placement != model::NormPlacement::post) spec_.final_norm = norm(shape_.hidden);
    return std::move(spec_);
  }

 private:
  model::WeightId add(std::vector<int64_t> shape) {
    model::WeightSpec weight;
    weight.name = "weight." + std::to_string(spec_.weights.size());
    weight.shape = std::move(shape);
    spec_.weights.push_back(std::move(weight));
    return static_cast<model::WeightId>(spec_.weights.size() - 1);
  }

  model::Norm norm(int64_t size) {
    model::Norm norm;
    norm.weight = add({size});
    norm.present = true;
    return norm;
  }

  model::Linear linear(std::vector<int64_t> shape) {
    model::Linear linear;
    linear.weight = add(std::move(shape));
    return linear;
  }

  /// [experts, outputs, inputs].
  model::Linear stack(std::vector<int64_t> shape) {
    const model::Linear stacked = linear(std::move(shape));
    spec_.weights.back().use = model::WeightUse::experts;
    return stacked;
  }

  model::LayerSpec layer(int64_t window) {
    model::LayerSpec layer;
    layer.placement = shape_.placement;
    layer.branch_factor = shape_.branch_factor;
    if (!shape_.is_outer_only) {
      layer.attention_norm = norm(shape_.hidden);
      layer.mlp_norm = norm(shape_.hidden);
    }
    if (shape_.placement == model::NormPlacement::sandwich) {
      layer.attention_post_norm = norm(shape_.hidden);
      layer.mlp_post_norm = norm(shape_.hidden);
    }
    model::AttentionSpec& attention = layer.attention;
    attention.heads = shape_.heads;
    attention.kv_heads = shape_.kv_heads;
    attention.head_dim = shape_.head_dim;
    attention.scale = 0.25f;
    attention.window = window;
    attention.rope =
        shape_.ropes == 0 ? -1 : static_cast<int32_t>(window > 0 ? shape_.ropes - 1 : 0);
    attention.qkv = linear({(shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim, shape_.hidden});
    if (shape_.gates > 0) attention.gate = linear({shape_.gates, shape_.hidden});
    attention.out = linear({shape_.hidden, shape_.heads * shape_.head_dim});
    layer.mlp = mlp();
    return layer;
  }

  model::MlpSpec mlp() {
    model::MlpSpec mlp;
    mlp.kind = shape_.mlp;
    mlp.intermediate = shape_.intermediate;
    const int64_t up = (mlp.kind == model::MlpKind::plain ? 1 : 2) * shape_.intermediate;
    if (mlp.kind == model::MlpKind::experts) {
      mlp.experts = shape_.experts;
      mlp.experts_per_token = shape_.experts_per_token;
      mlp.router.gate = linear({shape_.experts, shape_.hidden});
      mlp.up = stack({shape_.experts, up, shape_.hidden});
      mlp.down = stack({shape_.experts, shape_.hidden, shape_.intermediate});
    } else {
      mlp.up = linear({up, shape_.hidden});
      mlp.down = linear({shape_.hidden, shape_.intermediate});
    }
    return mlp;
  }

  Shape shape_;
  model::ModelSpec spec_;
};

inline model::ModelSpec make_spec(Shape shape) {
  return SpecMaker(std::move(shape)).make();
}

/// Small random specs over all branches of the forward pass.
inline model::ModelSpec random_spec(std::mt19937& random) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Shape shape;
  shape.kv_heads = draw(1, 3);
  shape.heads = shape.kv_heads * draw(1, 3);
  shape.head_dim = 2 * draw(1, 12);
  shape.hidden = draw(1, 80);
  shape.intermediate = draw(1, 100);
  shape.vocab = draw(2, 300);
  shape.max_position = draw(1, 300);
  const int64_t window = draw(1, 70);
  shape.windows.resize(static_cast<size_t>(draw(1, 9)));
  for (int64_t& w : shape.windows) w = draw(0, 2) == 0 ? 0 : window;
  shape.placement = static_cast<model::NormPlacement>(draw(0, 3));
  shape.is_outer_only = shape.placement == model::NormPlacement::sandwich && draw(0, 1) == 0;
  shape.branch_factor = draw(0, 2) == 0 ? 0.25f : 1.f;
  shape.gates = draw(0, 2) * shape.heads;
  if (shape.gates > shape.heads) shape.gates = shape.heads * shape.head_dim;
  shape.mlp = static_cast<model::MlpKind>(draw(0, 2));
  shape.experts = draw(1, 6);
  shape.experts_per_token = draw(1, shape.experts);
  shape.ropes = draw(0, 2);
  shape.narrow_embedding = draw(0, 3) == 0 ? draw(1, 40) : 0;
  shape.learned_positions = draw(0, 3) == 0;
  return make_spec(shape);
}

}  // namespace plimsoll::testing
