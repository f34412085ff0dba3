// Matrix products of a warp on tensor cores.
#pragma once

#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {

/// Two 16-bit numbers, the first in the low half.
using Pair = uint32_t;

#ifdef PLIMSOLL_EMULATION

template <typename T>
float half_of(Pair pair, int which) {
  const auto bits = static_cast<uint16_t>(pair >> (16 * which));
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return to_float(value);
}

/// Parts of matrices that a lane holds.
struct LaneParts {
  Pair a[4], b[2];
};

/// mma.m16n8k16 (below) from the parts of all lanes.
template <typename T>
void multiply_add(float (&d)[4], const Pair (&a)[4], const Pair (&b)[2]) {
  const auto& lanes = emulated_lanes(LaneParts{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned t = 0; t < 4; ++t)
    for (int part = 0; part < 2; ++part) {
      const Pair upper = lanes[lane / 4 * 4 + t].a[2 * part];
      const Pair lower = lanes[lane / 4 * 4 + t].a[2 * part + 1];
      const Pair left = lanes[lane % 4 * 8 + t].b[part];
      const Pair right = lanes[lane % 4 * 8 + 4 + t].b[part];
      for (int i = 0; i < 2; ++i) {
        d[0] += half_of<T>(upper, i) * half_of<T>(left, i);
        d[1] += half_of<T>(upper, i) * half_of<T>(right, i);
        d[2] += half_of<T>(lower, i) * half_of<T>(left, i);
        d[3] += half_of<T>(lower, i) * half_of<T>(right, i);
      }
    }
}

#else

/// d [16, 8] += a [16, 16] * b [8, 16]^T (PTX ISA, mma.m16n8k16). With g = lane / 4 and t = lane %
/// 4 a lane has d: rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t, 2t + 1; a: pairs of columns 2t
/// of rows g, g + 8, and of columns 2t + 8 of rows g, g + 8; b: pairs 2t and 2t + 8 of row g.
template <typename T>
__device__ void multiply_add(float (&d)[4], const Pair (&a)[4], const Pair (&b)[2]);
template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&d)[4], const Pair (&a)[4],
                                                   const Pair (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void multiply_add<__half>(float (&d)[4], const Pair (&a)[4], const Pair (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

}  // namespace plimsoll::kernels
