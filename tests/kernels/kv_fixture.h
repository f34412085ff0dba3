// Batches with paged caches for the tests of kernels.
#pragma once

#include <cuda_fp8.h>

#include <memory>

#include "kernels/attention/flash_attention.h"
#include "kernels/fixture.h"
#include "kernels/runtime/device_batch.h"

namespace plimsoll::testing {

/// A value as the cache keeps it, divided by a scale that float8 has.
inline double stored_in(double value, DType cache, float scale = 1) {
  if (cache != DType::f8_e4m3) return rounded(value, cache);
  const __nv_fp8_e4m3 narrow(static_cast<float>(value) / scale);
  return static_cast<double>(static_cast<float>(narrow) * scale);
}

struct SequenceCase {
  int64_t rows;     // of this step
  int64_t context;  // with them
};

/// A batch on the device, with as many padding rows behind it, and a cache whose blocks lie in no
/// order.
class KvFixture {
 public:
  KvFixture(const std::vector<SequenceCase>& sequences, const model::AttentionSpec& spec,
            DType cache, int64_t block_size, int64_t padding)
      : spec_(spec), dtype_(cache), block_size_(block_size) {
    for (const SequenceCase& s : sequences) {
      stride_ = std::max(stride_, (s.context + block_size - 1) / block_size + 1);
      for (int64_t i = 0; i < s.rows; ++i) {
        row_sequence.push_back(static_cast<int32_t>(context.size()));
        positions.push_back(static_cast<int32_t>(s.context - s.rows + i));
      }
      query_start.push_back(static_cast<int32_t>(positions.size()));
      context.push_back(static_cast<int32_t>(s.context));
      long_rope.push_back(context.size() % 2 == 0 ? 1 : 0);
    }
    for (int64_t i = 0; i < padding; ++i) {
      row_sequence.push_back(-1);
      positions.push_back(0);
      query_start.push_back(static_cast<int32_t>(positions.size()));
      context.push_back(0);
      long_rope.push_back(0);
    }
    make_blocks();
    upload();
  }

  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(positions.size()); }
  [[nodiscard]] const kernels::DeviceBatch& batch() const { return batch_; }
  [[nodiscard]] const backend::KvLayer& layer() const { return layer_; }
  [[nodiscard]] const std::vector<int32_t>& table() const { return table_; }  // the layer's group's

  /// The attention over this batch, as planned into `slab`.
  [[nodiscard]] kernels::PagedLayer paged_layer(const kernels::FlashPlanner& planner,
                                                const DeviceBytes& slab, const View& q,
                                                const View& out) const {
    return {.plan = &planner,
            .slab = static_cast<const std::byte*>(slab.data()),
            .q = q.data,
            .q_stride = q.stride,
            .out = out.data,
            .kv = layer_.pool + layer_.layer_offset,
            .block_stride = layer_.block_stride,
            .block_size = layer_.block_size,
            .block_table = batch_.block_tables[1],
            .query_start = batch_.query_start,
            .context_length = batch_.context_length};
  }

  /// Fills the cache with K and V [context, K d] of each sequence.
  void fill(const std::vector<Matrix>& keys, const std::vector<Matrix>& values) {
    std::vector<std::byte> pool(pool_->size(), std::byte{0xff});
    for (size_t s = 0; s < keys.size(); ++s)
      for (int64_t p = 0; p < keys[s].rows; ++p)
        for (int64_t i = 0; i < keys[s].columns; ++i) {
          if (table_[s * static_cast<size_t>(stride_) + static_cast<size_t>(p / block_size_)] < 0)
            continue;
          const backend::CacheScales scales = layer_.scales(spec_);
          put(pool, s, p, i, 0, keys[s].at(p, i) / scales.key);
          if (spec_.has_values) put(pool, s, p, i, 1, values[s].at(p, i) / scales.value);
        }
    pool_->upload(pool.data());
  }
  /// K (0) or V (1) of a sequence as the cache stores them: [context, K d].
  [[nodiscard]] Matrix read(size_t sequence, int which) const {
    std::vector<std::byte> pool(pool_->size());
    pool_->download(pool.data());
    Matrix result(context[sequence], spec_.kv_heads * spec_.head_dim);
    const backend::CacheScales scales = layer_.scales(spec_);
    const double scale = which == 0 ? scales.key : scales.value;
    for (int64_t p = 0; p < result.rows; ++p)
      for (int64_t i = 0; i < result.columns; ++i)
        result.at(p, i) = scale * get(pool.data() + offset(sequence, p, i, which));
    return result;
  }
  /// Frees blocks that lie wholly before a window: they become -1 in the table.
  void drop_before(size_t sequence, int64_t position) {
    for (int64_t i = 0; i < position / block_size_; ++i)
      table_[sequence * static_cast<size_t>(stride_) + static_cast<size_t>(i)] = -1;
    upload();
  }

  /// Lets rows see to the end of their block of `positions_of_block` positions.
  void see_blocks(int64_t positions_of_block) {
    for (size_t t = 0; t < positions.size(); ++t) {
      const int64_t block = positions[t] / positions_of_block;
      const int32_t length =
          row_sequence[t] < 0 ? 1 : context[static_cast<size_t>(row_sequence[t])];
      seen_end.push_back(std::min(length, static_cast<int32_t>((block + 1) * positions_of_block)));
    }
    upload();
  }
  /// `seen_end` of a sequence's rows.
  [[nodiscard]] std::vector<int32_t> seen_end_of(size_t sequence) const {
    if (seen_end.empty()) return {};
    return {seen_end.begin() + query_start[sequence], seen_end.begin() + query_start[sequence + 1]};
  }

  std::vector<int32_t> positions, row_sequence, query_start{0}, context;
  std::vector<int32_t> seen_end;  // empty: rows see up to themselves
  std::vector<uint8_t> long_rope;

 private:
  void make_blocks() {
    table_.assign(context.size() * static_cast<size_t>(stride_), -1);
    int32_t blocks = 1;  // block 0 is nobody's
    for (int64_t i = stride_ - 1; i >= 0; --i)
      for (size_t s = 0; s < context.size(); ++s)
        if (i * block_size_ < context[s])
          table_[s * static_cast<size_t>(stride_) + static_cast<size_t>(i)] = blocks++;
    layer_bytes_ = static_cast<size_t>(spec_.stored_heads() * block_size_ * spec_.head_dim) *
                   dtype_size(dtype_);
    pool_ = std::make_unique<DeviceBytes>(static_cast<size_t>(blocks) * 2 * layer_bytes_);
    layer_ = {.pool = static_cast<std::byte*>(pool_->data()),
              .block_stride = 2 * layer_bytes_,  // two layers, of which this is the second
              .layer_offset = layer_bytes_,
              .dtype = dtype_,
              .block_size = block_size_,
              .group = 1,
              .blocks = blocks};
  }
  void upload() {
    // Kept until the end, because cases may use an earlier batch.
    const auto keep = [&](const auto& values) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      auto array = std::make_shared<DeviceArray<T>>(values);
      kept_.push_back(array);
      return array->data();
    };
    batch_.positions = keep(positions);
    batch_.row_sequence = keep(row_sequence);
    batch_.query_start = keep(query_start);
    batch_.context_length = keep(context);
    batch_.long_rope = keep(long_rope);
    if (!seen_end.empty()) batch_.seen_end = keep(seen_end);
    batch_.block_tables[1] = keep(table_);
    batch_.table_stride = stride_;
    batch_.rows = rows();
    batch_.sequences = static_cast<int64_t>(context.size());
  }
  [[nodiscard]] size_t offset(size_t s, int64_t p, int64_t i, int which) const {
    const int64_t d = spec_.head_dim;
    const auto block =
        table_[s * static_cast<size_t>(stride_) + static_cast<size_t>(p / block_size_)];
    const int64_t element =
        ((which * spec_.kv_heads + i / d) * block_size_ + p % block_size_) * d + i % d;
    return static_cast<size_t>(block) * layer_.block_stride + layer_.layer_offset +
           static_cast<size_t>(element) * dtype_size(dtype_);
  }
  void put(std::vector<std::byte>& pool, size_t s, int64_t p, int64_t i, int which,
           double value) const {
    std::byte* to = pool.data() + offset(s, p, i, which);
    if (dtype_ != DType::f8_e4m3) return convert(&value, DType::f64, to, dtype_, 1);
    const __nv_fp8_e4m3 narrow(static_cast<float>(value));
    std::memcpy(to, &narrow, 1);
  }
  [[nodiscard]] double get(const std::byte* from) const {
    if (dtype_ == DType::f8_e4m3) {
      __nv_fp8_e4m3 narrow;
      std::memcpy(&narrow, from, 1);
      return static_cast<double>(static_cast<float>(narrow));
    }
    double value = 0;
    convert(from, dtype_, &value, DType::f64, 1);
    return value;
  }

  model::AttentionSpec spec_;
  DType dtype_;
  int64_t block_size_;
  int64_t stride_ = 1;
  size_t layer_bytes_ = 0;
  std::vector<int32_t> table_;
  std::unique_ptr<DeviceBytes> pool_;
  backend::KvLayer layer_;
  kernels::DeviceBatch batch_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace plimsoll::testing
