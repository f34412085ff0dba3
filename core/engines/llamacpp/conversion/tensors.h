// Names and shapes of the tensors that llama.cpp's converter writes.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf/header.h"
#include "model/model_spec.h"

namespace plimsoll::engines::llamacpp {

/// What of a model its description does not say.
struct ConvertedFacts {
  std::string architecture;       // llama.cpp's
  bool late_mlp_norm = false;     // the norm before the MLP is called post_attention_norm
  bool fuses_attention = false;   // q, k and v are one tensor
  bool fuses_mlp = false;         // gate and up are one tensor
  bool fuses_experts = false;     // likewise of experts
  int64_t frequency_factors = 0;  // values of rope_freqs; 0: there is no such tensor
  int64_t long_factors = 0;       // of rope_factors_long and rope_factors_short
};

/// Tensors without types, in the order of layers. Throws Error(checkpoint_unusable) for parts of a
/// layer that no converted model has.
std::vector<checkpoint::gguf::Tensor> tensors_of(const model::ModelSpec& spec,
                                                 const ConvertedFacts& facts,
                                                 const std::string& path);

}  // namespace plimsoll::engines::llamacpp
