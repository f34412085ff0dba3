// Ops on single rows: norms, activations, rotation, softmax. Tails shorter than a vector go through
// a padded copy, so that every element goes through the same instructions.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/kernels/vec_math.h"
#include "base/float8.h"

namespace plimsoll::backend {
namespace {

/// The first `count` floats at `from`, the other lanes `fill`.
PLIMSOLL_INLINE Vf load_some(const float* from, int64_t count, float fill) {
  if (count == kLanes) return load(from);
  Vf v = splat(fill);
  __builtin_memcpy(&v, from, count * sizeof(float));
  return v;
}
PLIMSOLL_INLINE void store_some(float* to, Vf v, int64_t count) {
  if (count == kLanes) return store(to, v);
  __builtin_memcpy(to, &v, count * sizeof(float));
}

/// to[i] = f(from[i]...) for all vectors of the rows; f gets an index to load other rows with.
template <typename F>
PLIMSOLL_INLINE void map(float* to, int64_t count, F f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store(to + i, f([i](const float* from) { return load(from + i); }));
  const int64_t left = count - i;
  if (left > 0)
    store_some(to + i, f([i, left](const float* from) { return load_some(from + i, left, 0.f); }),
               left);
}

void add(float* to, const float* from, int64_t count) {
  map(to, count, [=](auto at) { return at(to) + at(from); });
}

void add_scaled(float* to, const float* from, float weight, int64_t count) {
  map(to, count, [=](auto at) { return fma(at(from), splat(weight), at(to)); });
}

void scale(float* row, float factor, int64_t count) {
  map(row, count, [=](auto at) { return at(row) * splat(factor); });
}

void soft_cap(float* row, int64_t count, float cap) {
  map(row, count, [=](auto at) { return splat(cap) * tanh(at(row) / splat(cap)); });
}

void clamp(float* row, int64_t count, float limit) {
  map(row, count, [=](auto at) {
    const Vf x = at(row);  // NaN stays
    return select(x > splat(limit), splat(limit), select(x < splat(-limit), splat(-limit), x));
  });
}

void xielu(float* row, int64_t count, const Xielu& p) {
  map(row, count, [=](auto at) {
    const Vf x = at(row);
    const Vf m = min(x, splat(p.epsilon));
    // e^m - 1 - m cancels near 0.
    const Vf far = exp(m) - splat(1.f) - m;
    const Vf curve = select(m > splat(-0.34f), m * m * exp_tail(m), far) + (m - x);
    const Vf bent = select(x > splat(0.f), splat(p.positive) * x * x, splat(p.negative) * curve);
    return fma(splat(p.beta), x, bent);
  });
}

float gate_of(float x, model::GateKind kind) {
  const float positive = x > 0 ? x : 0.f;
  switch (kind) {
    case model::GateKind::sigmoid:
      return sigmoid(splat(x))[0];
    case model::GateKind::softplus:
      return positive + __builtin_log1pf(__builtin_expf(x > 0 ? -x : x));
    case model::GateKind::silu:
      return x * sigmoid(splat(x))[0];
    case model::GateKind::as_is:
      break;
  }
  return x;
}

void multiply_gates(float* row, const float* gates, int64_t count, int64_t gate_count,
                    model::GateKind kind) {
  using model::GateKind;
  if (count == gate_count && kind != GateKind::softplus) {
    return map(row, count, [=](auto at) {
      const Vf x = at(gates);
      if (kind == GateKind::as_is) return at(row) * x;
      return at(row) * (kind == GateKind::silu ? x * sigmoid(x) : sigmoid(x));
    });
  }
  const int64_t width = count / gate_count;
  for (int64_t i = 0; i < gate_count; ++i) scale(row + i * width, gate_of(gates[i], kind), width);
}

/// Calls f with the activation as a compile-time constant.
template <typename F>
PLIMSOLL_INLINE void with_activation(model::Activation activation, F f) {
  using model::Activation;
  switch (activation) {
    case Activation::none:
      return f.template operator()<Activation::none>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
    case Activation::relu:
      return f.template operator()<Activation::relu>();
    case Activation::gelu_quick:
      return f.template operator()<Activation::gelu_quick>();
    case Activation::relu_squared:
      return f.template operator()<Activation::relu_squared>();
  }
}

void gate(float* out, const float* gates, const float* up, int64_t count, const Gating& gating) {
  with_activation(gating.activation, [=]<model::Activation kind>() {
    if (!gating.limits.any() && gating.up_offset == 0) {
      map(out, count, [=](auto at) { return activate<kind>(at(gates)) * at(up); });
      return;
    }
    const model::GateLimits bounds = gating.limits.bounds();
    const Vf most_gate = splat(bounds.gate), most_up = splat(bounds.up);
    map(out, count, [=](auto at) {
      const Vf g = at(gates);
      const Vf u = at(up);
      const Vf low = splat(0.f) - most_up;
      const Vf cut = select(u > most_up, most_up, select(u < low, low, u));
      return activate<kind>(select(g > most_gate, most_gate, g)) * (cut + splat(gating.up_offset));
    });
  });
}

void finish(float* c, int64_t columns, const Epilogue& epilogue) {
  if (epilogue.bias != nullptr) add(c, epilogue.bias, columns);
  if (epilogue.activation == model::Activation::none) return;
  with_activation(epilogue.activation, [=]<model::Activation kind>() {
    map(c, columns, [=](auto at) { return activate<kind>(at(c)); });
  });
}

/// Sum of f(x) over a row, in an order that depends on `count` alone.
template <typename F>
PLIMSOLL_INLINE float sum_over(const float* row, int64_t count, F f) {
  Vf sums[4] = {splat(0.f), splat(0.f), splat(0.f), splat(0.f)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j) sums[j] = sums[j] + f(load(row + i + j * kLanes));
  for (; i + kLanes <= count; i += kLanes) sums[0] = sums[0] + f(load(row + i));
  float tail = 0;
  for (; i < count; ++i) tail += f(splat(row[i]))[0];
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + tail;
}

void norm(const NormRow& row) {
  float mean = 0;
  const auto width = static_cast<float>(row.width);
  if (row.kind == model::NormKind::layer)
    mean = sum_over(row.in, row.width, [](Vf x) { return x; }) / width;
  const float squares = sum_over(row.in, row.width, [mean](Vf x) {
    const Vf d = x - splat(mean);
    return d * d;
  });
  const float factor = 1.f / __builtin_sqrtf(squares / width + row.epsilon);
  map(row.out, row.width, [=](auto at) {
    Vf x = (at(row.in) - splat(mean)) * splat(factor);
    if (row.weight != nullptr) x = x * (at(row.weight) + splat(row.weight_offset));
    return row.bias != nullptr ? x + at(row.bias) : x;
  });
}

void keep_above(float* row, float deviations, int64_t count) {
  const auto width = static_cast<float>(count);
  const float mean = sum_over(row, count, [](Vf x) { return x; }) / width;
  const float squares = sum_over(row, count, [mean](Vf x) {
    const Vf d = x - splat(mean);
    return d * d;
  });
  const float bound = mean + deviations * __builtin_sqrtf(squares / width);
  map(row, count, [=](auto at) { return max(at(row) - splat(bound), splat(0.f)); });
}

/// Converts floats to a row of `type`.
void narrow(const float* from, void* to, DType type, int64_t count) {
  if (type == DType::f8_e4m3) {
    for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = float_to_e4m3(from[i]);
    return;
  }
  if (type == DType::f32) {
    __builtin_memcpy(to, from, count * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t some = count - i < kLanes ? count - i : kLanes;
    const Vf v = load_some(from + i, some, 0.f);
    const Vh halves = type == DType::bf16 ? to_bf16(v) : to_f16(v);
    __builtin_memcpy(static_cast<uint16_t*>(to) + i, &halves, some * sizeof(uint16_t));
  }
}

/// Converts a row of `type` to floats.
void widen(const void* from, DType type, float* to, int64_t count) {
  if (type == DType::f32) {
    __builtin_memcpy(to, from, count * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t some = count - i < kLanes ? count - i : kLanes;
    Vh halves{};
    __builtin_memcpy(&halves, static_cast<const uint16_t*>(from) + i, some * sizeof(uint16_t));
    store_some(to + i, type == DType::bf16 ? load_bf16(&halves) : load_f16(&halves), some);
  }
}

void rotate_neighbours(float* head, const float* angles, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float x = head[2 * i];
    const float y = head[2 * i + 1];
    head[2 * i] = x * angles[i] - y * angles[half + i];
    head[2 * i + 1] = y * angles[i] + x * angles[half + i];
  }
}

void rotate(float* head, const float* angles, int64_t rotary_dim, model::RopePairs pairs) {
  const int64_t half = rotary_dim / 2;
  if (pairs == model::RopePairs::neighbours) return rotate_neighbours(head, angles, half);
  float* other = head + half;
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t count = half - i < kLanes ? half - i : kLanes;
    const Vf x = load_some(head + i, count, 0.f);
    const Vf y = load_some(other + i, count, 0.f);
    const Vf c = load_some(angles + i, count, 0.f);
    const Vf s = load_some(angles + half + i, count, 0.f);
    store_some(head + i, fma(splat(0.f) - y, s, x * c), count);
    store_some(other + i, fma(x, s, y * c), count);
  }
}

void softmax(float* row, int64_t count) {
  float best = row[0];
  for (int64_t i = 1; i < count; ++i) best = row[i] > best ? row[i] : best;
  map(row, count, [=](auto at) { return exp(at(row) - splat(best)); });
  const float total = sum_over(row, count, [](Vf x) { return x; });
  map(row, count, [=](auto at) { return at(row) / splat(total); });
}

}  // namespace
}  // namespace plimsoll::backend
