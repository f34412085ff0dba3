// Matrix products: a tile of rows times strips of a packed weight. Every output is one chain of
// multiply-adds over k in ascending order, whatever the tile, so its bits depend on its row and
// column alone.
#pragma once

#include <algorithm>
#include <utility>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

// How the types of weights are multiplied. A step is one or two columns k; a step of a row is
// kParts scalars, each multiplied with its part of the weights.

struct F32Product {
  using A = float;
  static constexpr int kStep = 1;
  static constexpr int kParts = 1;
  static constexpr size_t kWeight = 4;  // bytes of one weight element
  using W = Vf;
  PLIMSOLL_INLINE void parts(const std::byte* from, W* to) { to[0] = load_as<Vf>(from); }
  PLIMSOLL_INLINE W spread(A a) { return splat(a); }
  PLIMSOLL_INLINE Vf multiply_add(W a, W w, Vf sum) { return fma(a, w, sum); }
};

struct F16Product : F32Product {
  static constexpr size_t kWeight = 2;
  PLIMSOLL_INLINE void parts(const std::byte* from, W* to) { to[0] = load_f16(from); }
};

/// Widens both of a pair to float.
struct WidenedBf16Product : F32Product {
  static constexpr int kStep = 2;
  static constexpr int kParts = 2;
  static constexpr size_t kWeight = 2;
  PLIMSOLL_INLINE void parts(const std::byte* from, W* to) {
    const Vi pairs = load_as<Vi>(from);
    to[0] = first_of_pair(pairs);
    to[1] = second_of_pair(pairs);
  }
};

#if defined(__AVX512BF16__)
/// Multiplies pairs; rows are rounded to bf16.
struct PairedBf16Product {
  using A = int32_t;  // a pair
  static constexpr int kStep = 2;
  static constexpr int kParts = 1;
  static constexpr size_t kWeight = 2;
  using W = Vi;
  PLIMSOLL_INLINE void parts(const std::byte* from, W* to) { to[0] = load_as<Vi>(from); }
  PLIMSOLL_INLINE W spread(A a) { return (Vi)_mm512_set1_epi32(a); }
  PLIMSOLL_INLINE Vf multiply_add(W a, W w, Vf sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)a);
  }
};
using Bf16Product = PairedBf16Product;
#else
using Bf16Product = WidenedBf16Product;
#endif

/// Vectors of columns in a strip.
constexpr int kStripVectors = static_cast<int>(kStrip) / kLanes;
/// Registers left for sums beside four weights and a scalar.
constexpr int kSums = kRegisters - 6;
/// Strips that few rows are multiplied with side by side: memory gives more to several streams.
constexpr int kStreams = 4;
/// Rows of the largest tile: two vectors of columns each.
constexpr int kProductRows = kSums / 2;
static_assert(kProductRows <= kMaxProductRows);

/// Adds one step of R rows and V vectors of columns.
template <typename P, int R, int V>
PLIMSOLL_INLINE void multiply_step(const typename P::A* a, const std::byte* weights, Vf* sums) {
  typename P::W w[V * P::kParts];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
    P::parts(weights + v * (kLanes * P::kStep * P::kWeight), w + v * P::kParts);
#pragma GCC unroll 32
  for (int i = 0; i < R * P::kParts; ++i) {
    const typename P::W scalar = P::spread(a[i]);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Vf& sum = sums[i / P::kParts * V + v];
      sum = P::multiply_add(scalar, w[v * P::kParts + i % P::kParts], sum);
    }
  }
}

/// Computes R rows times V vectors of columns of S strips.
template <typename P, int R, int V, int S = 1>
void multiply(const ProductTile& tile, const std::byte* weights, float* c,
              const std::byte* prefetch) {
  constexpr size_t kStepBytes = kStrip * P::kStep * P::kWeight;
  const auto* a = static_cast<const typename P::A*>(tile.a);
  const int64_t steps = (tile.k_end - tile.k_begin) / P::kStep;
  weights += tile.k_begin / P::kStep * kStepBytes;
  Vf sums[S * R * V];
  const auto at = [&](int i) {
    return c + i / (R * V) * kStrip + i / V % R * tile.c_stride + i % V * kLanes;
  };
#pragma GCC unroll 32
  for (int i = 0; i < S * R * V; ++i) sums[i] = tile.continues ? load(at(i)) : splat(0.f);
  const auto step = [&] {
#pragma GCC unroll 8
    for (int strip = 0; strip < S; ++strip)
      multiply_step<P, R, V>(a, weights + strip * tile.strip_bytes, sums + strip * R * V);
    a += R * P::kParts;
    weights += kStepBytes;
  };
  int64_t s = 0;
  for (; s + kPrefetchSteps <= steps; s += kPrefetchSteps) {
    for (int i = 0; i < tile.prefetch_lines; ++i) __builtin_prefetch(prefetch + 64 * i, 0, 2);
    prefetch += 64 * tile.prefetch_lines;
    for (int i = 0; i < kPrefetchSteps; ++i) step();
  }
  for (; s < steps; ++s) step();
#pragma GCC unroll 32
  for (int i = 0; i < S * R * V; ++i) store(at(i), sums[i]);
}

template <typename P, int R>
void product_rows(const ProductTile& tile) {
  constexpr int V = R * kStripVectors <= kSums ? kStripVectors : 2;
  constexpr int S = std::min(kStreams, kSums / (R * kStripVectors));
  int strip = 0;
  if constexpr (S > 1)
    for (; strip + S <= tile.strips; strip += S) {
      const size_t offset = strip * tile.strip_bytes;
      multiply<P, R, V, S>(tile, tile.weight + offset, tile.c + strip * kStrip,
                           tile.prefetch + offset);
    }
  for (; strip < tile.strips; ++strip)
    for (int v = 0; v < kStripVectors; v += V) {
      const size_t offset = strip * tile.strip_bytes;
      multiply<P, R, V>(tile, tile.weight + offset + v * (kLanes * P::kStep * P::kWeight),
                        tile.c + strip * kStrip + v * kLanes, tile.prefetch + offset);
    }
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
  return weight == DType::bf16 ? Bf16Product::kParts * sizeof(Bf16Product::A) / 2 : sizeof(float);
}

#if defined(__AVX512BF16__)
/// Numbers that are rounded at a time before they are stored, so that the compiler uses vectors.
constexpr int kRounded = 32;

/// Packs whole runs of a row's pairs; returns the columns that are done.
int64_t pack_pairs(const float* in, int rows, int64_t k, int32_t* to) {
  int64_t i = 0;
  for (; i + kRounded <= k; i += kRounded) {
    uint16_t numbers[kRounded];
    for (int j = 0; j < kRounded; ++j) numbers[j] = static_cast<uint16_t>(bf16_of(in[i + j]));
    for (int j = 0; j < kRounded; j += 2, to += rows) *to = load_scalar<int32_t>(numbers + j);
  }
  return i;
}
#endif

/// Packs one row, `rows` rows apart from step to step; columns past `k` up to an even number are
/// zero.
template <typename P>
void pack_row(const float* in, int rows, int64_t k, typename P::A* to) {
  int64_t i = 0;
#if defined(__AVX512BF16__)
  if constexpr (P::kStep == 2) {
    i = pack_pairs(in, rows, k, to);
    to += i / 2 * rows;
  }
#endif
  for (; i < padded_columns(k); i += P::kStep) {
    const float first = i < k ? in[i] : 0.f;
    if constexpr (P::kStep == 1) {
      to[0] = first;
    } else {
      const float second = i + 1 < k ? in[i + 1] : 0.f;
      if constexpr (P::kParts == 2) {
        to[0] = first;
        to[1] = second;
      } else {
        to[0] = static_cast<int32_t>(bf16_of(first) | bf16_of(second) << 16);
      }
    }
    to += rows * P::kParts;
  }
}

void pack_rows(const float* const* in, int rows, int64_t k, DType weight, void* out) {
  for (int r = 0; r < rows; ++r) {
    if (weight == DType::bf16)
      pack_row<Bf16Product>(in[r], rows, k,
                            static_cast<Bf16Product::A*>(out) + r * Bf16Product::kParts);
    else
      pack_row<F32Product>(in[r], rows, k, static_cast<float*>(out) + r);
  }
}

}  // namespace
}  // namespace plimsoll::backend
