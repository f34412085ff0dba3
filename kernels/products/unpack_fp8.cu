#include "kernels/products/unpack_fp8.h"

#include "base/rounding.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

using backend::cuda::kChunkInputs;
using backend::cuda::kStepInputs;
using backend::cuda::kStripRows;

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // lanes that share a row

struct Places {
  const unsigned char* codes;
  const float* scales;
  int64_t first, count, columns, groups, strip_codes, half_chunk;
  unsigned char* to;
  float* scales_to;
};

/// Four codes of a step lie in one word, the middle two the other way round.
__device__ inline uint32_t in_turn(uint32_t word) {
  return (word & 0xff0000ffu) | (word >> 8 & 0xff00u) | (word << 8 & 0xff0000u);
}

/// A block has a strip of 16 outputs.
__global__ void __launch_bounds__(kThreads) unpack_fp8_kernel(const __grid_constant__ Places p) {
  wait_for_previous();
  start_next();
  const int64_t strip = blockIdx.x;
  const int64_t chunks = divide_up(p.columns, kChunkInputs);
  const unsigned char* from = p.codes + (p.first / kStripRows + strip) * p.strip_codes;
  constexpr int64_t kWords = kStripRows * kChunkInputs / 4;  // of a chunk
  for (int64_t i = threadIdx.x; i < chunks * kWords; i += kThreads) {
    // A thread writes the four bytes beside those of the one before it.
    const int64_t row = i / (chunks * kChunkInputs / 4);
    const int64_t four = i % (chunks * kChunkInputs / 4);
    const int64_t chunk = four / (kChunkInputs / 4), step = four / kLanes % (kChunkInputs / 16);
    const int64_t lane = row % 8 * kLanes + four % kLanes;
    // Place among the lane's words, in pieces of four; half a chunk has half of them.
    const int64_t at = row / 8 * (chunk == p.half_chunk ? 4 : 8) + step;
    const int64_t word = at / 4 * 128 + lane * 4 + at % 4;
    const int64_t output = strip * kStripRows + row, input = four * 4;
    if (output >= p.count || input >= p.columns) continue;
    const uint32_t codes =
        reinterpret_cast<const uint32_t*>(from + chunk * kStripRows * kChunkInputs)[word];
    *reinterpret_cast<uint32_t*>(p.to + output * p.columns + input) = in_turn(codes);
  }
  if (p.scales_to == nullptr) return;
  const float* scales = p.scales + (p.first / kStripRows + strip) * p.groups * kStripRows;
  for (int64_t i = threadIdx.x; i < p.groups * kStripRows; i += kThreads) {
    const int64_t output = strip * kStripRows + i % kStripRows;
    if (output < p.count) p.scales_to[i / kStripRows * p.count + output] = scales[i];
  }
}

}  // namespace

void unpack_fp8(const UnpackFp8& op, cudaStream_t stream) {
  const backend::cuda::PackedMatrix& layout = op.part.layout;
  const auto* data = reinterpret_cast<const unsigned char*>(op.part.data);
  const Places places{.codes = data,
                      .scales = reinterpret_cast<const float*>(data + layout.scales),
                      .first = op.first,
                      .count = op.count,
                      .columns = layout.columns,
                      .groups = layout.groups,
                      .strip_codes = static_cast<int64_t>(layout.strip_codes),
                      .half_chunk = layout.half_chunk,
                      .to = op.codes,
                      .scales_to = op.scales};
  launch({.grid = dim3(static_cast<unsigned>(divide_up(op.count, kStripRows))),
          .block = dim3(kThreads),
          .stream = stream},
         "unpack_fp8", unpack_fp8_kernel, places);
}

}  // namespace plimsoll::kernels
