// Bytes of one linear layer's or one expert block's weight in device memory.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/amount.h"
#include "quantization/scheme.h"

namespace plimsoll::vllm {

using quantization::Scales;
using quantization::WeightFormat;
using quantization::WeightScheme;

/// A weight of one rank. Fused matrices (q, k, v; gate, up) count as one with several widths.
struct MatrixShape {
  Amount inputs;                // of this rank
  Amount full_inputs;           // of all ranks
  std::vector<int64_t> widths;  // outputs of this rank, per fused matrix
  bool cuts_outputs = false;    // other ranks have other outputs

  [[nodiscard]] Amount outputs() const {
    return std::accumulate(widths.begin(), widths.end(), Amount{0});
  }
};

/// Bytes of weight, scales and zero points; without the bias. `element` is the size of the model's
/// dtype. Throws Error(usage) when the scheme cannot be split in this way.
Amount matrix_bytes(const WeightScheme& scheme, const MatrixShape& shape, int64_t element);

/// A rank's share of a layer of routed experts.
struct ExpertShape {
  Amount experts;  // held by this rank
  Amount hidden;
  Amount intermediate;      // of this rank
  int64_t up_matrices = 2;  // 2: gate and up, 1: up alone
  bool bias = false;
  bool split = false;    // the intermediate size is divided over ranks
  bool ordered = false;  // 4-bit experts have tensors of an activation order, whether they need any
};

/// Bytes of both expert weights (w13, w2) with scales and biases.
Amount expert_bytes(const WeightScheme& scheme, const ExpertShape& shape, int64_t element);

}  // namespace plimsoll::vllm
