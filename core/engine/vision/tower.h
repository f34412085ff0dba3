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
#include "engine/forward/weights.h"
#include "engine/vision/encoder_inputs.h"
#include "image/pixels.h"
#include "memory/arena.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

/// The vision tower. An image's embeddings depend on the image alone: each is encoded by itself.
class VisionTower : public Weights {
 public:
  /// Takes the region "vision weights" from the arena. `spec` has a vision part and outlives it.
  VisionTower(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
              memory::Arena& arena);

  /// Sets the region "image staging": host memory, where memory is not shared.
  void use_staging(std::span<std::byte> memory) {
    staging_ = memory::Arena::placing(memory.data(), memory.size());
  }

  /// Memory that encoding an image takes.
  struct Memory {
    size_t scratch = 0;
    size_t staging = 0;
  };
  [[nodiscard]] Memory memory_for(const image::Layout& layout, backend::View out);
  /// Most staging that was in use so far.
  [[nodiscard]] size_t staging_peak() const { return staging_.peak(); }

  /// Encodes an image to out [pixels.layout.tokens, hidden size of the text model]. Tiles, and
  /// frames of a video, do not see each other: each goes through the encoder by itself, with memory
  /// for one. Where scratch only counts, only the layout is read. Pixels without levels are no
  /// image: a launch warms up the kernels by their first tile or frame.
  void encode(const image::Pixels& pixels, backend::View out);

 private:
  void encode_tile(const image::Pixels& pixels, int64_t tile, backend::View out);
  void encode_frame(const image::Pixels& pixels, int64_t frame, backend::View out);
  /// Takes values [rows, columns], and calls `write` for the float32 values of each of `pieces`
  /// equal pieces of the rows.
  backend::View take_values(EncoderInputs& inputs, int64_t rows, int64_t columns, int64_t pieces,
                            const std::function<void(int64_t piece, float* to)>& write);
  /// Rows that several layers' outputs are projected from side by side (VisionSpec::features).
  struct Features {
    backend::BatchMeta order;  // gathers an encoder's rows
    backend::View rows;        // [order's, features * hidden]
  };
  /// Keeps the rows of x [rows, hidden] after `layers` layers, if VisionSpec::features has that
  /// number.
  void keep_features(int64_t layers, backend::View x, const Features& kept);
  /// Runs x [rows, hidden] through all layers.
  void run_layers(backend::View x, const EncoderArrays& arrays, const Features& kept);
  /// Attention of one layer: which rows see each other, and their rotation.
  struct Sight {
    const Segments& segments;
    const backend::KvLayer& cache;
    backend::View angles;
  };
  void attend(const model::VisionLayer& layer, backend::View x, const Sight& sight);
  void feed_forward(const model::VisionLayer& layer, backend::View x);
  /// Projects rows in the order of blocks to embeddings, a block's rows to one.
  void project(backend::View x, backend::View out);

  /// A vector weight's values as rows of `columns` columns.
  [[nodiscard]] backend::View rows_of(model::WeightId id, int64_t columns) const;
  /// The attention that all layers have; without layers an empty one.
  [[nodiscard]] model::AttentionSpec attention() const {
    return spec_.layers.empty() ? model::AttentionSpec{} : spec_.attention(spec_.layers.front());
  }

  const model::VisionSpec& spec_;
  memory::Arena staging_ = memory::Arena::counting();
  std::vector<model::WeightSpec> weight_specs_;  // as the tower runs them, by WeightId
};

}  // namespace plimsoll::engine
