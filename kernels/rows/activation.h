// Activations in float, as core/backend/cpu has them.
#pragma once

#include <cuda_runtime.h>

#include "model/model_spec.h"

namespace plimsoll::kernels {

/// `kind` is the same for all threads, so the branches cost next to nothing beside the loads.
__device__ inline float activate(model::Activation kind, float x) {
  switch (kind) {
    case model::Activation::silu:
      return x / (1.f + expf(-x));
    case model::Activation::gelu:
      return 0.5f * x * (1.f + erff(x * 0.70710678118654752f));
    case model::Activation::gelu_tanh:
      return 0.5f * x * (1.f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case model::Activation::relu:
      return x > 0.f ? x : (x < 0.f ? 0.f : x);  // NaN stays
    case model::Activation::gelu_quick:
      return x / (1.f + expf(-1.702f * x));
    case model::Activation::relu_squared:
      return x > 0.f ? x * x : (x < 0.f ? 0.f : x);
    case model::Activation::none:
      break;
  }
  return x;
}

/// log(1 + e^x).
__device__ inline float softplus(float x) {
  return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x)));
}

__device__ inline float sigmoid(float x) {
  return 1.f / (1.f + expf(-x));
}

}  // namespace plimsoll::kernels
