// A model's image encoder and projector over the backend's ops: pixel values to embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "engine/vision/encoder_inputs.h"
#include "image/pixels.h"
#include "memory/arena.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

/// A picture's embeddings depend on the picture alone: each is encoded by itself.
class VisionTower {
 public:
  /// Takes the region "vision weights" from the arena. `spec` has a vision part and outlives it.
  VisionTower(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
              memory::Arena& arena);

  void load(const checkpoint::WeightSource& source);
  void fill_random(uint64_t seed);

  /// The region "picture staging": the host's, where memory is not shared.
  void use_staging(std::span<std::byte> memory) {
    staging_ = memory::Arena::placing(memory.data(), memory.size());
  }

  /// Memory that encoding a picture takes.
  struct Memory {
    size_t scratch = 0;
    size_t staging = 0;
  };
  [[nodiscard]] Memory memory_for(const image::Layout& layout, backend::View out);
  /// Most staging that was taken so far.
  [[nodiscard]] size_t staging_peak() const { return staging_.peak(); }

  /// out [pixels.layout.tokens, hidden size of the text model]. Tiles, and frames of a video, do
  /// not see each other: each goes through the encoder by itself, which takes memory for one. Where
  /// scratch only counts, the layout alone is looked at. Pixels without levels are of no picture: a
  /// launch meets the kernels by its first tile or frame.
  void encode(const image::Pixels& pixels, backend::View out);

 private:
  void encode_tile(const image::Pixels& pixels, int64_t tile, backend::View out);
  void encode_frame(const image::Pixels& pixels, int64_t frame, backend::View out);
  /// Calls `write` for the float32 values of each of `pieces` equal pieces of the rows.
  backend::View take_values(EncoderInputs& inputs, int64_t rows, int64_t columns, int64_t pieces,
                            const std::function<void(int64_t piece, float* to)>& write);
  /// Rows that several layers' outputs are projected from side by side (VisionSpec::features).
  struct Features {
    backend::BatchMeta order;  // of an encoder's rows
    backend::View rows;        // [order's, features * hidden]
  };
  /// Those of x [rows, hidden], which went through so many layers, where they are wanted.
  void keep_features(int64_t layers, backend::View x, const Features& kept);
  /// x [rows, hidden] through all layers.
  void run_layers(backend::View x, const EncoderArrays& arrays, const Features& kept);
  /// Of one layer: which rows see each other, and turned how.
  struct Sight {
    const Segments& segments;
    const backend::KvLayer& cache;
    backend::View angles;
  };
  void attend(const model::VisionLayer& layer, backend::View x, const Sight& sight);
  void feed_forward(const model::VisionLayer& layer, backend::View x);
  /// Rows in the order of blocks to embeddings, a block's rows to one.
  void project(backend::View x, backend::View out);

  void copy(backend::View out, backend::View in);
  void norm(backend::View out, backend::View in, const model::Norm& spec);
  void linear(backend::View out, backend::View in, const model::Linear& linear,
              model::Activation activation);
  [[nodiscard]] const backend::Weight& weight(model::WeightId id) const;
  /// A vector weight's values as rows of so many columns.
  [[nodiscard]] backend::View rows_of(model::WeightId id, int64_t columns) const;
  /// Of every layer; a spec without any has none.
  [[nodiscard]] model::AttentionSpec attention() const {
    return spec_.layers.empty() ? model::AttentionSpec{} : spec_.attention(spec_.layers.front());
  }
  backend::View take(std::string_view name, int64_t rows, int64_t columns);
  backend::View take(std::string_view name, int64_t rows, int64_t columns, DType dtype);

  const model::VisionSpec& spec_;
  DType dtype_;
  backend::Backend& backend_;
  memory::Arena staging_ = memory::Arena::counting();
  std::vector<model::WeightSpec> weight_specs_;  // as they are run, by WeightId
  std::vector<backend::Weight> weights_;
};

}  // namespace plimsoll::engine
