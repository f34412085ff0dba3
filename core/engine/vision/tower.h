// A model's image encoder and projector over the backend's ops: pixel values to embeddings.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "engine/vision/segments.h"
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

  /// Scratch that encoding such a picture takes.
  [[nodiscard]] size_t scratch_bytes(const image::Layout& layout, backend::View out);
  /// out [pixels.layout.tokens, hidden size of the text model]. Where scratch only counts, the
  /// layout alone is looked at.
  void encode(const image::Pixels& pixels, backend::View out);

 private:
  void encode_tile(const image::Pixels& pixels, int64_t tile, backend::View out);
  void encode_patches(const image::Pixels& pixels, backend::View out);
  /// Rows that several layers' outputs are projected from side by side (VisionSpec::features).
  struct Features {
    std::span<const int32_t> order;  // of an encoder's rows
    backend::View rows;              // [order's, features * hidden]
  };
  /// Rows of a tile that become embeddings, blocks of merged patches one after the other.
  std::span<int32_t> take_patch_order(int64_t rows);
  /// Those of x [rows, hidden], which went through so many layers, where they are wanted.
  void keep_features(int64_t layers, backend::View x, const Features& kept);
  /// x [rows, hidden] through all layers; `windows` for those that see a window alone.
  void run_layers(backend::View x, backend::View angles, const Segments& whole,
                  const Segments& windows, const Features& kept);
  void attend(const model::VisionLayer& layer, backend::View x, backend::View angles,
              const Segments& segments);
  void feed_forward(const model::VisionLayer& layer, backend::View x);
  /// Rows in the order of blocks to embeddings, a block's rows to one.
  void project(backend::View x, backend::View out);

  void norm(backend::View out, backend::View in, const model::Norm& spec);
  void linear(backend::View out, backend::View in, const model::Linear& linear,
              model::Activation activation);
  [[nodiscard]] const backend::Weight& weight(model::WeightId id) const;
  [[nodiscard]] model::AttentionSpec attention_of(const model::VisionLayer& layer) const;
  backend::View take(std::string_view name, int64_t rows, int64_t columns);
  /// Whole numbers in scratch; null addresses where it only counts.
  std::span<int32_t> take_numbers(std::string_view name, int64_t count);

  const model::VisionSpec& spec_;
  DType dtype_;
  backend::Backend& backend_;
  model::RopeSpec rope_;
  std::vector<model::WeightSpec> weight_specs_;  // as they are run, by WeightId
  std::vector<backend::Weight> weights_;
};

}  // namespace plimsoll::engine
