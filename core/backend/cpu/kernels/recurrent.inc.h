// One token's step of recurrent mixers. Every output is a chain of operations in an order that
// depends on sizes alone.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/rows.inc.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/kernels/vec_math.h"

namespace plimsoll::backend {
namespace {

/// to += a * b.
void add_product(float* to, const float* a, const float* b, int64_t count) {
  map(to, count, [=](auto at) { return fma(at(a), at(b), at(to)); });
}

/// Some numbers of a channel's state: h = decay h + input b; adds h c to the lanes of `sums`.
PLIMSOLL_INLINE void scan_some(float* h, const float* b, const float* c, Vf decay, Vf input,
                               int64_t count, Vf& sums) {
  const Vf next = fma(decay, load_some(h, count, 0.f), input * load_some(b, count, 0.f));
  store_some(h, next, count);
  sums = fma(next, load_some(c, count, 0.f), sums);
}

void scan_step(const ScanStep& step) {
  for (int64_t channel = 0; channel < step.channels; ++channel) {
    float* h = step.h + channel * step.state;
    const float x = step.x[channel];
    const Vf input = splat(step.size * x);
    const Vf one_decay = splat(step.decay);
    Vf sums = splat(0.f);
    for (int64_t n = 0; n < step.state; n += kLanes) {
      const int64_t count = step.state - n < kLanes ? step.state - n : kLanes;
      const Vf decay = step.rates == nullptr
                           ? one_decay
                           : exp(splat(step.size) * load_some(step.rates + n, count, 0.f));
      scan_some(h + n, step.b + n, step.c + n, decay, input, count, sums);
    }
    step.out[channel] = sum(sums) + step.skip * x;
  }
}

/// `kVectors` vectors of columns of S from `column` on; the last may be shorter: `count` in all.
template <int kVectors>
PLIMSOLL_INLINE void delta_columns(const DeltaStep& step, int64_t column, int64_t count) {
  Vf read[kVectors], out[kVectors];
  const auto some = [&](int j) {
    const int64_t left = count - j * kLanes;
    return left < kLanes ? left : kLanes;
  };
  for (int j = 0; j < kVectors; ++j) read[j] = out[j] = splat(0.f);
  for (int64_t i = 0; i < step.keys; ++i) {
    float* row = step.s + i * step.values + column;
    const Vf decay = splat(step.decays == nullptr ? step.decay : step.decays[i]);
    const Vf k = splat(step.k[i]);
    for (int j = 0; j < kVectors; ++j) {
      const Vf kept = load_some(row + j * kLanes, some(j), 0.f) * decay;
      store_some(row + j * kLanes, kept, some(j));
      read[j] = fma(k, kept, read[j]);
    }
  }
  for (int j = 0; j < kVectors; ++j) {
    const Vf v = load_some(step.v + column + j * kLanes, some(j), 0.f);
    read[j] = splat(step.beta) * (v - read[j]);
  }
  for (int64_t i = 0; i < step.keys; ++i) {
    float* row = step.s + i * step.values + column;
    const Vf k = splat(step.k[i]), q = splat(step.q[i]);
    for (int j = 0; j < kVectors; ++j) {
      const Vf next = fma(k, read[j], load_some(row + j * kLanes, some(j), 0.f));
      store_some(row + j * kLanes, next, some(j));
      out[j] = fma(q, next, out[j]);
    }
  }
  for (int j = 0; j < kVectors; ++j) store_some(step.out + column + j * kLanes, out[j], some(j));
}

void delta_step(const DeltaStep& step) {
  constexpr int kVectors = 4;
  int64_t column = 0;
  for (; column + kVectors * kLanes <= step.values; column += kVectors * kLanes)
    delta_columns<kVectors>(step, column, kVectors * kLanes);
  for (; column < step.values; column += kLanes)
    delta_columns<1>(step, column, step.values - column);
}

void lru_step(const LruStep& step) {
  map(step.h, step.channels, [&](auto at) {
    const Vf input = sigmoid(at(step.input_gates)) * at(step.x);
    if (step.starts) return input;
    const Vf rate = at(step.rates) * sigmoid(at(step.decay_gates));
    const Vf share = square_root(splat(0.f) - expm1(rate + rate));
    return fma(exp(rate), at(step.h), share * input);
  });
  map(step.out, step.channels, [&](auto at) { return at(step.h); });
}

float dot(const float* a, const float* b, int64_t count) {
  Vf sums = splat(0.f);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t some = count - i < kLanes ? count - i : kLanes;
    sums = fma(load_some(a + i, some, 0.f), load_some(b + i, some, 0.f), sums);
  }
  return sum(sums);
}

}  // namespace
}  // namespace plimsoll::backend
