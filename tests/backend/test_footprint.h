// A footprint with simple sizes, and a backend that writes all that an op may write and reads all
// that it may read: tests check where views and workspaces lie, not their contents.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/backend.h"
#include "backend/op_fields.h"

namespace plimsoll::testing {

class TestFootprint final : public backend::Footprint {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  [[nodiscard]] DType activation_dtype(DType model) const override { return model; }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override {
    return static_cast<size_t>(spec.elements()) * dtype_size(dtype);
  }
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override {
    return static_cast<size_t>(2 * spec.kv_heads * spec.head_dim * block_size) * dtype_size(dtype);
  }
  [[nodiscard]] size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                        DType) const override {
    return static_cast<size_t>(rows * spec.columns());
  }
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType) const override {
    return static_cast<size_t>(rows * mlp.experts_per_token * (3 * mlp.intermediate + hidden)) * 4;
  }
  [[nodiscard]] size_t attention_workspace(int64_t rows, int64_t sequences,
                                           const model::AttentionSpec& spec) const override {
    return static_cast<size_t>((rows + sequences) * spec.heads * spec.head_dim) * 4;
  }
};

inline const TestFootprint kFootprint;

class TouchingBackend : public backend::Backend {
 public:
  using Backend::Backend;
  using View = backend::View;
  using Weight = backend::Weight;

 protected:
  void dispatch(backend::ops::AnyOp any, std::span<std::byte> workspace) override {
    std::ranges::fill(workspace, std::byte{1});
    std::visit([this](const auto* op) { touch(*op); }, any);
  }
  void do_load_weight(const Weight& weight, const backend::RowReader& read) override {
    read(0, weight.spec->matrices() * weight.spec->rows(), weight.data);
  }
  const float* do_host_logits(View logits, std::span<float>) override {
    return static_cast<const float*>(logits.data);
  }

 private:
  template <typename Op>
  void touch(const Op& op) {
    touch_others(op);
    for_each_view(op, [this](View view) { sum(view); });
    if constexpr (requires { op.residual; }) write(op.residual);
    write(backend::ops::written(op));
  }
  /// Rows and blocks that a batch names, and choices of experts.
  template <typename Op>
  void touch_others(const Op&) {}
  void touch_others(const backend::ops::Embed& op) {
    for (const int32_t id : op.batch->token_ids) sum(row_of(op.table, id));
  }
  void touch_others(const backend::ops::EmbedPositions& op) {
    for (const int32_t position : op.batch->positions) sum(row_of(op.table, position + op.offset));
  }
  void touch_others(const backend::ops::RopeAndStore& op) {
    const backend::BatchMeta& batch = *op.batch;
    const backend::KvLayer& cache = op.cache;
    const auto tables = batch.block_tables[static_cast<size_t>(cache.group)];
    for (size_t row = 0; row < batch.positions.size(); ++row) {
      const int64_t entry =
          batch.row_sequence[row] * batch.table_stride + batch.positions[row] / cache.block_size;
      const int32_t block = tables[static_cast<size_t>(entry)];
      std::memset(cache.pool + static_cast<size_t>(block) * cache.block_stride + cache.layer_offset,
                  1, footprint().kv_bytes(*op.spec, cache.block_size, cache.dtype));
    }
  }
  void touch_others(const backend::ops::Route& op) {
    write(op.routing.experts);
    write(op.routing.weights);
  }
  void touch_others(const backend::ops::GatherRows& op) {
    for (const int32_t row : op.batch->logits_rows) sum(op.in.slice_rows(row, 1));
  }
  static View row_of(const Weight& table, int64_t row) {
    return View{table.data, table.dtype, table.spec->rows(), table.spec->columns(),
                table.spec->columns()}
        .slice_rows(row, 1);
  }
  static void write(View view) {
    for (int64_t row = 0; row < view.rows; ++row) {
      const View one = view.slice_rows(row, 1);
      std::memset(one.data, 0, static_cast<size_t>(one.columns) * dtype_size(one.dtype));
    }
  }
  void sum(View view) {
    for (int64_t row = 0; row < view.rows; ++row) {
      const View one = view.slice_rows(row, 1);
      const auto* bytes = static_cast<const unsigned char*>(one.data);
      seen_ = std::accumulate(
          bytes, bytes + static_cast<size_t>(one.columns) * dtype_size(one.dtype), seen_);
    }
  }
  uint64_t seen_ = 0;
};

}  // namespace plimsoll::testing
