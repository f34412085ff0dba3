// A device without hardware: the CPU's kernels behind memory of their own, a queue that runs when
// the host waits, recorded steps, and tokens drawn where the logits are. It is strict where
// hardware would be forgiving:
//   - its memory cannot be touched by the host at all, except while the queue runs;
//   - nothing runs before the host waits for it: a result that is read too early is not there, one
//     that is written too early is seen by the wrong step;
//   - the host's arrays are spoilt once their step has been awaited (block tables stay), arrays of
//     image encoders once they have been sent;
//   - a recorded step is compared with the ops that would be enqueued anew, addresses included.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/op_fields.h"
#include "engine/guarded_memory.h"
#include "engine/sampling/sampler.h"
#include "engine/test_device_footprint.h"
#include "engine/test_queue.h"
#include "reference/change_logits.h"

namespace plimsoll::testing {

namespace ops = backend::ops;

class TestDevice final : public backend::Backend {
 public:
  using View = backend::View;
  using Weight = backend::Weight;
  using BatchMeta = backend::BatchMeta;

  TestDevice(const TestDeviceFootprint& footprint, backend::Backend& cpu)
      : Backend(footprint), cpu_(cpu) {}

  /// Steps that were recorded, and how often one was repeated.
  [[nodiscard]] size_t recorded() const { return queue_.recorded(); }
  [[nodiscard]] int64_t replays() const { return queue_.replays(); }
  /// Ops of the longest recorded step.
  [[nodiscard]] int64_t most_recorded_ops() const { return queue_.most_recorded_ops(); }
  /// Steps that were started while an earlier one had not been awaited.
  [[nodiscard]] int64_t overlaps() const { return overlaps_; }
  [[nodiscard]] int64_t drawn_tokens() const { return drawn_tokens_; }
  [[nodiscard]] size_t sent_masks() const { return sent_masks_; }

  std::unique_ptr<memory::Memory> take_memory(size_t bytes) override {
    auto memory = std::make_unique<GuardedMemory>(bytes);
    // One launch's memory is freed before the next launch.
    memory_ = memory.get();
    queue_.clear();
    steps_under_way_ = sends_under_way_ = 0;
    sent_.clear();
    return memory;
  }
  void parallel(int64_t tasks, const backend::HostJob& job) override { cpu_.parallel(tasks, job); }
  void start_launch(const backend::LaunchParts& parts) override {
    if (parts.device_workspace.size() != 1000 || parts.host_workspace.size() != 2000) {
      throw std::logic_error("the launch did not hand over the workspaces");
    }
  }
  void fill_random(const Weight& weight, uint64_t seed, float scale) override {
    const GuardedMemory::Lock lock(memory_);
    cpu_.fill_random(weight, seed, scale);
  }

  void start_step(const BatchMeta& batch) override {
    if (steps_under_way_++ > 0) ++overlaps_;
    if (steps_under_way_ > footprint().ahead() + 1) {
      throw std::logic_error("more steps under way than slabs");
    }
    write_plan(batch);
    const auto copy = [&](auto array) {
      enqueue_copy(batch.on_device(array), array.data(), array.size_bytes());
    };
    backend::for_each_array(batch, copy);
    copy(batch.plan.first((batch.context_length.size() + 1) * sizeof(int32_t)));
    for (const auto& table : batch.block_tables) {
      for (size_t s = 0; s < batch.context_length.size(); ++s) {
        copy(table.subspan(s * static_cast<size_t>(batch.table_stride),
                           static_cast<size_t>(batch.table_width)));
      }
    }
  }

  void send_masks(const BatchMeta& batch) override {
    if (queue_.is_recording()) throw std::logic_error("masks are sent in a recorded step");
    const std::span<const int32_t> masks = batch.drawing.masks;
    enqueue_copy(batch.on_device(masks), masks.data(), masks.size_bytes());
    sent_masks_ += masks.size() / static_cast<size_t>(batch.drawing.mask_words);
  }

  void run_step(int64_t key, const std::function<void()>& ops) override {
    key == 0 ? ops() : queue_.repeat(key, ops);
  }

  void finish_step(const BatchMeta& batch) override {
    const int32_t* from = batch.drawn_on_device;
    const std::span<int32_t> to = batch.drawn;
    queue_.push({"finish", [from, to] { std::copy_n(from, to.size(), to.begin()); }, true});
  }

  void await_step(const BatchMeta& batch) override {
    if (awaited_early_ > 0) {
      --awaited_early_;
    } else {
      const GuardedMemory::Lock lock(memory_);
      while (!queue_.run_next()) {
      }
    }
    --steps_under_way_;
    const auto spoil = [](auto array) {
      if (array.empty()) return;
      std::memset(const_cast<void*>(static_cast<const void*>(array.data())), 0x5a,
                  array.size_bytes());
    };
    backend::for_each_array(batch, spoil);
    spoil(batch.drawing.masks);
    spoil(batch.plan);
  }

  void plan_segments(const BatchMeta& batch, const model::AttentionSpec&) override {
    write_plan(batch);
  }
  void send(void* to, std::span<const std::byte> from) override {
    if (queue_.is_recording()) throw std::logic_error("an image encoder runs in a recorded step");
    queue_.push({"send", [this, to, from] {
                   std::memcpy(to, from.data(), from.size());
                   --sends_under_way_;
                 }});
    ++sends_under_way_;
    sent_.push_back(from);
  }
  void await_sent() override {
    const GuardedMemory::Lock lock(memory_);
    while (sends_under_way_ > 0) awaited_early_ += queue_.run_next() ? 1 : 0;
    for (const std::span<const std::byte> piece : sent_) {
      std::memset(const_cast<std::byte*>(piece.data()), 0x5a, piece.size());
    }
    sent_.clear();
  }

 protected:
  void dispatch(ops::AnyOp any, std::span<std::byte> workspace) override {
    std::visit([&](const auto* op) { enqueue(*op, workspace); }, any);
  }
  void do_load_weight(const Weight& weight, const backend::RowReader& read) override {
    const GuardedMemory::Lock lock(memory_);
    cpu_.load_weight(*weight.spec, weight.dtype, weight.data, read);
  }
  const float* do_host_logits(View logits, std::span<float> staging) override {
    const GuardedMemory::Lock lock(memory_);
    while (!queue_.empty()) awaited_early_ += queue_.run_next() ? 1 : 0;
    const auto count = static_cast<size_t>(logits.rows * logits.stride);
    std::memcpy(staging.data(), logits.data, count * sizeof(float));
    return staging.data();
  }

 private:
  /// Arrays of a batch on the device.
  struct OnDevice {
    explicit OnDevice(const BatchMeta& batch) {
      const auto translate = [&](auto array) {
        return decltype(array)(batch.on_device(array), array.size());
      };
      meta = batch;
      backend::for_each_array(meta, [&](auto& array) { array = translate(array); });
      meta.drawing.masks = translate(batch.drawing.masks);
      meta.plan = translate(batch.plan);
      meta.table_stride = batch.table_stride;
      for (const auto& table : batch.block_tables) tables.push_back(translate(table));
    }
    [[nodiscard]] BatchMeta batch() const {
      BatchMeta with_tables = meta;
      with_tables.block_tables = tables;
      return with_tables;
    }

    BatchMeta meta;
    std::vector<std::span<const int32_t>> tables;
  };

  static void write_plan(const BatchMeta& batch) {
    auto* plan = reinterpret_cast<int32_t*>(batch.plan.data());
    plan[0] = static_cast<int32_t>(batch.padding);
    std::ranges::copy(batch.context_length, plan + 1);
  }

  /// Enqueues a copy of an op, with its batch on the device and its spec, which may be gone when
  /// the queue runs.
  template <typename Op>
  void enqueue(const Op& op, std::span<std::byte> workspace) {
    std::string text = fmt::format("{} {}", Op::kName, fmt::ptr(workspace.data()));
    for_each_view(op, [&](View view) { text += show(view); });
    if constexpr (requires { op.states; }) text += show({.data = op.states.of(0)});
    constexpr bool kHasBatch = requires {
      op.batch;
    };
    constexpr bool kHasSpec = requires {
      *op.spec;
    };
    auto run = [=, this, there = batch_of(op), spec = spec_of(op)] {
      memory::Arena arena =
          memory::Arena::placing(workspace.data(), memory::Arena::aligned(workspace.size()));
      cpu_.use_scratch(arena);
      Op again = op;
      BatchMeta meta;
      if constexpr (kHasBatch) again.batch = meta = there.batch();
      if constexpr (kHasSpec) again.spec = spec;
      compute(again, workspace);
    };
    queue_.push({std::move(text), std::move(run)});
  }
  template <typename Op>
  static auto batch_of(const Op& op) {
    if constexpr (requires { op.batch; }) {
      return OnDevice(*op.batch);
    } else {
      return nullptr;
    }
  }
  template <typename Op>
  static auto spec_of(const Op& op) {
    if constexpr (requires { *op.spec; }) {
      return *op.spec;
    } else {
      return nullptr;
    }
  }
  template <typename Op>
  void compute(const Op& op, std::span<std::byte>) {
    cpu_.run(op);
  }
  void compute(ops::Embed op, std::span<std::byte>) {
    BatchMeta meta = *op.batch;
    std::vector<int32_t> ids(meta.token_ids.begin(), meta.token_ids.end());
    for (int32_t& id : ids) id = id < 0 ? meta.drawn_on_device[-1 - id] : id;
    // A token could not be drawn: its sequence ends, and so does not matter.
    for (int32_t& id : ids) id = std::max(id, 0);
    std::ranges::copy(ids, const_cast<int32_t*>(meta.token_ids.data()));
    meta.token_ids = ids;
    op.batch = meta;
    cpu_.run(op);
  }
  // Recorded ops must take the numbers of the step from the device.
  void compute(ops::Attention op, std::span<std::byte>) {
    BatchMeta meta = *op.batch;
    const auto* plan = reinterpret_cast<const int32_t*>(meta.plan.data());
    meta.padding = plan[0];
    if (!std::ranges::equal(meta.context_length, std::span(plan + 1, meta.context_length.size()))) {
      throw std::logic_error("the plan of the step is not on the device");
    }
    op.batch = meta;
    cpu_.run(op);
  }
  void compute(const ops::Draw& op, std::span<std::byte> workspace) {
    const View& logits = op.logits;
    const auto vocabulary = static_cast<size_t>(logits.columns);
    auto* values = reinterpret_cast<float*>(workspace.data());
    engine::Sampler sampler({values, vocabulary},
                            {reinterpret_cast<int32_t*>(values + vocabulary), vocabulary});
    for (int64_t i = 0; i < logits.rows; ++i) {
      const auto entry = static_cast<size_t>(op.first + i);
      const backend::Drawing& drawing = op.batch->drawing;
      const engine::DrawParams params{.temperature = drawing.temperature[entry],
                                      .top_k = drawing.top_k[entry],
                                      .top_p = drawing.top_p[entry],
                                      .min_p = drawing.min_p[entry],
                                      .uniform = drawing.uniform[entry]};
      const std::span row(static_cast<float*>(logits.data) + i * logits.stride, vocabulary);
      const bool is_finite = engine::scan_row(row).finite;
      const int32_t own = op.batch->logits_rows[entry];
      reference::change_logits(row, drawing, entry,
                               own < 0 ? -1 : op.batch->token_ids[static_cast<size_t>(own)]);
      const engine::SampleResult result = sampler.sample_adjusted(row, params);
      const bool is_token = result.outcome == engine::Sampled::token;
      int32_t& drawn = op.batch->drawn_on_device[entry];
      drawn = is_token ? result.token : backend::kDrewNothingAllowed;
      if (!is_finite) drawn = backend::kDrewNotFinite;
      ++drawn_tokens_;
    }
  }
  static std::string show(View view) {
    return fmt::format(" {}[{},{}]", fmt::ptr(view.data), view.rows, view.columns);
  }

  void enqueue_copy(const void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;  // and perhaps no addresses
    queue_.push({"copy", [=] { std::memcpy(const_cast<void*>(to), from, bytes); }});
  }
  backend::Backend& cpu_;
  GuardedMemory* memory_ = nullptr;
  TestQueue queue_;
  int64_t steps_under_way_ = 0;
  int64_t awaited_early_ = 0;  // steps that ran to their ends before they were awaited
  int64_t sends_under_way_ = 0;
  std::vector<std::span<const std::byte>> sent_;  // since the last wait
  int64_t overlaps_ = 0;
  int64_t drawn_tokens_ = 0;
  size_t sent_masks_ = 0;
};

}  // namespace plimsoll::testing
