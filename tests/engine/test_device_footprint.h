// Footprint of the test device (test_device.h).
#pragma once

#include <string_view>

#include "backend/backend.h"

namespace plimsoll::testing {

/// Sizes of the CPU's kernels, for a device with its own memory and queue.
class TestDeviceFootprint final : public backend::Footprint {
 public:
  struct Habits {
    bool draws = true;
    int ahead = 1;
    bool records = true;
    int64_t largest_top_k = 1024;
    int64_t fused_rows = 0;
  };
  TestDeviceFootprint(const backend::Footprint& cpu, Habits habits) : cpu_(cpu), habits_(habits) {}

  [[nodiscard]] std::string_view name() const override { return "test device"; }
  [[nodiscard]] DType activation_dtype(DType model) const override {
    return cpu_.activation_dtype(model);
  }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override {
    return cpu_.weight_bytes(spec, dtype);
  }
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override {
    return cpu_.kv_bytes(spec, block_size, dtype);
  }
  [[nodiscard]] size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                        DType dtype) const override {
    return cpu_.linear_workspace(rows, spec, dtype);
  }
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType dtype) const override {
    return cpu_.experts_workspace(rows, mlp, hidden, dtype);
  }
  [[nodiscard]] size_t attention_workspace(int64_t rows, int64_t sequences,
                                           const model::AttentionSpec& spec) const override {
    return cpu_.attention_workspace(rows, sequences, spec);
  }
  [[nodiscard]] bool shares_memory() const override { return false; }
  [[nodiscard]] bool stores_kv(DType kv, DType model) const override {
    return kv == model || kv == DType::bf16;
  }
  [[nodiscard]] bool sees_images() const override { return cpu_.sees_images(); }
  /// Size of the plan of segments, as that of a step.
  [[nodiscard]] size_t segments_plan_bytes(int64_t, int64_t segments,
                                           const model::AttentionSpec&) const override {
    return static_cast<size_t>(segments + 1) * sizeof(int32_t);
  }
  [[nodiscard]] bool draws() const override { return habits_.draws; }
  [[nodiscard]] int64_t largest_drawn_top_k() const override { return habits_.largest_top_k; }
  [[nodiscard]] int64_t fused_rows() const override { return habits_.fused_rows; }
  [[nodiscard]] int ahead() const override { return habits_.ahead; }
  [[nodiscard]] bool records() const override { return habits_.records; }
  [[nodiscard]] size_t draw_workspace(int64_t, int64_t vocab_size) const override {
    return static_cast<size_t>(vocab_size) * (sizeof(float) + sizeof(int32_t));
  }
  /// The contexts of all sequences, and how many of those are padding.
  [[nodiscard]] size_t step_plan_bytes(const backend::StepShape& shape) const override {
    return static_cast<size_t>(shape.sequences + 1) * sizeof(int32_t);
  }
  [[nodiscard]] size_t device_workspace_bytes(const backend::StepShape&) const override {
    return 1000;
  }
  [[nodiscard]] size_t host_workspace_bytes(const backend::StepShape&) const override {
    return 2000;
  }

 private:
  const backend::Footprint& cpu_;
  Habits habits_;
};

}  // namespace plimsoll::testing
