// Layers of a model that predict further tokens (multi-token prediction), which vLLM runs as its
// draft (vllm/model_executor/models/*_mtp.py).
#pragma once

#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// True for a model whose own layers of this kind are counted.
bool has_mtp(const ConfigView& config);

/// True where the checkpoint leaves these layers unquantized, whatever its other layers are.
bool leaves_mtp_whole(const ConfigView& config, const Quantization& quantization);

/// Counts the layers as build_shape counts a model: each is the model's last one with attention,
/// behind a projection of embedding and hidden states. Token table and output are the model's own.
ModelShape build_mtp(const ConfigView& config, const ShapeOptions& options, RankWeights& weights);

}  // namespace plimsoll::vllm
