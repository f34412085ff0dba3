// Draws tokens from logits, steps 6 to 10 of core/engine/sampling/sampler.h, without sorting the
// vocabulary.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// One block per row. Weights exp((logit - largest) / temperature) are multiples of 2^-44: their
/// sums are exact in any order, so a row's token depends on the row alone. Ranks go by logit, the
/// lower id of equal ones first. drawn[i] is the token, -1 when a logit is NaN or +infinity, -2
/// when all are -infinity.
struct Sample {
  View logits;                          // [R, vocabulary] f32, vocabulary < 2^20
  const double* temperature = nullptr;  // [R] below 1e-5: the largest, of equals the lowest id
  const int32_t* top_k = nullptr;       // [R] below 1: all
  const double* top_p = nullptr;        // [R] 1 and more: all
  const double* min_p = nullptr;        // [R] 0: all
  const double* uniform = nullptr;      // [R] in [0, 1): the running sum in id order passes it
  int32_t* drawn = nullptr;             // [R]
};
void sample(const Sample& op, cudaStream_t stream);

}  // namespace plimsoll::kernels
