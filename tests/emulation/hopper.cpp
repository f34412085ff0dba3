// The table of attention kernels for prefill on Hopper in emulation. Nothing here runs wgmma:
// stand-ins compute what the works say, in double precision, so that what the host hands to the
// kernels is tested.
#include <algorithm>
#include <cmath>
#include <vector>

#include "emulation/emulator.h"
#include "kernels/attention/hopper_kernel.h"
#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {
namespace {

/// One query row and head of a piece.
template <typename T>
void attend_row(const HopperArguments& a, const HopperPiece& piece, int64_t row, int64_t head_dim) {
  const int64_t position = piece.context - piece.rows + row;
  const int64_t first = a.window_left < 0 ? 0 : std::max<int64_t>(0, position - a.window_left);
  const int64_t t = piece.first_row + row;
  const T* q = static_cast<const T*>(a.q) + t * a.q_stride + piece.head * head_dim;
  const int64_t kv_head = piece.head / (a.heads / a.kv_heads);
  const auto offset = [&](int64_t p) {
    const int32_t block = a.block_table[piece.entry + p / a.block_size];
    return block * a.block_stride + (kv_head * a.block_size + p % a.block_size) * head_dim;
  };
  std::vector<double> scores, sum(static_cast<size_t>(head_dim), 0.0);
  for (int64_t p = first; p <= position; ++p) {
    const T* k = static_cast<const T*>(a.k) + offset(p);
    double score = 0;
    for (int64_t c = 0; c < head_dim; ++c) score += double(to_float(q[c])) * double(to_float(k[c]));
    scores.push_back(score * double(a.scale));
  }
  const double most = *std::ranges::max_element(scores);
  double weights = 0;
  for (int64_t p = first; p <= position; ++p) {
    const T* v = static_cast<const T*>(a.v) + offset(p);
    const double weight = std::exp(scores[static_cast<size_t>(p - first)] - most);
    weights += weight;
    for (int64_t c = 0; c < head_dim; ++c)
      sum[static_cast<size_t>(c)] += weight * double(to_float(v[c]));
  }
  T* out = static_cast<T*>(a.out) + (t * a.heads + piece.head) * head_dim;
  for (int64_t c = 0; c < head_dim; ++c)
    out[c] = from_float<T>(static_cast<float>(sum[static_cast<size_t>(c)] / weights));
}

template <typename T, int head_dim>
void stand_in(const HopperArguments& a, int64_t blocks, cudaStream_t stream) {
  ++emulation::launches;
  emulation::submit(stream, [a, blocks] {
    constexpr int kRows = hopper_tile(head_dim).rows;
    for (int32_t at = 0; at < a.works.start[blocks]; ++at) {
      const HopperPiece piece = a.works.piece(at);
      const int64_t end = std::min<int64_t>(piece.rows, int64_t{piece.tile + 1} * kRows);
      for (int64_t row = int64_t{piece.tile} * kRows; row < end; ++row)
        attend_row<T>(a, piece, row, head_dim);
    }
  });
}

cudaError_t nothing() {
  return cudaSuccess;
}

}  // namespace

std::span<const HopperUnit> hopper_units() {
  static const std::vector<HopperUnit> units = {
      {DType::bf16, 64, nothing, stand_in<__nv_bfloat16, 64>},
      {DType::bf16, 128, nothing, stand_in<__nv_bfloat16, 128>},
      {DType::bf16, 256, nothing, stand_in<__nv_bfloat16, 256>},
      {DType::f16, 64, nothing, stand_in<__half, 64>},
      {DType::f16, 128, nothing, stand_in<__half, 128>},
      {DType::f16, 256, nothing, stand_in<__half, 256>}};
  return units;
}

}  // namespace plimsoll::kernels
