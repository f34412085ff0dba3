// Changes logits before they are drawn from, steps 1 to 5 of core/engine/sampling/sampler.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// Changes logits in place, in float, rounded as on the CPU. Masked tokens become -infinity; one
/// that is NaN or +infinity stays, so that the row is recognised. A row without changes is not
/// touched.
struct ChangeLogits {
  View logits;                                    // [R, vocabulary] f32
  const float* repetition = nullptr;              // [R] as in backend::Drawing
  const float* frequency = nullptr;               // [R]
  const float* presence = nullptr;                // [R]
  const uint8_t* adds_own = nullptr;              // [R]
  const int32_t* sections = nullptr;              // [4 R + 1]
  const backend::TokenChange* changes = nullptr;  // by sections
  const int32_t* rows = nullptr;                  // [R] whose logits they are; -1: padding
  const int32_t* token_ids = nullptr;             // [T]: a row's own token
  const int32_t* mask_of = nullptr;               // [R] as in backend::Drawing, as the next two
  const int32_t* masks = nullptr;                 // null: there is none, whatever mask_of says
  int64_t mask_words = 0;
};
void change_logits(const ChangeLogits& op, cudaStream_t stream);

}  // namespace plimsoll::kernels
