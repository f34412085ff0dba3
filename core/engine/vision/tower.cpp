#include "engine/vision/tower.h"

#include <algorithm>
#include <cmath>

#include "engine/vision/windows.h"

namespace plimsoll::engine {

using backend::View;
using backend::Weight;
using memory::Scope;
using model::Activation;
using model::VisionLayer;

namespace {

/// Rows that the MLP takes at a time: rows do not know of each other.
constexpr int64_t kTowerMlpRows = 2048;
constexpr float kTowerRandomScale = 1e-3f;
constexpr double kRotaryBase = 10000;

/// Weights as they are run: a convolution over patches is a product with their values.
std::vector<model::WeightSpec> run_specs(const model::ModelSpec& spec) {
  std::vector<model::WeightSpec> weights = spec.towers;
  // Buffers of vLLM's that a folder's files add among them: pixels come normalised here.
  const std::string buffers = spec.input_norm + ".";
  std::erase_if(weights, [&](const auto& weight) { return weight.name.starts_with(buffers); });
  const model::VisionSpec& vision = *spec.vision;
  model::WeightSpec& patches = weights[static_cast<size_t>(vision.patches.weight)];
  patches.use = model::WeightUse::linear;
  patches.shape = {patches.rows(), patches.columns()};
  if (vision.first_is_stored_transposed) {
    model::WeightSpec& first = weights[static_cast<size_t>(vision.first.weight)];
    first.use = model::WeightUse::linear;
    std::swap(first.shape[0], first.shape[1]);
    model::Part& part = first.parts.front();
    part.transposed = true;
    part.block_rows = part.block_stride = first.shape[0];
  }
  return weights;
}

/// Rows and columns each turn half of a head (Su et al. 2024, in two dimensions).
model::RopeSpec rotary_of(const model::VisionSpec& vision) {
  const int64_t head_dim = vision.hidden / vision.heads;
  model::RopeSpec rope;
  rope.rotary_dim = head_dim;
  const int64_t speeds = head_dim / 4;
  for (int kind = 0; kind < 2; ++kind) {
    for (int64_t i = 0; i < speeds; ++i) {
      const auto power = static_cast<float>(2 * i) / static_cast<float>(2 * speeds);
      rope.table.inverse_frequencies.push_back(
          1.0f / static_cast<float>(std::pow(kRotaryBase, static_cast<double>(power))));
    }
    rope.sections.push_back(speeds);
  }
  return rope;
}

/// A [rows, columns] matrix of contiguous rows as one of other columns.
View reshape(View view, int64_t columns) {
  view.rows = view.rows * view.columns / columns;
  view.columns = view.stride = columns;
  return view;
}

/// A vector weight's values as rows.
View rows_of(const Weight& weight, int64_t columns) {
  return {weight.data, DType::f32, weight.spec->elements() / columns, columns, columns};
}

}  // namespace

VisionTower::VisionTower(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
                         memory::Arena& arena)
    : spec_(*spec.vision), dtype_(dtype), backend_(backend), weight_specs_(run_specs(spec)) {
  if (spec_.rotary) rope_ = rotary_of(spec_);
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (const model::WeightSpec& weight : weight_specs_) {
    offsets.push_back(bytes);
    bytes += memory::Arena::aligned(backend.footprint().weight_bytes(weight, dtype));
  }
  auto* storage = arena.take_array<std::byte>("vision weights", bytes);
  for (size_t i = 0; i < weight_specs_.size(); ++i) {
    weights_.push_back({&weight_specs_[i], dtype, storage + offsets[i]});
  }
}

void VisionTower::load(const checkpoint::WeightSource& source) {
  for (Weight& weight : weights_) {
    const model::WeightSpec& spec = *weight.spec;
    const auto read = [&](int64_t first, int64_t count, void* to) {
      source.read_rows(spec, first, count, weight.dtype, to);
    };
    weight = backend_.load_weight(spec, weight.dtype, weight.data, read);
  }
}

void VisionTower::fill_random(uint64_t seed) {
  for (const Weight& weight : weights_) backend_.fill_random(weight, ++seed, kTowerRandomScale);
}

const Weight& VisionTower::weight(model::WeightId id) const {
  static const Weight none;
  return id == model::kNoWeight ? none : weights_[static_cast<size_t>(id)];
}

View VisionTower::take(std::string_view name, int64_t rows, int64_t columns) {
  const DType dtype = backend_.footprint().activation_dtype(dtype_);
  const size_t bytes = static_cast<size_t>(rows * columns) * dtype_size(dtype);
  return {backend_.scratch().take(name, bytes), dtype, rows, columns, columns};
}

std::span<int32_t> VisionTower::take_numbers(std::string_view name, int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {backend_.scratch().take_array<int32_t>(name, size), size};
}

void VisionTower::norm(View out, View in, const model::Norm& spec) {
  backend_.norm(out, in, spec, weight(spec.weight), weight(spec.bias));
}

void VisionTower::linear(View out, View in, const model::Linear& linear, Activation activation) {
  backend_.linear(out, in, weight(linear.weight), weight(linear.bias), activation);
}

model::AttentionSpec VisionTower::attention_of(const VisionLayer& layer) const {
  const int64_t head_dim = spec_.hidden / spec_.heads;
  return {.heads = spec_.heads,
          .kv_heads = spec_.heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
          .rope = spec_.rotary ? 0 : -1,
          .q_norm = layer.q_norm,
          .k_norm = layer.k_norm,
          .norm_span = model::NormSpan::all_heads,
          .qkv = layer.qkv,
          .out = layer.out};
}

size_t VisionTower::scratch_bytes(const image::Layout& layout, View out) {
  memory::Arena& placed = backend_.scratch();
  memory::Arena counted = memory::Arena::counting();
  backend_.use_scratch(counted);
  encode({layout, {}}, out);
  backend_.use_scratch(placed);
  return counted.peak();
}

void VisionTower::encode(const image::Pixels& pixels, View out) {
  const Scope scope(backend_.scratch());
  if (spec_.image == 0) return encode_patches(pixels, out);
  const int64_t tokens = out.rows / pixels.layout.tiles;
  for (int64_t tile = 0; tile < pixels.layout.tiles; ++tile) {
    encode_tile(pixels, tile, out.slice_rows(tile * tokens, tokens));
  }
}

void VisionTower::encode_tile(const image::Pixels& pixels, int64_t tile, View out) {
  const Scope scope(backend_.scratch());
  const int64_t side = spec_.image / spec_.patch;
  const int64_t patches = side * side;
  const int64_t before = spec_.class_token == model::kNoWeight ? 0 : 1;
  const bool counts = backend_.scratch().is_counting();
  const View x = take("picture rows", before + patches, spec_.hidden);
  {
    const Scope inner(backend_.scratch());
    const View values = take("pixel values", patches, 3 * spec_.patch * spec_.patch);
    if (!counts) pixels.write_patches(tile, spec_.patch, static_cast<float*>(values.data));
    linear(x.slice_rows(before, patches), values, spec_.patches, Activation::none);
  }
  if (before > 0) {
    constexpr int32_t kFirst = 0;
    const backend::BatchMeta first{.logits_rows = {&kFirst, 1}};
    backend_.gather_rows(x.slice_rows(0, 1), rows_of(weight(spec_.class_token), spec_.hidden),
                         first);
  }
  backend_.add(x, rows_of(weight(spec_.positions), spec_.hidden));
  if (spec_.input_norm.present) norm(x, x, spec_.input_norm);
  const int64_t rows = before + patches - spec_.first_row;
  const auto order = take_patch_order(rows);
  const Features kept{order,
                      spec_.features.empty()
                          ? View{}
                          : take("features", rows, spec_.hidden * std::ssize(spec_.features))};
  keep_features(0, x, kept);
  if (!spec_.layers.empty()) {
    const Scope inner(backend_.scratch());
    const int64_t whole_rows = x.rows;
    const Segments whole({&whole_rows, 1}, attention_of(spec_.layers.front()), dtype_, backend_);
    run_layers(x, {}, whole, whole, kept);
  }
  if (!spec_.features.empty()) return project(kept.rows, out);
  if (spec_.output_norm.present) norm(x, x, spec_.output_norm);
  const View ordered = take("ordered rows", rows, spec_.hidden);
  backend_.gather_rows(ordered, x, {.logits_rows = order});
  project(ordered, out);
}

std::span<int32_t> VisionTower::take_patch_order(int64_t rows) {
  const auto order = take_numbers("order of patches", rows);
  if (backend_.scratch().is_counting()) return order;
  const int64_t merge = spec_.merge, side = spec_.image / spec_.patch, across = side / merge;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t block = i / (merge * merge), within = i % (merge * merge);
    const int64_t row = block / across * merge + within / merge;
    const int64_t column = block % across * merge + within % merge;
    order[static_cast<size_t>(i)] = static_cast<int32_t>(spec_.first_row + row * side + column);
  }
  return order;
}

void VisionTower::keep_features(int64_t layers, View x, const Features& kept) {
  for (int64_t i = 0; i < std::ssize(spec_.features); ++i) {
    if (spec_.features[static_cast<size_t>(i)] != layers) continue;
    backend_.gather_rows(kept.rows.slice_columns(i * x.columns, x.columns), x,
                         {.logits_rows = kept.order});
  }
}

void VisionTower::encode_patches(const image::Pixels& pixels, View out) {
  const image::Layout& layout = pixels.layout;
  const int64_t unit = spec_.merge * spec_.merge;
  const int64_t patches = layout.shape[0], width = layout.shape[1];
  const bool counts = backend_.scratch().is_counting();
  WindowOrder order = window_order(layout.frames, layout.rows / spec_.merge,
                                   layout.columns / spec_.merge, spec_.window);
  for (int64_t& length : order.lengths) length *= unit;
  const View x = take("picture rows", patches, spec_.hidden);
  {
    const Scope inner(backend_.scratch());
    const View values = take("pixel values", patches, width);
    for (int64_t row = 0; row < patches && !counts; ++row) {
      const int64_t patch = order.units[static_cast<size_t>(row / unit)] * unit + row % unit;
      pixels.write_values(patch * width, width, static_cast<float*>(values.data) + row * width);
    }
    linear(x, values, spec_.patches, Activation::none);
  }
  if (!spec_.layers.empty()) {
    const Scope inner(backend_.scratch());
    const model::AttentionSpec attention = attention_of(spec_.layers.front());
    const std::vector<int64_t> frames(static_cast<size_t>(layout.frames),
                                      layout.rows * layout.columns);
    const Segments whole(frames, attention, dtype_, backend_);
    const Segments windows(order.lengths, attention, dtype_, backend_);
    const auto places = take_numbers("rows and columns", 2 * patches);
    for (int64_t row = 0; row < patches && !counts; ++row) {
      const int64_t in_frame =
          order.units[static_cast<size_t>(row / unit)] % (layout.rows * layout.columns / unit);
      const int64_t across = layout.columns / spec_.merge, within = row % unit;
      places[static_cast<size_t>(row)] =
          static_cast<int32_t>(in_frame / across * spec_.merge + within / spec_.merge);
      places[static_cast<size_t>(patches + row)] =
          static_cast<int32_t>(in_frame % across * spec_.merge + within % spec_.merge);
    }
    backend::BatchMeta turned = whole.batch();
    turned.rope_positions = places;
    const View angles{backend_.scratch().take("picture angles",
                                              static_cast<size_t>(patches * rope_.rotary_dim) * 4),
                      DType::f32, patches, rope_.rotary_dim, rope_.rotary_dim};
    backend_.rope_angles(angles, rope_, turned);
    run_layers(x, angles, whole, windows, {});
  }
  const View merged = take("merged rows", patches / unit, out.columns);
  project(x, merged);
  const auto inverse = take_numbers("order of windows", patches / unit);
  for (size_t i = 0; i < inverse.size() && !counts; ++i) {
    inverse[static_cast<size_t>(order.units[i])] = static_cast<int32_t>(i);
  }
  backend_.gather_rows(out, merged, {.logits_rows = inverse});
}

void VisionTower::run_layers(View x, View angles, const Segments& whole, const Segments& windows,
                             const Features& kept) {
  int64_t done = 0;
  for (const VisionLayer& layer : spec_.layers) {
    attend(layer, x, angles, layer.windowed ? windows : whole);
    for (int64_t first = 0; first < x.rows; first += kTowerMlpRows) {
      feed_forward(layer, x.slice_rows(first, std::min(kTowerMlpRows, x.rows - first)));
    }
    keep_features(++done, x, kept);
  }
}

void VisionTower::attend(const VisionLayer& layer, View x, View angles, const Segments& segments) {
  const Scope scope(backend_.scratch());
  const model::AttentionSpec spec = attention_of(layer);
  const View delta = take("delta", x.rows, x.columns);
  norm(delta, x, layer.attention_norm);
  const View qkv = take("qkv", x.rows, 3 * x.columns);
  linear(qkv, delta, layer.qkv, Activation::none);
  backend_.rope_and_store(qkv, angles, spec,
                          {weight(layer.q_norm.weight), {}, weight(layer.k_norm.weight), {}},
                          segments.cache(), segments.batch());
  const View attended = take("attended", x.rows, x.columns);
  backend_.attention(attended, qkv, spec, {}, segments.cache(), segments.batch());
  linear(delta, attended, layer.out, Activation::none);
  if (layer.attention_scale != model::kNoWeight) {
    backend_.scale_columns(delta, weight(layer.attention_scale));
  }
  backend_.add(x, delta);
}

void VisionTower::feed_forward(const VisionLayer& layer, View x) {
  const Scope scope(backend_.scratch());
  const model::MlpSpec& mlp = layer.mlp;
  const View delta = take("delta", x.rows, x.columns);
  norm(delta, x, layer.mlp_norm);
  View up = take("mlp up", x.rows, mlp.intermediate);
  if (mlp.kind == model::MlpKind::gated) {
    const Scope inner(backend_.scratch());
    const View both = take("mlp gate and up", x.rows, 2 * mlp.intermediate);
    linear(both, delta, mlp.up, Activation::none);
    backend_.gated_activation(up, both, mlp.activation);
  } else {
    linear(up, delta, mlp.up, mlp.activation);
  }
  linear(delta, up, mlp.down, Activation::none);
  if (layer.mlp_scale != model::kNoWeight) {
    backend_.scale_columns(delta, weight(layer.mlp_scale));
  }
  backend_.add(x, delta);
}

void VisionTower::project(View x, View out) {
  const Scope scope(backend_.scratch());
  if (spec_.norm_before_merging) norm(x, x, spec_.merged_norm);
  View merged = reshape(x, spec_.merge * spec_.merge * x.columns);
  if (spec_.merging == model::Merging::averaged) {
    const View parts = merged;
    merged = take("averaged rows", parts.rows, spec_.hidden);
    backend_.average_parts(merged, parts);
  }
  if (spec_.merged_norm.present && !spec_.norm_before_merging) {
    norm(merged, merged, spec_.merged_norm);
  }
  if (spec_.second.weight == model::kNoWeight) {
    return linear(out, merged, spec_.first, Activation::none);
  }
  const View inner = take("projected rows", merged.rows, weight(spec_.first.weight).spec->rows());
  linear(inner, merged, spec_.first, spec_.activation);
  linear(out, inner, spec_.second, Activation::none);
}

}  // namespace plimsoll::engine
