// The models that the doctor makes up: small enough to be computed in a moment, and between them
// they pass through the kernels of text models.
#pragma once

#include <span>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::cli {

struct TinyModel {
  const char* name;
  const char* covers;             // what of the kernels, in words
  const char* config;             // what differs from the common one (tiny_models.cpp)
  int64_t head_dim = 0;           // in place of the config's
  const char* quantization = "";  // of its weights: quantization::assign_online()
  /// Computed in bfloat16 too: nothing is chosen by small differences.
  bool in_half = false;
  /// Of its log probabilities in bfloat16. Some twenty roundings of 2^-9 each, of values about 1.
  double allowed_in_half = 0.15;
  /// Asked, in float32, with penalties and masks, and to draw at random.
  bool has_penalties = false;
};

std::span<const TinyModel> tiny_models();
/// With heads for as many blocks as a card of 9.0 wants of a prefill, of each size that its own
/// kernels have.
std::span<const TinyModel> wide_models();

model::ModelSpec spec_of(const TinyModel& tiny);

/// Weights that follow from their names: the same on every backend and machine.
class NamedWeights final : public checkpoint::WeightSource {
 public:
  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override;
};

}  // namespace plimsoll::cli
