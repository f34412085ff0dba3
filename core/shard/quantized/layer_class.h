// Differences between vLLM's layers of one scheme, by quantization method.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::shard {

/// A method whose shards are known, and how its layers name and shape their parameters.
struct LayerClass {
  std::string_view method;  // the method's name, or its beginning
  const char* block_scales = "weight_scale";
  bool four_axes = false;      // scales of a grid of blocks are [rows, 1, columns, 1]
  bool scale_vectors = false;  // scales of outputs are [outputs], not [outputs, 1]
  /// Names for four-bit floats: codes, the matrix's scale, the inputs' scale; and whether the
  /// matrix's scale stands before the scales of groups.
  const char* codes = "weight";
  const char* second_scale = "weight_scale_2";
  const char* input_scale = "input_scale";
  bool second_first = true;
  bool any_group = false;       // NVFP4 in groups that config.json states
  bool pads_experts = false;    // MXFP4's, as the card's kernel asks for
  bool quantizes_head = false;  // layers over the vocabulary are quantized too
};

/// The row of a method; null: its shards are not known.
const LayerClass* find_layer_class(const std::string& method);

}  // namespace plimsoll::shard
