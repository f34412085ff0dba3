// Inputs of products rounded as a quantised checkpoint's format asks for: to int8, float8 or e2m1
// and back, so that what is multiplied are the numbers that an 8- or 4-bit kernel would take.
#pragma once

#include <cstdint>

#include "model/packing.h"

namespace plimsoll::backend {

struct InputRule {
  model::InputRounding rounding = model::InputRounding::none;
  /// The checkpoint's: int8 and fp8 are multiples of it, nvfp4's scales its inverse's.
  float scale = 0;

  bool operator==(const InputRule&) const = default;
  explicit operator bool() const { return rounding != model::InputRounding::none; }
};

/// A row of `count` floats, rounded; scales as vLLM's kernels have them (amax / 127, amax / 448).
void round_inputs(const float* from, int64_t count, const InputRule& rule, float* to);

}  // namespace plimsoll::backend
