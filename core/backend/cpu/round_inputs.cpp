#include "backend/cpu/round_inputs.h"

#include <algorithm>
#include <cmath>

#include "base/float8.h"

namespace plimsoll::backend {
namespace {

using model::InputRounding;

constexpr int64_t kFp8Group = 128;
constexpr int64_t kNvfp4Group = 16;
constexpr float kLargestE2m1 = 6;
/// vLLM's lower bound of a float8 scale: 1 / (448 * 512).
constexpr float kLeastFp8Scale = 1 / (kLargestE4m3 * 512);

float largest(const float* from, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(from[i]));
  return most;
}

void to_int8(const float* from, int64_t count, float scale, float* to) {
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int64_t i = 0; i < count; ++i)
    to[i] = std::clamp(std::nearbyint(from[i] * inverse), -128.f, 127.f) * scale;
}

void to_fp8(const float* from, int64_t count, float scale, float* to) {
  const float inverse = 1 / scale;
  for (int64_t i = 0; i < count; ++i) to[i] = round_to_e4m3(from[i] * inverse) * scale;
}

/// The nearest e2m1, ties to even.
float round_to_e2m1(float value) {
  const float size = std::min(std::fabs(value), kLargestE2m1);
  const float step = size < 2 ? 0.5f : size < 4 ? 1.f : 2.f;
  return std::copysign(std::nearbyint(size / step) * step, value);
}

void to_nvfp4(const float* from, int64_t count, float global, float* to) {
  const float scale = round_to_e4m3(global * largest(from, count) / kLargestE2m1);
  const float step = scale / global;
  for (int64_t i = 0; i < count; ++i) to[i] = scale > 0 ? round_to_e2m1(from[i] / step) * step : 0;
}

/// f(from, count, to) for each group of a row.
template <typename F>
void for_groups(const float* from, int64_t count, int64_t group, float* to, const F& f) {
  for (int64_t i = 0; i < count; i += group) f(from + i, std::min(group, count - i), to + i);
}

}  // namespace

void round_inputs(const float* from, int64_t count, const InputRule& rule, float* to) {
  const auto fp8 = [](const float* at, int64_t n, float* out) {
    to_fp8(at, n, std::max(largest(at, n) / kLargestE4m3, kLeastFp8Scale), out);
  };
  switch (rule.rounding) {
    case InputRounding::none:
      std::copy_n(from, count, to);
      return;
    case InputRounding::int8_token:
      return to_int8(from, count, largest(from, count) / 127, to);
    case InputRounding::int8_static:
      return to_int8(from, count, rule.scale, to);
    case InputRounding::fp8_token:
      return fp8(from, count, to);
    case InputRounding::fp8_group:
      return for_groups(from, count, kFp8Group, to, fp8);
    case InputRounding::fp8_static:
      return to_fp8(from, count, rule.scale, to);
    case InputRounding::nvfp4_group:
      return for_groups(from, count, kNvfp4Group, to, [&](const float* at, int64_t n, float* out) {
        to_nvfp4(at, n, rule.scale, out);
      });
  }
}

}  // namespace plimsoll::backend
