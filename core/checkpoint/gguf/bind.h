// The weight table of a model, made of a GGUF file's tensors in place of a Hugging Face
// checkpoint's.
#pragma once

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"
#include "quantization/assign.h"

namespace plimsoll::checkpoint::gguf {

/// Names the file's tensors in the parts of the spec's weights, and undoes what llama.cpp's
/// converter does to values: permuted rows of q and k, 1 added to norms, A in place of its
/// logarithm. `checkpoint` is a GGUF model. Which tensors are there, and their shapes, is checked
/// later, as for every checkpoint.
void bind_tensors(Checkpoint& checkpoint, model::ModelSpec& spec);

/// The dtype of the file's plain matrices, where all are of one half precision or all are float32;
/// bfloat16 where some are packed.
DType stored_dtype(const Checkpoint& checkpoint);

/// Lets weights that are stored in another type than `spec.dtype` be kept as the file's blocks, and
/// float32 vectors as float32; with Activations::rounded_blocks the inputs of packed blocks are
/// rounded. Throws Error(checkpoint_unusable), naming the tensor, for types that
/// `run` does not decode.
void keep_blocks(const Checkpoint& checkpoint, quantization::Activations activations,
                 model::ModelSpec& spec);

}  // namespace plimsoll::checkpoint::gguf
