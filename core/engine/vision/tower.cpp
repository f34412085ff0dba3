#include "engine/vision/tower.h"

#include <algorithm>

#include "base/rounding.h"
#include "engine/forward/row_slices.h"
#include "engine/vision/windows.h"

namespace plimsoll::engine {

using backend::View;
using backend::Weight;
using memory::Scope;
using model::Activation;
using model::VisionLayer;

namespace {

/// Pieces of pixel values that a thread takes at a time.
constexpr int64_t kPieces = 256;

/// Weights as they are run: a convolution over patches is a product with their values.
std::vector<model::WeightSpec> run_specs(const model::ModelSpec& spec) {
  std::vector<model::WeightSpec> weights = spec.towers;
  // Buffers of vLLM's that a folder's files add among them: pixels come normalised here.
  const std::string buffers = spec.input_norm + ".";
  std::erase_if(weights, [&](const auto& weight) { return weight.name.starts_with(buffers); });
  const model::VisionSpec& vision = *spec.vision;
  model::WeightSpec& patches = weights[vision.patches.weight];
  patches.use = model::WeightUse::linear;
  patches.shape = {patches.rows(), patches.columns()};
  if (vision.first_is_stored_transposed) {
    model::WeightSpec& first = weights[vision.first.weight];
    first.use = model::WeightUse::linear;
    std::swap(first.shape[0], first.shape[1]);
    model::Part& part = first.parts.front();
    part.transposed = true;
    part.block_rows = part.block_stride = first.shape[0];
  }
  return weights;
}

/// A [rows, columns] matrix of contiguous rows as one of other columns.
View reshape(View view, int64_t columns) {
  view.rows = view.rows * view.columns / columns;
  view.columns = view.stride = columns;
  return view;
}

}  // namespace

VisionTower::VisionTower(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
                         memory::Arena& arena)
    : Weights(dtype, backend), spec_(*spec.vision), weight_specs_(run_specs(spec)) {
  place("vision weights", weight_specs_, std::vector(weight_specs_.size(), dtype), arena,
        WeightsOf::itself);
}

View VisionTower::rows_of(model::WeightId id, int64_t columns) const {
  const Weight& values = weight(id);
  return {values.data, activation_dtype(), values.spec->elements() / columns, columns, columns};
}

VisionTower::Memory VisionTower::memory_for(const image::Layout& layout, View out) {
  memory::Arena& scratch = backend_.scratch();
  memory::Arena counted = memory::Arena::counting();
  memory::Arena staging = std::exchange(staging_, memory::Arena::counting());
  backend_.use_scratch(counted);
  encode({layout, {}}, out);
  backend_.use_scratch(scratch);
  std::swap(staging, staging_);
  return {counted.peak(), staging.peak()};
}

void VisionTower::encode(const image::Pixels& pixels, View out) {
  const Scope scope(backend_.scratch());
  const bool tiled = spec_.image > 0;
  const int64_t parts = tiled ? pixels.layout.tiles : pixels.layout.frames;
  const int64_t tokens = out.rows / parts;
  for (int64_t part = 0; part < (pixels.levels.empty() ? 1 : parts); ++part) {
    const View embeddings = out.slice_rows(part * tokens, tokens);
    tiled ? encode_tile(pixels, part, embeddings) : encode_frame(pixels, part, embeddings);
  }
}

View VisionTower::take_values(EncoderInputs& inputs, int64_t rows, int64_t columns, int64_t pieces,
                              const std::function<void(int64_t piece, float* to)>& write) {
  const DType dtype = activation_dtype();
  const auto count = static_cast<size_t>(rows * columns / pieces);
  const size_t bytes = count * dtype_size(dtype);
  const StagedPiece piece = inputs.take("pixel values", pieces * bytes);
  const View values{piece.device, dtype, rows, columns, columns};
  if (inputs.is_counting()) return values;
  backend_.parallel(divide_up(pieces, kPieces), [&](int64_t task) {
    std::vector<float> wide(dtype == DType::f32 ? 0 : count);
    for (int64_t i = task * kPieces; i < std::min((task + 1) * kPieces, pieces); ++i) {
      std::byte* to = piece.host + i * bytes;
      if (dtype == DType::f32) {
        write(i, reinterpret_cast<float*>(to));
        continue;
      }
      write(i, wide.data());
      convert(wide.data(), DType::f32, to, dtype, count);
    }
  });
  inputs.send(piece);
  return values;
}

void VisionTower::encode_tile(const image::Pixels& pixels, int64_t tile, View out) {
  const Scope scope(backend_.scratch());
  EncoderInputs inputs(backend_, staging_);
  const EncoderArrays arrays(tile_rows(spec_), attention(), inputs);
  const int64_t patches = (spec_.image / spec_.patch) * (spec_.image / spec_.patch);
  const int64_t before = spec_.class_token == model::kNoWeight ? 0 : 1;
  const int64_t rows = before + patches - spec_.first_row;
  const View x = take("image rows", before + patches, spec_.hidden);
  {
    const Scope inner(backend_.scratch());
    const int64_t columns = 3 * spec_.patch * spec_.patch;
    const View values = take_values(inputs, patches, columns, 1, [&](int64_t, float* to) {
      if (pixels.levels.empty()) return static_cast<void>(std::fill_n(to, patches * columns, 0.f));
      pixels.write_patches(tile, spec_.patch, to);
    });
    linear(x.slice_rows(before, patches), values, spec_.patches, Activation::none);
  }
  if (before > 0) copy(x.slice_rows(0, 1), rows_of(spec_.class_token, spec_.hidden));
  backend_.run(ops::Add{x, rows_of(spec_.positions, spec_.hidden)});
  if (spec_.input_norm.present) norm(x, x, spec_.input_norm);
  const int64_t features = std::ssize(spec_.features);
  const Features kept{arrays.order(),
                      features == 0 ? View{} : take("features", rows, spec_.hidden * features)};
  keep_features(0, x, kept);
  run_layers(x, arrays, kept);
  View wanted = kept.rows;
  if (features == 0) {
    if (spec_.output_norm.present) norm(x, x, spec_.output_norm);
    wanted = take("ordered rows", rows, spec_.hidden);
    backend_.run(ops::GatherRows{wanted, x, kept.order});
  }
  // These embeddings have an alignment that the launch has warmed up; rows of the cache may have
  // another.
  const View embeddings = take("embeddings", out.rows, out.columns);
  project(wanted, embeddings);
  copy(out, embeddings);
}

void VisionTower::keep_features(int64_t layers, View x, const Features& kept) {
  for (int64_t i = 0; i < std::ssize(spec_.features); ++i) {
    if (spec_.features[i] != layers) continue;
    backend_.run(ops::GatherRows{kept.rows.slice_columns(i * x.columns, x.columns), x, kept.order});
  }
}

void VisionTower::encode_frame(const image::Pixels& pixels, int64_t frame, View out) {
  const Scope scope(backend_.scratch());
  const image::Layout& layout = pixels.layout;
  const int64_t unit = spec_.merge * spec_.merge;
  const int64_t patches = layout.shape[0] / layout.frames, width = layout.shape[1];
  const WindowOrder windows =
      window_order(layout.rows / spec_.merge, layout.columns / spec_.merge, spec_.window);
  EncoderInputs inputs(backend_, staging_);
  const EncoderArrays arrays(frame_rows(spec_, layout, windows), attention(), inputs);
  const View x = take("image rows", patches, spec_.hidden);
  {
    const Scope inner(backend_.scratch());
    const View values = take_values(inputs, patches, width, patches, [&](int64_t row, float* to) {
      if (pixels.levels.empty()) return static_cast<void>(std::fill_n(to, width, 0.f));
      const int64_t block = windows.units[row / unit];
      pixels.write_values((frame * patches + block * unit + row % unit) * width, width, to);
    });
    linear(x, values, spec_.patches, Activation::none);
  }
  run_layers(x, arrays, {});
  const View merged = take("merged rows", patches / unit, out.columns);
  project(x, merged);
  backend_.run(ops::GatherRows{out, merged, arrays.order()});
}

void VisionTower::run_layers(View x, const EncoderArrays& arrays, const Features& kept) {
  if (spec_.layers.empty()) return;
  const Scope scope(backend_.scratch());
  const backend::KvLayer cache = arrays.take_cache(attention(), dtype_, backend_);
  View angles;
  if (spec_.rope) {
    angles = take("image angles", x.rows, spec_.rope->rotary_dim, DType::f32);
    backend_.run(ops::RopeAngles{angles, *spec_.rope, arrays.places()});
  }
  int64_t done = 0;
  for (const VisionLayer& layer : spec_.layers) {
    attend(layer, x, {layer.windowed ? arrays.windows() : arrays.frames(), cache, angles});
    for_row_slices(x.rows, backend_.scratch(), [&](int64_t first, int64_t count) {
      feed_forward(layer, x.slice_rows(first, count));
    });
    keep_features(++done, x, kept);
  }
}

void VisionTower::attend(const VisionLayer& layer, View x, const Sight& sight) {
  const Scope scope(backend_.scratch());
  const model::AttentionSpec spec = spec_.attention(layer);
  const backend::BatchMeta& batch = sight.segments.batch();
  const View delta = take("delta", x.rows, x.columns);
  norm(delta, x, layer.attention_norm);
  const View qkv = take("qkv", x.rows, 3 * x.columns);
  linear(qkv, delta, layer.qkv, Activation::none);
  backend_.run(ops::RopeAndStore{qkv,
                                 sight.angles,
                                 spec,
                                 {weight(layer.q_norm.weight), {}, weight(layer.k_norm.weight), {}},
                                 sight.cache,
                                 batch});
  const View attended = take("attended", x.rows, x.columns);
  backend_.run(ops::Attention{attended, qkv, spec, {}, sight.cache, batch});
  linear(delta, attended, layer.out, Activation::none);
  if (layer.attention_scale != model::kNoWeight) {
    backend_.run(ops::ScaleColumns{delta, weight(layer.attention_scale)});
  }
  backend_.run(ops::Add{x, delta});
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
    backend_.run(ops::GatedActivation{up, both, mlp.activation});
  } else {
    linear(up, delta, mlp.up, mlp.activation);
  }
  linear(delta, up, mlp.down, Activation::none);
  if (layer.mlp_scale != model::kNoWeight) {
    backend_.run(ops::ScaleColumns{delta, weight(layer.mlp_scale)});
  }
  backend_.run(ops::Add{x, delta});
}

void VisionTower::project(View x, View out) {
  const Scope scope(backend_.scratch());
  if (spec_.norm_before_merging) norm(x, x, spec_.merged_norm);
  View merged = reshape(x, spec_.merge * spec_.merge * x.columns);
  if (spec_.merging == model::Merging::averaged) {
    const View parts = merged;
    merged = take("averaged rows", parts.rows, spec_.hidden);
    backend_.run(ops::AverageParts{merged, parts});
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
