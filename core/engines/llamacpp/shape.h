// A GGUF file's model as llama.cpp allocates it: tensors by layer, widths of caches and states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/gguf/model.h"

namespace plimsoll::engines::llamacpp {

/// Parts of a layer's MLP that overrides of tensors name.
enum class MlpPart { none, gate, up, gate_up, down, other };

struct Weight {
  static constexpr int64_t kInput = -1;       // before the layers: stays on the host
  static constexpr int64_t kEverywhere = -2;  // once on each device that has layers

  const checkpoint::gguf::Tensor* tensor = nullptr;
  int64_t layer = 0;  // its layer; the number of layers for the head
  MlpPart part = MlpPart::none;
  bool expert = false;         // of stacked experts
  bool is_matrix = false;      // a factor of products, not looked up by rows
  bool second_use = false;     // the embedding once more, as the head
  std::optional<int> sent_to;  // the device that an override of the launch names
};

/// What a layer keeps of its sequences; widths are values of a row, 0: nothing.
struct Layer {
  int64_t key = 0, value = 0;  // of a token
  int64_t indexer = 0;         // keys of sparse attention's indexer, of a token
  int64_t key_head = 0, value_head = 0;
  bool windowed = false;
  int64_t heads = 0;
  int64_t shift_state = 0, memory_state = 0;  // float32 values of a sequence
  [[nodiscard]] bool attends() const { return key > 0; }
};

struct Shape {
  std::string architecture;
  std::vector<Layer> layers;
  std::vector<Weight> weights;
  int64_t context = 0;     // tokens that the model was trained for
  int64_t embedding = 0;   // hidden size
  int64_t vocabulary = 0;  // tokens
  int64_t window = 0;      // tokens; 0: no layer has one
  int64_t feed_forward = 0;
  int64_t experts = 0, experts_used = 0, expert_feed_forward = 0;
  int64_t left_out_layers = 0;  // layers of multi-token prediction, which are not loaded
  bool latent = false;          // a cache of keys alone (MLA)
  bool gated = false;           // an MLP with a gate, fused or not
  bool has_mlp_beside = false;  // of the experts: shared ones, or a dense MLP in the same layer

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(layers.size()); }
  [[nodiscard]] bool recurs() const;
};

/// Most layers of a model (llama.cpp's LLAMA_MAX_LAYERS).
inline constexpr int64_t kMostLayers = 512;

/// Reads a header. The shape points to the model's tensors. Throws Error(checkpoint_unusable)
/// naming file and key.
Shape shape_of(const checkpoint::gguf::Model& model);

}  // namespace plimsoll::engines::llamacpp
