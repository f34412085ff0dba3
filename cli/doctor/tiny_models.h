// The doctor's models: small enough to be computed in a moment; together they pass through the
// kernels of text models.
#pragma once

#include <span>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::cli {

struct TinyModel {
  const char* name;
  const char* covers;             // the kernels that it passes through, in words
  const char* config;             // keys that differ from the common config (tiny_models.cpp)
  int64_t head_dim = 0;           // in place of the config's; 0: the config's
  const char* quantization = "";  // of its weights, for quantization::assign_online()
  /// Whether it is computed in bfloat16 too: no choice in it depends on small differences.
  bool in_half = false;
  /// Largest difference of log probabilities in bfloat16: some twenty roundings of 2^-9 each, of
  /// values about 1.
  double allowed_in_half = 0.15;
  /// Whether it is also asked with penalties, masks and random sampling, in float32.
  bool has_penalties = false;
};

std::span<const TinyModel> tiny_models();
/// Models with as many heads as give a card of 9.0 enough blocks in a prefill, one for each head
/// size of its kernels.
std::span<const TinyModel> wide_models();

model::ModelSpec spec_of(const TinyModel& tiny);

/// Weights that follow from their names: equal on every backend and machine.
class NamedWeights final : public checkpoint::WeightSource {
 public:
  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override;
};

}  // namespace plimsoll::cli
