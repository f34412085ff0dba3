// Stands in for CUDA's header where kernels are compiled for the emulator: the language's
// built-ins, and the functions of the runtime that this project calls. Streams run at once, events
// are times of the host.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"
#include "emulation/emulator.h"

// ---- the language ----

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) alignas(n)
#define __grid_constant__
#define __constant__

inline constexpr int warpSize = 32;
inline const plimsoll::emulation::Size3& threadIdx = plimsoll::emulation::current.thread;
inline const plimsoll::emulation::Size3& blockIdx = plimsoll::emulation::current.block;
inline const plimsoll::emulation::Size3& blockDim = plimsoll::emulation::block_size;
inline const plimsoll::emulation::Size3& gridDim = plimsoll::emulation::grid_size;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

using EmulationSite = plimsoll::emulation::Site;

inline void __syncthreads(EmulationSite site = EmulationSite::current()) {
  plimsoll::emulation::block_barrier(false, site);
}
inline int __syncthreads_or(int vote, EmulationSite site = EmulationSite::current()) {
  return plimsoll::emulation::block_barrier(vote != 0, site).any ? 1 : 0;
}
inline int __syncthreads_and(int vote, EmulationSite site = EmulationSite::current()) {
  return plimsoll::emulation::block_barrier(vote != 0, site).all ? 1 : 0;
}
inline int __syncthreads_count(int vote, EmulationSite site = EmulationSite::current()) {
  return plimsoll::emulation::block_barrier(vote != 0, site).count;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, EmulationSite site = EmulationSite::current()) {
  plimsoll::emulation::warp_together(plimsoll::emulation::WarpOp::sync, mask, 0, 0, site);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

/// The lane that a shuffle reads; its own where that lies outside the part of `width` lanes.
template <typename T>
T emulated_shuffle(unsigned mask, T value, unsigned source, EmulationSite site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = plimsoll::emulation::warp_together(plimsoll::emulation::WarpOp::shuffle, mask, bits,
                                            source, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              EmulationSite site = EmulationSite::current()) {
  const unsigned lane = plimsoll::emulation::lane();
  const auto part = static_cast<unsigned>(width);
  return emulated_shuffle(mask, value, lane / part * part + static_cast<unsigned>(source) % part,
                          site);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  EmulationSite site = EmulationSite::current()) {
  const unsigned lane = plimsoll::emulation::lane();
  const auto part = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(lanes);
  return emulated_shuffle(mask, value, from / part > lane / part ? lane : from, site);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   EmulationSite site = EmulationSite::current()) {
  const unsigned lane = plimsoll::emulation::lane();
  const auto part = static_cast<unsigned>(width);
  return emulated_shuffle(mask, value, lane % part + delta < part ? lane + delta : lane, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 EmulationSite site = EmulationSite::current()) {
  const unsigned lane = plimsoll::emulation::lane();
  const auto part = static_cast<unsigned>(width);
  return emulated_shuffle(mask, value, lane % part >= delta ? lane - delta : lane, site);
}
inline unsigned __ballot_sync(unsigned mask, int vote,
                              EmulationSite site = EmulationSite::current()) {
  return static_cast<unsigned>(plimsoll::emulation::warp_together(
      plimsoll::emulation::WarpOp::ballot, mask, vote != 0 ? 1 : 0, 0, site));
}
inline int __any_sync(unsigned mask, int vote, EmulationSite site = EmulationSite::current()) {
  return __ballot_sync(mask, vote, site) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int vote, EmulationSite site = EmulationSite::current()) {
  return __ballot_sync(mask, vote, site) == mask ? 1 : 0;
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, EmulationSite site = EmulationSite::current()) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return static_cast<unsigned>(
      plimsoll::emulation::warp_together(plimsoll::emulation::WarpOp::match, mask, bits, 0, site));
}

/// The values of all 32 lanes, by one barrier of the warp in place of a shuffle for each. Two
/// buffers take turns: a lane may write its next value while others still read the one before.
template <typename T>
const std::array<T, 32>& emulated_lanes(const T& mine,
                                        EmulationSite site = EmulationSite::current()) {
  static std::array<std::array<std::array<T, 32>, plimsoll::emulation::kMaxThreads / 32>, 2>
      buffers;
  const unsigned thread = plimsoll::emulation::thread();
  auto& values = buffers[plimsoll::emulation::next_buffer()][thread / 32];
  values[thread % 32] = mine;
  __syncwarp(0xffffffffu, site);
  return values;
}

template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T __ldcs(const T* at) {
  return *at;
}
template <typename T>
void __stcs(T* at, T value) {
  *at = value;
}

template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, static_cast<T>(*at + value));
}
template <typename T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::max(*at, value));
}
template <typename T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::min(*at, value));
}

template <typename T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
/// Four of the eight bytes of `low` and `high`, each named by four bits, of which the highest asks
/// for the byte's sign in all of its bits.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned which = selector >> 4 * i & 15;
    const auto byte = static_cast<unsigned>(bytes >> 8 * (which & 7) & 0xff);
    result |= (which < 8 ? byte : (byte & 0x80) != 0 ? 0xffu : 0u) << 8 * i;
  }
  return result;
}
inline float rsqrtf(float x) {
  return 1.f / std::sqrt(x);
}
inline void sincospif(float x, float* s, float* c) {
  *s = static_cast<float>(std::sin(static_cast<double>(x) * 3.14159265358979323846));
  *c = static_cast<float>(std::cos(static_cast<double>(x) * 3.14159265358979323846));
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline unsigned long long __double2ull_rd(double x) {
  return static_cast<unsigned long long>(x);
}
inline unsigned long long __float2ull_rn(float x) {
  return static_cast<unsigned long long>(std::nearbyint(static_cast<double>(x)));
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}

// ---- launches ----

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct cudaLaunchAttributeValue {
  int programmaticStreamSerializationAllowed;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace plimsoll::emulation {
/// Runs work now, or keeps it for the graph that the stream is capturing.
void submit(cudaStream_t stream, std::function<void()> work);
void submit(cudaStream_t stream, Kernel kernel);
/// cudaErrorInvalidValue: kernels are launched in streams of the current device alone.
cudaError_t check_device(cudaStream_t stream);
/// cudaErrorInvalidValue: more shared memory than the function was allowed.
cudaError_t check_shared(const void* function, size_t bytes);
}  // namespace plimsoll::emulation

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using namespace plimsoll::emulation;
  const cudaError_t allowed =
      check_shared(reinterpret_cast<const void*>(kernel), config->dynamicSmemBytes);
  if (allowed != cudaSuccess) return allowed;
  const cudaError_t here = check_device(config->stream);
  if (here != cudaSuccess) return here;
  const dim3 grid = config->gridDim;
  const dim3 block = config->blockDim;
  const auto values = std::make_shared<std::tuple<std::decay_t<Parameters>...>>(
      std::forward<Arguments>(arguments)...);
  const auto places = [](auto&... each) { return std::vector<void*>{&each...}; };
  submit(config->stream, Kernel{.grid = {grid.x, grid.y, grid.z},
                                .block = {block.x, block.y, block.z},
                                .shared_bytes = config->dynamicSmemBytes,
                                .code = [kernel, values] { std::apply(kernel, *values); },
                                .overlaps = config->numAttrs == 1,
                                .function = reinterpret_cast<const void*>(kernel),
                                .arguments = std::apply(places, *values),
                                .keeps_them = values});
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <typename T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, T* function) {
  return cudaFuncGetAttributes(to, reinterpret_cast<const void*>(function));
}
