// Matrix products: a tile of rows times strips of a packed weight. Every output is one chain of
// multiply-adds over k in ascending order, whatever the tile, so its bits depend on its row and
// column alone.
#pragma once

#include <utility>

#include "backend/cpu/kernels.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/vec.h"

namespace plimsoll::backend {
namespace {

// How one step of k (one or two columns of the weight) is multiplied. A: one row's part of a step.

struct F32Product {
  using A = float;
  static constexpr int kStep = 1;
  static constexpr size_t kWeight = 4;  // bytes of one weight element
  PLIMSOLL_INLINE void step(Vf* acc, int rows, int row_stride, const A* a, const std::byte* w) {
    const Vf weight = load_as<Vf>(w);
    for (int r = 0; r < rows; ++r)
      acc[r * row_stride] = fma(splat(a[r]), weight, acc[r * row_stride]);
  }
};

struct F16Product {
  using A = float;
  static constexpr int kStep = 1;
  static constexpr size_t kWeight = 2;
  PLIMSOLL_INLINE void step(Vf* acc, int rows, int row_stride, const A* a, const std::byte* w) {
    const Vf weight = load_f16(w);
    for (int r = 0; r < rows; ++r)
      acc[r * row_stride] = fma(splat(a[r]), weight, acc[r * row_stride]);
  }
};

#if defined(__AVX512BF16__)
struct Bf16Product {
  using A = int32_t;  // a pair of bf16
  static constexpr int kStep = 2;
  static constexpr size_t kWeight = 2;
  PLIMSOLL_INLINE void step(Vf* acc, int rows, int row_stride, const A* a, const std::byte* w) {
    const auto weight = (__m512bh)load_as<Vi>(w);
    for (int r = 0; r < rows; ++r)
      acc[r * row_stride] =
          _mm512_dpbf16_ps(acc[r * row_stride], weight, (__m512bh)_mm512_set1_epi32(a[r]));
  }
};
#else
struct Bf16Product {
  struct A {
    float first, second;
  };
  static constexpr int kStep = 2;
  static constexpr size_t kWeight = 2;
  PLIMSOLL_INLINE void step(Vf* acc, int rows, int row_stride, const A* a, const std::byte* w) {
    const Vi pairs = load_as<Vi>(w);
    const Vf first = first_of_pair(pairs);
    const Vf second = second_of_pair(pairs);
    for (int r = 0; r < rows; ++r) {
      Vf& sum = acc[r * row_stride];
      sum = fma(splat(a[r].second), second, fma(splat(a[r].first), first, sum));
    }
  }
};
#endif

/// Vectors of columns in a strip.
constexpr int kStripVectors = static_cast<int>(kStrip) / kLanes;
/// Registers left for sums beside the weights and one broadcast.
constexpr int kSums = kRegisters - 4;
/// Rows of the largest tile: two vectors of columns each.
constexpr int kProductRows = kSums / 2;
static_assert(kProductRows <= kMaxProductRows);

/// R rows times V vectors of columns from `column` on; V is a divisor or a multiple of a strip.
template <typename P, int R, int V>
void multiply(const ProductTile& tile, const std::byte* weight, float* c, int64_t first_step) {
  const auto* a = static_cast<const typename P::A*>(tile.a);
  const int64_t steps = (tile.k_end - tile.k_begin) / P::kStep;
  constexpr size_t kVectorBytes = kLanes * P::kStep * P::kWeight;
  constexpr size_t kStepBytes = kStripVectors * kVectorBytes;
  const std::byte* w = weight + static_cast<size_t>(first_step) * kStepBytes;
  Vf acc[R * V];
  for (int i = 0; i < R * V; ++i)
    acc[i] = tile.continues ? load(c + i / V * tile.c_stride + i % V * kLanes) : splat(0.f);
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      P::step(acc + v, R, V, a,
              w + (v / kStripVectors) * tile.strip_bytes + (v % kStripVectors) * kVectorBytes);
    a += R;
    w += kStepBytes;
  }
  for (int i = 0; i < R * V; ++i) store(c + i / V * tile.c_stride + i % V * kLanes, acc[i]);
}

template <typename P, int R>
void product_rows(const ProductTile& tile) {
  constexpr int kWanted = kSums / R >= 8 ? 8 : kSums / R >= 4 ? 4 : 2;
  const int64_t first_step = tile.k_begin / P::kStep;
  const int vectors = tile.strips * kStripVectors;
  int v = 0;
  const auto run = [&]<int V>() {
    for (; v + V <= vectors; v += V)
      multiply<P, R, V>(tile,
                        tile.weight + (v / kStripVectors) * tile.strip_bytes +
                            (v % kStripVectors) * (kLanes * P::kStep * P::kWeight),
                        tile.c + v * kLanes, first_step);
  };
  run.template operator()<kWanted>();
  if constexpr (kWanted > 2) run.template operator()<2>();
}

template <typename P>
void product_of(const ProductTile& tile) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const ProductTile&);
    static constexpr Function kByRows[] = {product_rows<P, I + 1>...};
    kByRows[tile.rows - 1](tile);
  }
  (std::make_integer_sequence<int, kProductRows>{});
}

void product(const ProductTile& tile, DType weight) {
  if (weight == DType::bf16) return product_of<Bf16Product>(tile);
  if (weight == DType::f16) return product_of<F16Product>(tile);
  product_of<F32Product>(tile);
}

size_t packed_element(DType weight) {
  return weight == DType::bf16 ? sizeof(Bf16Product::A) / 2 : sizeof(float);
}

/// The first k of one step of a row as its A; columns past `left` are zero.
PLIMSOLL_INLINE void pack_step(const float* in, int64_t left, Bf16Product::A* to) {
  const float second = left > 1 ? in[1] : 0.f;
#if defined(__AVX512BF16__)
  Vf pair{in[0], second};
  const Vi rounded = round_to_bf16(pair);
  *to = static_cast<int32_t>((static_cast<uint32_t>(rounded[0]) >> 16) |
                             static_cast<uint32_t>(rounded[1]));
#else
  *to = {in[0], second};
#endif
}

void pack_rows(const float* const* in, int rows, int64_t k, DType weight, void* out) {
  const int64_t padded = padded_columns(k);
  if (weight == DType::bf16) {
    auto* to = static_cast<Bf16Product::A*>(out);
    for (int r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; i += 2) pack_step(in[r] + i, k - i, to + i / 2 * rows + r);
    return;
  }
  auto* to = static_cast<float*>(out);
  for (int r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) to[i * rows + r] = in[r][i];
    for (int64_t i = k; i < padded; ++i) to[i * rows + r] = 0.f;
  }
}

}  // namespace
}  // namespace plimsoll::backend
