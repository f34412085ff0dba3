// FlashInfer's kernel for Hopper on the host, in double precision, over its works: the same tiles,
// bounds, masks and predicates in the same order (names as in attention/hopper/ sparse_mainloop.cuh
// and mainloop_mma.cuh, as cmake/flashinfer_hopper.cmake changes them), one row after the other in
// place of warp groups. It proves works, paging and masks, not the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "backend/cuda/flash_twin.h"
#include "backend/cuda/hopper_plan.h"

namespace plimsoll::reference {

class HopperTwin {
 public:
  HopperTwin(const TwinInput& input, const backend::cuda::HopperWorks& works)
      : in_(input),
        works_(works),
        tile_(backend::cuda::hopper_tile(input.spec.head_dim)),
        out_(static_cast<size_t>(input.query_start.back() * input.spec.heads * input.spec.head_dim),
             FlashTwin::kUnwritten) {}

  /// Outputs [T, heads * head_dim] of all works; other outputs are FlashTwin::kUnwritten.
  const std::vector<double>& run(int64_t blocks) {
    for (int64_t block = 0; block < blocks; ++block)
      for (int32_t at = works_.start[block]; at < works_.start[block + 1]; ++at) {
        piece_ = works_.piece(at);
        for (int row = 0; row < tile_.rows; ++row) {
          const int qo_idx = piece_.tile * tile_.rows + row;
          if (qo_idx < piece_.rows) mma(qo_idx);
        }
      }
    return out_;
  }

 private:
  static int ceil_div(int a, int b) { return (a + b - 1) / b; }
  enum class Mask : uint8_t { first, diagonal, none, window };

  /// One row of mma_f16 (mainloop_mma.cuh).
  void mma(int qo_idx) {
    const int kv_len = piece_.context, qo_len = piece_.rows;
    const bool windowed = in_.spec.window > 0;
    const int window_left = static_cast<int>(in_.spec.window) - 1;
    const int tile_position = piece_.tile * tile_.rows + kv_len - qo_len;
    const int count = std::min(ceil_div(kv_len, tile_.tokens),
                               ceil_div(tile_position + tile_.rows, tile_.tokens));
    kv_first_ = windowed ? std::max(tile_position - window_left, 0) : 0;
    const int swa_begin = kv_first_ / tile_.tokens;
    const int swa_end =
        windowed ? std::max((tile_position + tile_.rows - window_left) / tile_.tokens, -1) : -1;
    last_tile_ = count - 1;
    sum_ = 0;
    o_.assign(static_cast<size_t>(in_.spec.head_dim), 0.0);
    int kv_tile = count - 1;
    update(qo_idx, kv_tile, Mask::first, windowed);
    for (int step = 0; step < ceil_div(tile_.rows, tile_.tokens) && kv_tile > swa_begin; ++step)
      update(qo_idx, --kv_tile, Mask::diagonal, windowed);
    while (kv_tile > swa_end + 1) update(qo_idx, --kv_tile, Mask::none, windowed);
    while (windowed && kv_tile > swa_begin) update(qo_idx, --kv_tile, Mask::window, windowed);
    if (kv_tile != swa_begin) throw std::logic_error("Hopper twin: tiles are left out");
    write(qo_idx);
  }

  /// OnlineSoftmax::update over one KV tile, and V's product.
  void update(int qo_idx, int kv_tile, Mask mask, bool windowed) {
    const int limit_right = qo_idx + 1 + piece_.context - piece_.rows;
    const int limit_left = limit_right - static_cast<int>(in_.spec.window);
    const double scale_log2 = double(in_.spec.scale) * std::numbers::log2e;
    std::vector<double> scores(static_cast<size_t>(tile_.tokens));
    for (int i = 0; i < tile_.tokens; ++i) {
      const int kv_idx = kv_tile * tile_.tokens + i;
      double score = dot(qo_idx, kv_idx, kv_tile);
      const bool right = mask == Mask::first || mask == Mask::diagonal;
      if (right && kv_idx >= limit_right) score = kFill;
      if (mask == Mask::first && kv_idx >= piece_.context) score = kFill;
      if (windowed && mask != Mask::none && kv_idx < limit_left) score = kFill;
      scores[static_cast<size_t>(i)] = score;
    }
    const double best = *std::ranges::max_element(scores);
    const double before = max_;
    max_ = mask == Mask::first ? best : std::max(before, best);
    const double shrink = mask == Mask::first ? 0.0 : std::exp2((before - max_) * scale_log2);
    sum_ *= shrink;
    for (double& x : o_) x *= shrink;
    for (int i = 0; i < tile_.tokens; ++i) {
      const double weight = std::exp2((scores[static_cast<size_t>(i)] - max_) * scale_log2);
      sum_ += weight;
      add(kv_tile * tile_.tokens + i, kv_tile, weight);
    }
  }

  /// True when a producer reads a position, false when it fills in zeros: past the end in the last
  /// tile alone.
  [[nodiscard]] bool is_read(int kv_idx, int kv_tile) const {
    if (kv_tile == last_tile_ && kv_idx >= piece_.context) return false;
    return kv_idx >= kv_first_;
  }

  [[nodiscard]] size_t element(int kv_idx) const {
    const auto page_size = static_cast<int>(in_.page_size);
    const auto d = static_cast<size_t>(in_.spec.head_dim);
    const int32_t page = in_.block_table.at(static_cast<size_t>(piece_.entry + kv_idx / page_size));
    if (page < 0) throw std::logic_error("Hopper twin: reads a block that is not there");
    const auto kv_head = static_cast<size_t>(piece_.head / (in_.spec.heads / in_.spec.kv_heads));
    return static_cast<size_t>(page) * in_.stride_page +
           (kv_head * in_.page_size + static_cast<size_t>(kv_idx % page_size)) * d;
  }

  [[nodiscard]] double dot(int qo_idx, int kv_idx, int kv_tile) const {
    if (!is_read(kv_idx, kv_tile)) return 0;
    const auto d = static_cast<size_t>(in_.spec.head_dim);
    const double* q = in_.q.data() + static_cast<size_t>(piece_.first_row + qo_idx) * in_.q_stride +
                      static_cast<size_t>(piece_.head) * d;
    const double* k = in_.pool.data() + in_.k_data + element(kv_idx);
    double sum = 0;
    for (size_t c = 0; c < d; ++c) sum += q[c] * k[c];
    return sum;
  }

  void add(int kv_idx, int kv_tile, double weight) {
    if (!is_read(kv_idx, kv_tile)) return;  // weight times zero
    const double* v = in_.pool.data() + in_.v_data + element(kv_idx);
    for (size_t c = 0; c < o_.size(); ++c) o_[c] += weight * v[c];
  }

  void write(int qo_idx) {
    const size_t row = static_cast<size_t>(piece_.first_row + qo_idx);
    const auto heads = static_cast<size_t>(in_.spec.heads);
    for (size_t c = 0; c < o_.size(); ++c) {
      double& x = out_.at((row * heads + static_cast<size_t>(piece_.head)) * o_.size() + c);
      if (x != FlashTwin::kUnwritten) throw std::logic_error("Hopper twin: written twice");
      x = o_[c] / sum_;
    }
  }

  static constexpr double kFill = -1e8;  // HopperSoftmax

  const TwinInput& in_;
  const backend::cuda::HopperWorks& works_;
  backend::cuda::HopperTile tile_;
  std::vector<double> out_, o_;
  backend::cuda::HopperPiece piece_;
  double max_ = 0, sum_ = 0;
  int kv_first_ = 0, last_tile_ = 0;
};

}  // namespace plimsoll::reference
