// FlashInfer's kernel on the host, in double precision, over a plan: the same index arithmetic (in
// uint32, names as in attention/prefill.cuh), one element after the other in place of tensor cores.
// It proves the plan, the paging and the masks, not the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend/cuda/flash_plan.h"
#include "model/model_spec.h"

namespace plimsoll::reference {

/// One layer of a paged cache and a step's queries. What a kernel must not read is NaN.
struct TwinInput {
  model::AttentionSpec spec;
  std::vector<double> q;  // [T, q_stride]
  uint32_t q_stride = 0;
  std::vector<double> pool;  // elements, all layers
  size_t k_data = 0, v_data = 0;
  uint32_t stride_page = 0;
  uint32_t page_size = 16;
  std::vector<int32_t> block_table;
  std::vector<int32_t> query_start, context_length;
  std::vector<int32_t> seen_end;  // [T] what rows see (FlashSight::by_row), or none
  bool sees_all = false;          // FlashSight::all
};

/// KV tile of each kind of launch, in tokens.
struct TwinTiles {
  uint32_t split16 = 128, split64 = 64, direct64 = 64, direct128 = 64;
};

class FlashTwin {
 public:
  FlashTwin(const TwinInput& input, const backend::cuda::FlashPlanner& planner,
            std::span<const std::byte> slab, const backend::cuda::FlashLimits& limits,
            TwinTiles tiles)
      : in_(input),
        planner_(planner),
        slab_(slab.data()),
        tiles_(tiles),
        out_(static_cast<size_t>(input.query_start.back()) * row_size(), kUnwritten),
        partial_rows_(backend::cuda::flash_partial_rows(limits, planner.shape())) {}

  /// Outputs [T, heads * head_dim]. Throws where an output is left out or written twice: `others`
  /// has the outputs of another kernel (HopperTwin), or is empty.
  const std::vector<double>& run(const std::vector<double>& others = {}) {
    for (const backend::cuda::FlashLaunch& launch : planner_.launches()) {
      launch_ = launch;
      partial_.assign(static_cast<size_t>(partial_rows_) * row_size(), kUnwritten);
      lse_.assign(static_cast<size_t>(partial_rows_ * in_.spec.heads), kUnwritten);
      for (uint32_t bx = 0; bx < launch.items; ++bx)
        for (uint32_t head = 0; head < in_.spec.kv_heads; ++head) block(bx, head);
      if (is_split(launch.kind)) merge();
    }
    for (size_t i = 0; i < others.size(); ++i) {
      if (others[i] == kUnwritten) continue;
      if (out_[i] != kUnwritten) throw std::logic_error("twin: written by two kernels");
      out_[i] = others[i];
    }
    for (const double x : out_)
      if (x == kUnwritten) throw std::logic_error("twin: an output was never written");
    return out_;
  }

  static constexpr double kUnwritten = -12345.5;

 private:
  static constexpr double kInf = 1e30;  // flash_math.cuh

  [[nodiscard]] size_t row_size() const {
    return static_cast<size_t>(in_.spec.heads * in_.spec.head_dim);
  }
  [[nodiscard]] const int32_t* ints(size_t offset) const {
    return reinterpret_cast<const int32_t*>(slab_ + offset);
  }
  static uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
  static uint32_t sub_if_greater_or_zero(uint32_t a, uint32_t b) { return a > b ? a - b : 0; }

  [[nodiscard]] uint32_t kv_tile() const {
    switch (launch_.kind) {
      case backend::cuda::FlashKind::split16:
        return tiles_.split16;
      case backend::cuda::FlashKind::split64:
        return tiles_.split64;
      case backend::cuda::FlashKind::direct64:
        return tiles_.direct64;
      default:
        return tiles_.direct128;
    }
  }

  /// Numbers of a block's piece.
  struct Piece {
    uint32_t request = 0, qo_tile_idx = 0, kv_tile_idx = 0, kv_head = 0;
    uint32_t qo_len = 0, kv_len = 0, window_left = 0;
    uint32_t chunk_start = 0, chunk_end = 0;
    uint32_t num_iterations = 0, window_iteration = 0, mask_iteration = 0;
    uint32_t num_kv_chunks = 0;
  };

  void block(uint32_t bx, uint32_t kv_head) {
    const auto& at = planner_.layout();
    const auto item = static_cast<size_t>(launch_.first_item) + bx;
    if (slab_[at.item_valid + item] == std::byte{0}) return;
    const uint32_t tile = static_cast<uint32_t>(backend::cuda::flash_tile(launch_.kind));
    const uint32_t group = static_cast<uint32_t>(in_.spec.heads / in_.spec.kv_heads);
    const bool partition_kv = is_split(launch_.kind);
    const auto kv_chunk_size = static_cast<uint32_t>(ints(at.chunk_tokens)[launch_.index]);
    Piece p;
    p.kv_head = kv_head;
    p.request = static_cast<uint32_t>(ints(at.item_sequence)[item]);
    p.qo_tile_idx = static_cast<uint32_t>(ints(at.item_tile)[item]);
    p.kv_tile_idx = static_cast<uint32_t>(ints(at.item_chunk)[item]);
    p.qo_len = static_cast<uint32_t>(in_.query_start[p.request + 1] - in_.query_start[p.request]);
    p.kv_len = static_cast<uint32_t>(in_.context_length[p.request]);
    p.window_left = in_.spec.window > 0 ? static_cast<uint32_t>(in_.spec.window - 1) : p.kv_len;
    const uint32_t kv_len_safe = p.kv_len > 0 ? p.kv_len : 1;
    const uint32_t kv_start_idx =
        sub_if_greater_or_zero(p.kv_len + (p.qo_tile_idx * tile) / group, p.qo_len + p.window_left);
    const uint32_t max_chunk_size = partition_kv ? kv_chunk_size : p.kv_len - kv_start_idx;
    p.chunk_start = partition_kv ? std::min(p.kv_tile_idx * max_chunk_size + kv_start_idx, p.kv_len)
                                 : kv_start_idx;
    p.chunk_end = partition_kv
                      ? std::min((p.kv_tile_idx + 1) * max_chunk_size + kv_start_idx, p.kv_len)
                      : p.kv_len;
    const uint32_t chunk_size = p.chunk_end - p.chunk_start;
    const uint32_t rows_end = ceil_div((p.qo_tile_idx + 1) * tile, group);
    const uint32_t rows_begin = ceil_div(p.qo_tile_idx * tile, group);
    const uint32_t cta_tile_kv = kv_tile();
    const bool causal = in_.seen_end.empty() && !in_.sees_all;
    p.num_iterations = ceil_div(
        causal ? std::min(chunk_size,
                          sub_if_greater_or_zero(p.kv_len - p.qo_len + rows_end, p.chunk_start))
               : chunk_size,
        cta_tile_kv);
    p.window_iteration = ceil_div(
        sub_if_greater_or_zero(p.kv_len + rows_end, p.qo_len + p.window_left + p.chunk_start),
        cta_tile_kv);
    const uint32_t unmasked = std::min(
        chunk_size, sub_if_greater_or_zero(p.kv_len + rows_begin - p.qo_len, p.chunk_start));
    p.mask_iteration = (in_.sees_all ? chunk_size : unmasked) / cta_tile_kv;
    p.num_kv_chunks = ceil_div(std::min(kv_len_safe, p.window_left + tile), kv_chunk_size);
    for (uint32_t packed = p.qo_tile_idx * tile; packed < (p.qo_tile_idx + 1) * tile; ++packed) {
      if (packed / group < p.qo_len) row(p, packed / group, kv_head * group + packed % group);
    }
  }

  /// Online softmax of one query row and head over the piece.
  void row(const Piece& p, uint32_t q_idx, uint32_t head) {
    const auto d = static_cast<size_t>(in_.spec.head_dim);
    const double cap = double(in_.spec.soft_cap);
    const double scale_log2 = (cap > 0 ? cap : double(in_.spec.scale)) * std::numbers::log2e;
    const size_t first = static_cast<size_t>(in_.query_start[p.request]) + q_idx;
    const double* q = in_.q.data() + first * in_.q_stride + head * d;
    double m = -kInf, sum = 1;
    std::vector<double> o(d, 0.0);
    const uint32_t cta_tile_kv = kv_tile();
    for (uint32_t iter = 0; iter < p.num_iterations; ++iter)
      for (uint32_t i = 0; i < cta_tile_kv; ++i) {
        const uint32_t r = iter * cta_tile_kv + i, kv_idx = p.chunk_start + r;
        const bool loaded = r < p.chunk_end - p.chunk_start;
        const size_t offset = loaded ? element(p, r) : 0;
        // Shared memory that was not loaded may hold anything.
        double s = loaded ? 0 : std::numeric_limits<double>::quiet_NaN();
        if (loaded)
          for (size_t c = 0; c < d; ++c) s += q[c] * in_.pool[in_.k_data + offset + c];
        if (cap > 0) s = std::tanh(s * double(in_.spec.scale) / cap);
        if (iter >= p.mask_iteration || iter < p.window_iteration) {
          const bool ahead = !in_.seen_end.empty()
                                 ? kv_idx >= static_cast<uint32_t>(in_.seen_end[first])
                                 : !in_.sees_all && kv_idx + p.qo_len > p.kv_len + q_idx;
          const bool seen =
              !(ahead || kv_idx >= p.chunk_end) &&
              (in_.spec.window == 0 || kv_idx + p.qo_len + p.window_left >= p.kv_len + q_idx);
          if (!seen) s = -kInf;
        }
        const double best = std::max(m, s);
        const double shrink = std::exp2(m * scale_log2 - best * scale_log2);
        const double weight = std::exp2(s * scale_log2 - best * scale_log2);
        m = std::isnan(s) ? s : best;
        sum = sum * shrink + weight;
        for (size_t c = 0; c < d; ++c) {
          o[c] = o[c] * shrink + weight * (loaded ? in_.pool[in_.v_data + offset + c] : 0.0);
        }
      }
    // The start value of d, 1, is scaled away by the first score; without a first score no key was
    // seen.
    const double inverse = m != -kInf ? 1 / sum : 0;
    if (m != -kInf) m *= scale_log2;
    write(p, q_idx, head, o, inverse, std::log2(sum) + m);
  }

  [[nodiscard]] size_t element(const Piece& p, uint32_t r) const {
    const uint32_t packed =
        static_cast<uint32_t>(ints(planner_.layout().page_start)[p.request]) * in_.page_size +
        p.chunk_start + r;
    const uint32_t page_iter = packed / in_.page_size, entry = packed % in_.page_size;
    const int32_t page = in_.block_table.at(page_iter);
    if (page < 0) throw std::logic_error("twin: reads a block that is not there");
    return static_cast<size_t>(page) * in_.stride_page +
           (static_cast<size_t>(p.kv_head) * in_.page_size + entry) *
               static_cast<size_t>(in_.spec.head_dim);
  }

  void write(const Piece& p, uint32_t q_idx, uint32_t head, const std::vector<double>& o,
             double inverse, double lse) {
    const bool split = is_split(launch_.kind);
    const auto heads = static_cast<size_t>(in_.spec.heads);
    const auto start =
        split ? ints(planner_.layout().partial_start)[p.request] : in_.query_start[p.request];
    const size_t to_row = split ? static_cast<size_t>(start) + p.kv_tile_idx +
                                      static_cast<size_t>(q_idx) * p.num_kv_chunks
                                : static_cast<size_t>(start) + q_idx;
    std::vector<double>& to = split ? partial_ : out_;
    for (size_t c = 0; c < o.size(); ++c) {
      double& x = to.at((to_row * heads + head) * o.size() + c);
      if (x != kUnwritten) throw std::logic_error("twin: written twice");
      x = o[c] * inverse;
    }
    if (split) lse_.at(to_row * heads + head) = lse;
  }

  /// flash_merge.cu
  void merge() {
    const auto& at = planner_.layout();
    const auto heads = static_cast<size_t>(in_.spec.heads);
    const auto d = static_cast<size_t>(in_.spec.head_dim);
    for (int64_t i = 0; i < launch_.merge_rows; ++i) {
      const int32_t* range = ints(at.merge_start) + launch_.first_merge + launch_.index + i;
      const auto to = static_cast<size_t>(ints(at.merge_row)[launch_.first_merge + i]);
      for (size_t h = 0; h < heads; ++h) {
        double best = -kInf, total = 0;
        for (auto r = static_cast<size_t>(range[0]); r < static_cast<size_t>(range[1]); ++r) {
          if (lse_.at(r * heads + h) == kUnwritten) throw std::logic_error("twin: not computed");
          best = std::max(best, lse_[r * heads + h]);
        }
        std::vector<double> sum(d, 0.0);
        for (auto r = static_cast<size_t>(range[0]); r < static_cast<size_t>(range[1]); ++r) {
          const double weight = std::exp2(lse_[r * heads + h] - best);
          total += weight;
          for (size_t c = 0; c < d; ++c) sum[c] += weight * partial_.at((r * heads + h) * d + c);
        }
        for (size_t c = 0; c < d; ++c) {
          double& x = out_.at((to * heads + h) * d + c);
          if (x != kUnwritten) throw std::logic_error("twin: merged twice");
          x = sum[c] / total;
        }
      }
    }
  }

  const TwinInput& in_;
  const backend::cuda::FlashPlanner& planner_;
  const std::byte* slab_;
  TwinTiles tiles_;
  std::vector<double> out_, partial_, lse_;
  int64_t partial_rows_;
  backend::cuda::FlashLaunch launch_;
};

}  // namespace plimsoll::reference
