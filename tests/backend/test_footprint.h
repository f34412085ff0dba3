// A footprint with simple sizes, and a backend that writes all that an op may write and reads all
// that it may read: tests check where views and workspaces lie, not their contents.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/backend.h"

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
  void do_load_weight(const Weight& weight, const backend::RowReader& read) override {
    read(0, weight.spec->matrices() * weight.spec->rows(), weight.data);
  }
  void do_embed(View out, const Weight& table, const backend::BatchMeta& batch, float) override {
    write(out);
    for (const int32_t id : batch.token_ids) sum(row_of(table, id));
  }
  void do_embed_positions(View out, const Weight& table, const backend::BatchMeta& batch,
                          int64_t offset) override {
    write(out);
    for (const int32_t position : batch.positions) sum(row_of(table, position + offset));
  }
  void do_gather_rows(View out, View in, const backend::BatchMeta& batch) override {
    write(out);
    for (const int32_t row : batch.logits_rows) sum(in.slice_rows(row, 1));
  }
  void do_norm(View out, View in, const model::Norm&, const Weight&, const Weight&) override {
    sum(in);
    write(out);
  }
  void do_add(View residual, View delta) override {
    sum(delta);
    write(residual);
  }
  void do_add_norm(View out, View residual, View delta, const model::Norm&, const Weight&,
                   const Weight&) override {
    sum(delta);
    write(residual);
    write(out);
  }
  void do_linear(View out, View in, const Weight& weight, const Weight&, model::Activation,
                 std::byte* workspace) override {
    sum(in);
    std::memset(workspace, 1, footprint().linear_workspace(in.rows, *weight.spec, weight.dtype));
    write(out);
  }
  void do_rope_angles(View out, const model::RopeSpec&, const backend::BatchMeta&) override {
    write(out);
  }
  void do_rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                         const backend::HeadNorms&, const backend::KvLayer& cache,
                         const backend::BatchMeta& batch) override {
    sum(angles);
    write(qkv);
    const auto tables = batch.block_tables[static_cast<size_t>(cache.group)];
    for (size_t row = 0; row < batch.positions.size(); ++row) {
      const int64_t entry =
          batch.row_sequence[row] * batch.table_stride + batch.positions[row] / cache.block_size;
      const int32_t block = tables[static_cast<size_t>(entry)];
      std::memset(cache.pool + static_cast<size_t>(block) * cache.block_stride + cache.layer_offset,
                  1, footprint().kv_bytes(spec, cache.block_size, cache.dtype));
    }
  }
  void do_attention(View out, View qkv, const model::AttentionSpec& spec,
                    const backend::ScoreTerms&, const backend::KvLayer&,
                    const backend::BatchMeta& batch, std::byte* workspace) override {
    sum(qkv);
    const auto sequences = static_cast<int64_t>(batch.context_length.size());
    std::memset(workspace, 1, footprint().attention_workspace(qkv.rows, sequences, spec));
    write(out);
  }
  void do_limit_gates(View x, const model::GateLimits&) override { write(x); }
  void do_gated_activation(View out, View in, model::Activation) override {
    sum(in);
    write(out);
  }
  void do_route(const backend::Routing& routing, View logits, const model::RouterSpec&,
                const Weight&) override {
    sum(logits);
    write(routing.experts);
    write(routing.weights);
  }
  void do_experts(View out, View in, const backend::Routing&, const model::MlpSpec& mlp,
                  const backend::ExpertWeights& weights, std::byte* workspace) override {
    sum(in);
    const DType dtype = weights.up.dtype;
    std::memset(workspace, 1, footprint().experts_workspace(in.rows, mlp, in.columns, dtype));
    write(out);
  }
  void do_soft_cap(View x, float) override { write(x); }
  void do_multiply_factors(View x, const Weight&, View) override { write(x); }
  void do_scale(View x, float) override { write(x); }
  void do_copy_heads(View out, View in, const backend::HeadColumns&) override {
    sum(in);
    write(out);
  }
  void do_multiply_gates(View x, View gates, model::GateKind) override {
    sum(gates);
    write(x);
  }
  void do_xielu(View x, const Weight&) override { write(x); }
  const float* do_host_logits(View logits, std::span<float>) override {
    return static_cast<const float*>(logits.data);
  }

 private:
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
