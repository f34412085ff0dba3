// FlashInfer's kernel on the CPU: stands in for its headers of inline assembly (mma.cuh,
// cp_async.cuh) and of vector types (vec_dtypes.cuh), under their include guards. Everything else
// of the kernel is FlashInfer's own code, run by the emulator: paging, tiles, shared memory and its
// swizzles, masks, softmax, merging of warps, stores.
//
// Fragments are as the PTX ISA has them for mma.m16n8k16 and ldmatrix
// (sections 9.7.14.5.8, 9.7.14.5.15).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "emulation/emulator.h"
#include "kernels/runtime/numeric.h"

using half = __half;
using nv_bfloat16 = __nv_bfloat16;
struct half2 {
  half x, y;
};
inline unsigned max(unsigned a, int b) {
  return std::max(a, static_cast<unsigned>(b));
}
inline unsigned min(unsigned a, int b) {
  return std::min(a, static_cast<unsigned>(b));
}

// Names in functions that are compiled but not called: scores in f16, FlashInfer's own launches.
half operator*(half, half);
half2 operator*(half2, half2);
half2 operator-(half2, half2);
half2 __hmax2(half2, half2);
half __hmax(half, half);
template <typename T>
T __ldca(const T*);
template <typename... T>
cudaError_t cudaLaunchKernel(T...);
inline constexpr cudaDeviceAttr cudaDevAttrMaxSharedMemoryPerMultiprocessor{};
#define FLASHINFER_RUNTIME_ASSERT(text)
#define __shared__

// FlashInfer takes this for a device that knows bf16.
#define __CUDA_ARCH__ 800

inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}

#define VEC_DTYPES_CUH_
#define FLASHINFER_POS_ENC_CUH_
#define FLASHINFER_CASCADE_CUH_
#define FLASHINFER_MMA_CUH_
#define FLASHINFER_CP_ASYNC_CUH_
// The path of sm_90: results go to shared memory by stmatrix.
#define FLASHINFER_STMATRIX_M8N8X4_ENABLED

namespace flashinfer {

namespace math {
half2 ptx_exp2(half2);
half2 shfl_xor_sync(half2, int);
}  // namespace math

enum class PosEncodingMode { kNone = 0U, kRoPELlama = 1U, kALiBi = 2U };

template <typename T, size_t N>
struct vec_t {
  T values[N];
  T& operator[](size_t i) { return values[i]; }
  void fill(T x) { std::fill_n(values, N, x); }
  void load(const T* from) { std::copy_n(from, N, values); }
  void store(T* to) const { std::copy_n(values, N, to); }
  static void memcpy(T* to, const T* from) { std::copy_n(from, N, to); }
};

template <typename To, typename From>
struct vec_cast {
  template <size_t N>
  static void cast(To* to, const From* from) {
    for (size_t i = 0; i < N; ++i)
      to[i] = plimsoll::kernels::from_float<To>(plimsoll::kernels::to_float(from[i]));
  }
};

namespace cp_async {

enum class SharedMemFillMode { kFillZero, kNoFill };
enum class PrefetchMode { kNoPrefetch, kPrefetch };

/// Copies that have not taken place: they happen as late as possible, when a thread waits for their
/// group.
struct Pending {
  void* to = nullptr;
  const void* from = nullptr;  // null: zeros
};
inline std::vector<std::deque<std::vector<Pending>>> groups_of_threads;

inline std::deque<std::vector<Pending>>& groups() {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (groups_of_threads.size() <= thread) groups_of_threads.resize(thread + 1);
  auto& of = groups_of_threads[thread];
  if (of.empty()) of.emplace_back();
  return of;
}

inline void commit_group() {
  groups().emplace_back();
}

template <size_t n>
void wait_group() {
  auto& of = groups();  // the last one is not committed yet
  while (of.size() > n + 1) {
    for (const Pending& copy : of.front()) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
    }
    of.pop_front();
  }
}

template <PrefetchMode, SharedMemFillMode fill, typename T>
void pred_load_128b(T* to, const T* from, bool predicate) {
  if (predicate) {
    if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
      throw plimsoll::emulation::Misuse("cp.async of an address that is not a multiple of 16");
    groups().back().push_back({to, from});
  } else if (fill == SharedMemFillMode::kFillZero) {
    groups().back().push_back({to, nullptr});
  }
}

template <PrefetchMode mode, typename T>
void load_128b(T* to, const T* from) {
  pred_load_128b<mode, SharedMemFillMode::kNoFill>(to, from, true);
}

}  // namespace cp_async

namespace mma {

enum class MMAMode { kInit = 0U, kInplaceUpdate = 1U };

/// Values that a lane shows to its warp.
struct Lane {
  uint64_t address = 0;
  std::array<float, 8> a{}, b{};
};

/// Row r of matrix m is at the address that lane 8 m + r gives.
using Addresses = std::array<Lane, 32>;
template <typename T>
const Addresses& show_address(T* address) {
  return emulated_lanes(Lane{.address = reinterpret_cast<uint64_t>(address)});
}

inline uint16_t* element(const Addresses& lanes, unsigned matrix, unsigned row, unsigned column) {
  return reinterpret_cast<uint16_t*>(lanes[8 * matrix + row].address) + column;
}

/// Loads matrices: of each, lane l has elements 2 (l % 4) and the next of row l / 4, or of column l
/// / 4 when transposed.
template <bool transposed, typename T>
void load_matrices(uint32_t* to, T* address, std::initializer_list<unsigned> matrices) {
  const Addresses& lanes = show_address(address);
  const unsigned a = threadIdx.x / 4, b = 2 * (threadIdx.x % 4);
  for (const unsigned m : matrices) {
    const uint16_t low = transposed ? *element(lanes, m, b, a) : *element(lanes, m, a, b);
    const uint16_t high = transposed ? *element(lanes, m, b + 1, a) : *element(lanes, m, a, b + 1);
    *to++ = low | uint32_t{high} << 16;
  }
}

template <typename T>
void ldmatrix_m8n8x4(uint32_t* R, T* address) {
  load_matrices<false>(R, address, {0, 1, 2, 3});
}
template <typename T>
void ldmatrix_m8n8x4_left_half(uint32_t* R, T* address) {
  load_matrices<false>(R, address, {0, 2});
}
template <typename T>
void ldmatrix_m8n8x4_right_half(uint32_t* R, T* address) {
  load_matrices<false>(R, address, {1, 3});
}
template <typename T>
void ldmatrix_m8n8x4_trans(uint32_t* R, T* address) {
  load_matrices<true>(R, address, {0, 1, 2, 3});
}
template <typename T>
void ldmatrix_m8n8x4_trans_left_half(uint32_t* R, T* address) {
  load_matrices<true>(R, address, {0, 1});
}
template <typename T>
void ldmatrix_m8n8x4_trans_right_half(uint32_t* R, T* address) {
  load_matrices<true>(R, address, {2, 3});
}
template <typename T>
void stmatrix_m8n8x4(uint32_t* R, T* address) {
  const Addresses& lanes = show_address(address);
  for (unsigned m = 0; m < 4; ++m) {
    std::memcpy(element(lanes, m, threadIdx.x / 4, 2 * (threadIdx.x % 4)), &R[m], 4);
  }
  __syncwarp();  // lanes store as one, and read what others stored without further ado
}

template <typename T>
std::array<float, 8> floats(const void* bits) {
  T values[8];
  std::memcpy(values, bits, sizeof values);
  std::array<float, 8> result;
  for (unsigned i = 0; i < 8; ++i) result[i] = plimsoll::kernels::to_float(values[i]);
  return result;
}

/// A [16, 16]: lane 4 g + t has, of rows g and g + 8, columns 2 t and 2 t + 1, then the same rows'
/// columns 8 further on.
inline float a_at(const std::array<Lane, 32>& lanes, unsigned row, unsigned k) {
  return lanes[4 * (row % 8) + k % 8 / 2].a[k % 2 + row / 8 * 2 + k / 8 * 4];
}
/// B [16, 16]: lane 4 g + t has, of column g, rows 2 t, 2 t + 1 and 8 further on; then of column g
/// + 8.
inline float b_at(const std::array<Lane, 32>& lanes, unsigned k, unsigned column) {
  return lanes[4 * (column % 8) + k % 8 / 2].b[k % 2 + k / 8 * 2 + column / 8 * 4];
}

/// C [16, 16]: lane 4 g + t has, of columns 2 t and 2 t + 1, row g, then row g + 8; then the same
/// of columns 8 further on.
template <typename T, MMAMode mode = MMAMode::kInplaceUpdate>
void mma_sync_m16n16k16_row_col_f16f16f32(float* C, uint32_t* A, uint32_t* B) {
  const auto& lanes = emulated_lanes(Lane{.a = floats<T>(A), .b = floats<T>(B)});
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = g + i / 2 % 2 * 8, column = 2 * t + i % 2 + i / 4 * 8;
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k) sum += a_at(lanes, row, k) * b_at(lanes, k, column);
    C[i] = sum + (mode == MMAMode::kInit ? 0.f : C[i]);
  }
}

template <MMAMode mode = MMAMode::kInplaceUpdate>
void mma_sync_m16n16k16_row_col_f16f16f16(uint32_t*, uint32_t*, uint32_t*) {
  throw plimsoll::emulation::Misuse("scores are f32 here");
}

template <typename T>
void m16k16_rowsum_f16f16f32(float* d, T* s) {
  const auto& lanes = emulated_lanes(Lane{.a = floats<T>(s)});
  const unsigned g = threadIdx.x / 4;
  for (unsigned k = 0; k < 16; ++k) {
    d[0] += a_at(lanes, g, k);
    d[1] += a_at(lanes, g + 8, k);
  }
}

}  // namespace mma
}  // namespace flashinfer
