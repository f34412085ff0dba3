// Peak rates of a device, measured, to compare its benchmarks with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace plimsoll::testing {

/// Seconds of one call of `work`, which enqueues: the median of five runs of `repeats` calls, after
/// one that is not counted.
double seconds_of(cudaStream_t stream, int repeats, const std::function<void()>& work);

/// Reads memory; `never` is one number that is not written.
void enqueue_read(const void* memory, size_t bytes, unsigned* never, cudaStream_t stream);
/// Bytes per second of a kernel that reads `bytes` of memory and writes nothing.
double read_rate(const void* memory, size_t bytes, cudaStream_t stream);

/// Operations per second of a bf16 matrix product [n, n] x [n, n] by cuBLASLt, f32 sums. `memory`
/// has room for three of them and 32 MiB.
double product_rate(std::byte* memory, int64_t n, cudaStream_t stream);
constexpr size_t product_rate_bytes(int64_t n) {
  return static_cast<size_t>(3 * n * n) * 2 + (size_t{32} << 20);
}

}  // namespace plimsoll::testing
