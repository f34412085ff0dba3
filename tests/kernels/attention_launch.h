// One layer's attention over steps, as the CUDA backend plans and runs it.
#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>

#include "kernels/attention/attention.h"
#include "kernels/kv_fixture.h"

namespace plimsoll::testing {

/// A step's arrays in memory of the host, and where the device has them.
class HostSlab {
 public:
  explicit HostSlab(size_t bytes) : host_(bytes), device_(bytes) {}

  std::span<const int32_t> put(const std::vector<int32_t>& values) {
    const std::span<std::byte> room = take(values.size() * sizeof(int32_t));
    std::memcpy(room.data(), values.data(), room.size());
    return {reinterpret_cast<const int32_t*>(room.data()), values.size()};
  }
  std::span<std::byte> take(size_t bytes) {
    const size_t at = used_;
    used_ += (bytes + 255) / 256 * 256;
    REQUIRE(used_ <= host_.size());
    return {host_.data() + at, bytes};
  }
  [[nodiscard]] const std::byte* host() const { return host_.data(); }
  [[nodiscard]] std::byte* device() const { return static_cast<std::byte*>(device_.data()); }
  void upload() { device_.upload(host_.data()); }

 private:
  std::vector<std::byte> host_;
  DeviceBytes device_;
  size_t used_ = 0;
};

/// A launch whose steps are the batch of `kv`; the caller keeps that alive.
class AttentionLaunch {
 public:
  AttentionLaunch(const model::AttentionSpec& spec, const KvFixture& kv, DType activation,
                  const backend::CardFigures& card, const kernels::AttentionOptions& options)
      : spec_(spec), kv_(kv), activation_(activation) {
    model_.layers.emplace_back().attention = spec;
    const backend::StepShape shape{.spec = &model_,
                                   .tokens = kv.rows(),
                                   .sequences = static_cast<int64_t>(kv.context.size()),
                                   .table_stride = kv.batch().table_stride,
                                   .kv_dtype = kv.layer().dtype};
    const backend::CudaFootprint sizes(card);
    const std::span<const int32_t> table = slab_.put(kv.table());
    tables_ = {table, table};
    batch_.positions = slab_.put(kv.positions);
    batch_.query_start = slab_.put(kv.query_start);
    batch_.context_length = slab_.put(kv.context);
    batch_.block_tables = tables_;
    batch_.table_stride = kv.batch().table_stride;
    batch_.plan = slab_.take(sizes.step_plan_bytes(shape));
    batch_.host_base = slab_.host();
    batch_.device_base = slab_.device();
    workspace_ = std::make_unique<DeviceBytes>(sizes.device_workspace_bytes(shape));
    attention_.start(shape, card, {static_cast<std::byte*>(workspace_->data()), workspace_->size()},
                     options);
  }

  /// A step with these queries [T, heads * head_dim].
  Matrix run(const Matrix& q) {
    attention_.plan(batch_);
    slab_.upload();
    const DeviceRows device_q(q, activation_, {.gap = 2 * spec_.kv_heads * spec_.head_dim});
    const DeviceRows out(q.rows, q.columns, activation_);
    attention_.run(
        {.out = out.view(), .qkv = device_q.view(), .spec = &spec_, .cache = &kv_.layer()}, batch_,
        kv_.batch(), kStream);
    return out.matrix();
  }

  [[nodiscard]] kernels::StepAttention& attention() { return attention_; }
  /// True when a note of the launch contains `what`.
  [[nodiscard]] bool notes(std::string_view what) const {
    const std::vector<std::string> notes = attention_.notes("");
    return std::ranges::any_of(
        notes, [&](const std::string& note) { return note.find(what) != std::string::npos; });
  }

 private:
  model::AttentionSpec spec_;
  const KvFixture& kv_;
  DType activation_;
  model::ModelSpec model_;
  HostSlab slab_{size_t{1} << 20};
  std::array<std::span<const int32_t>, 2> tables_;
  backend::BatchMeta batch_;
  std::unique_ptr<DeviceBytes> workspace_;
  kernels::StepAttention attention_;
};

}  // namespace plimsoll::testing
