// A device without hardware: the CPU's kernels behind memory of their own, a queue that runs when
// the host waits, recorded steps, and tokens drawn where the logits are. It is strict where
// hardware would be forgiving:
//   - its memory cannot be touched by the host at all, except while the queue runs;
//   - nothing runs before the host waits for it, so a result that is read too early is not there,
//   and
//     one that is written too early is seen by the wrong step;
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
#include "engine/guarded_memory.h"
#include "engine/sampling/sampler.h"
#include "engine/test_device_footprint.h"
#include "engine/test_queue.h"
#include "reference/change_logits.h"

namespace plimsoll::testing {

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
  void do_load_weight(const Weight& weight, const backend::RowReader& read) override {
    const GuardedMemory::Lock lock(memory_);
    cpu_.load_weight(*weight.spec, weight.dtype, weight.data, read);
  }
  void do_embed(View out, const Weight& table, const BatchMeta& batch, float scale) override {
    const OnDevice there(batch);
    const int32_t* drawn = batch.drawn_on_device;
    enqueue("embed", {out}, [=, this] {
      BatchMeta meta = there.meta;
      std::vector<int32_t> ids(meta.token_ids.begin(), meta.token_ids.end());
      for (int32_t& id : ids) id = id < 0 ? drawn[-1 - id] : id;
      // A token could not be drawn: its sequence ends, and so does not matter.
      for (int32_t& id : ids) id = std::max(id, 0);
      std::ranges::copy(ids, const_cast<int32_t*>(meta.token_ids.data()));
      meta.token_ids = ids;
      cpu_.embed(out, table, meta, scale);
    });
  }
  void do_embed_positions(View out, const Weight& table, const BatchMeta& batch,
                          int64_t offset) override {
    const OnDevice there(batch);
    enqueue("embed_positions", {out},
            [=, this] { cpu_.embed_positions(out, table, there.meta, offset); });
  }
  void do_gather_rows(View out, View in, const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("gather_rows", {out, in}, [=, this] { cpu_.gather_rows(out, in, there.meta); });
  }
  void do_norm(View out, View in, const model::Norm& spec, const Weight& weight,
               const Weight& bias) override {
    enqueue("norm", {out, in}, [=, this] { cpu_.norm(out, in, spec, weight, bias); });
  }
  void do_add(View residual, View delta) override {
    enqueue("add", {residual, delta}, [=, this] { cpu_.add(residual, delta); });
  }
  void do_add_norm(View out, View residual, View delta, const model::Norm& spec,
                   const Weight& weight, const Weight& bias) override {
    enqueue("add_norm", {out, residual, delta},
            [=, this] { cpu_.add_norm(out, residual, delta, spec, weight, bias); });
  }
  void do_linear(View out, View in, const Weight& weight, const Weight& bias,
                 model::Activation activation, std::byte* workspace) override {
    const size_t bytes = footprint().linear_workspace(in.rows, *weight.spec, weight.dtype);
    enqueue(weight.spec->name, {out, in}, workspace, bytes,
            [=, this] { cpu_.linear(out, in, weight, bias, activation); });
  }
  void do_place_embeddings(View out, const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("place_embeddings", {out}, [=, this] { cpu_.place_embeddings(out, there.meta); });
  }
  void do_average_parts(View out, View in) override {
    enqueue("average_parts", {out, in}, [=, this] { cpu_.average_parts(out, in); });
  }
  void do_scale_columns(View x, const Weight& weight) override {
    enqueue("scale_columns", {x}, [=, this] { cpu_.scale_columns(x, weight); });
  }
  void do_rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) override {
    const OnDevice there(batch);
    const model::RopeSpec* spec = &rope;
    enqueue("rope_angles", {out}, [=, this] { cpu_.rope_angles(out, *spec, there.meta); });
  }
  void do_rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                         const backend::HeadNorms& norms, const backend::KvLayer& cache,
                         const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("rope_and_store", {qkv, angles},
            [=, this] { cpu_.rope_and_store(qkv, angles, spec, norms, cache, there.batch()); });
  }
  void do_attention(View out, View qkv, const model::AttentionSpec& spec,
                    const backend::ScoreTerms& terms, const backend::KvLayer& cache,
                    const BatchMeta& batch, std::byte* workspace) override {
    const OnDevice there(batch);
    const size_t bytes = footprint().attention_workspace(qkv.rows, there.sequences(), spec);
    enqueue("attention", {out, qkv}, workspace, bytes, [=, this] {
      BatchMeta meta = there.batch();
      // Recorded ops must take the numbers of the step from the device.
      const auto* plan = reinterpret_cast<const int32_t*>(meta.plan.data());
      meta.padding = plan[0];
      if (!std::ranges::equal(meta.context_length, std::span(plan + 1, there.sequences()))) {
        throw std::logic_error("the plan of the step is not on the device");
      }
      cpu_.attention(out, qkv, spec, terms, cache, meta);
    });
  }
  void do_limit_gates(View x, const model::GateLimits& limits) override {
    enqueue("limit_gates", {x}, [=, this] { cpu_.limit_gates(x, limits); });
  }
  void do_gated_activation(View out, View in, model::Activation activation) override {
    enqueue("gated_activation", {out, in},
            [=, this] { cpu_.gated_activation(out, in, activation); });
  }
  void do_copy_heads(View out, View in, const backend::HeadColumns& columns) override {
    enqueue("copy_heads", {out, in}, [=, this] { cpu_.copy_heads(out, in, columns); });
  }
  void do_multiply_gates(View x, View gates, model::GateKind kind) override {
    enqueue("multiply_gates", {x, gates}, [=, this] { cpu_.multiply_gates(x, gates, kind); });
  }
  void do_xielu(View x, const Weight& parameters) override {
    enqueue("xielu", {x}, [=, this] { cpu_.xielu(x, parameters); });
  }
  void do_multiply_factors(View x, const Weight& factors, View indices) override {
    enqueue("multiply_factors", {x}, [=, this] { cpu_.multiply_factors(x, factors, indices); });
  }
  void do_scale(View x, float factor) override {
    enqueue("scale", {x}, [=, this] { cpu_.scale(x, factor); });
  }
  void do_route(const backend::Routing& routing, View logits, const model::RouterSpec& router,
                const Weight& choice_bias) override {
    enqueue("route", {routing.experts, routing.weights, logits},
            [=, this] { cpu_.route(routing, logits, router, choice_bias); });
  }
  void do_experts(View out, View in, const backend::Routing& routing, const model::MlpSpec& mlp,
                  const backend::ExpertWeights& weights, std::byte* workspace) override {
    const size_t bytes = footprint().experts_workspace(in.rows, mlp, in.columns, weights.up.dtype);
    enqueue("experts", {out, in, routing.experts, routing.weights}, workspace, bytes,
            [=, this] { cpu_.experts(out, in, routing, mlp, weights); });
  }
  void do_soft_cap(View x, float cap) override {
    enqueue("soft_cap", {x}, [=, this] { cpu_.soft_cap(x, cap); });
  }
  void do_match_size(View x, View like) override {
    enqueue("match_size", {x, like}, [=, this] { cpu_.match_size(x, like); });
  }
  void do_keep_above(View x, float deviations) override {
    enqueue("keep_above", {x}, [=, this] { cpu_.keep_above(x, deviations); });
  }
  void do_convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                   const Weight& bias, const backend::StateLayer& states,
                   const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("convolve", {out, in, view_of(states)},
            [=, this] { cpu_.convolve(out, in, spec, weight, bias, states, there.meta); });
  }
  void do_selective_scan(View out, const backend::ScanInputs& in, const model::RecurrentSpec& spec,
                         const backend::ScanWeights& weights, const backend::StateLayer& states,
                         const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("selective_scan", {out, in.x, in.step, in.b, in.c, view_of(states)},
            [=, this] { cpu_.selective_scan(out, in, spec, weights, states, there.meta); });
  }
  void do_gated_delta(View out, const backend::DeltaInputs& in, const model::RecurrentSpec& spec,
                      const backend::DeltaWeights& weights, const backend::StateLayer& states,
                      const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("gated_delta", {out, in.q, in.k, in.v, in.beta, in.step, view_of(states)},
            [=, this] { cpu_.gated_delta(out, in, spec, weights, states, there.meta); });
  }
  void do_linear_recurrence(View out, const backend::LruInputs& in,
                            const model::RecurrentSpec& spec, const Weight& decay,
                            const backend::StateLayer& states, const BatchMeta& batch) override {
    const OnDevice there(batch);
    enqueue("linear_recurrence", {out, in.x, in.gates, view_of(states)},
            [=, this] { cpu_.linear_recurrence(out, in, spec, decay, states, there.meta); });
  }
  void do_draw(const BatchMeta& batch, View logits, int64_t first, std::byte* workspace) override {
    const OnDevice there(batch);
    int32_t* to = batch.drawn_on_device + first;
    enqueue("draw", {logits}, [=, this] {
      const auto vocabulary = static_cast<size_t>(logits.columns);
      auto* values = reinterpret_cast<float*>(workspace);
      engine::Sampler sampler({values, vocabulary},
                              {reinterpret_cast<int32_t*>(values + vocabulary), vocabulary});
      for (int64_t i = 0; i < logits.rows; ++i) {
        const auto entry = static_cast<size_t>(first + i);
        const backend::Drawing& drawing = there.meta.drawing;
        const engine::DrawParams params{.temperature = drawing.temperature[entry],
                                        .top_k = drawing.top_k[entry],
                                        .top_p = drawing.top_p[entry],
                                        .min_p = drawing.min_p[entry],
                                        .uniform = drawing.uniform[entry]};
        const std::span row(static_cast<float*>(logits.data) + i * logits.stride, vocabulary);
        const bool is_finite = engine::scan_row(row).finite;
        const int32_t own = there.meta.logits_rows[entry];
        reference::change_logits(row, drawing, entry,
                                 own < 0 ? -1 : there.meta.token_ids[static_cast<size_t>(own)]);
        const engine::SampleResult result = sampler.sample_adjusted(row, params);
        const bool is_token = result.outcome == engine::Sampled::token;
        to[i] = is_token ? result.token : backend::kDrewNothingAllowed;
        if (!is_finite) to[i] = backend::kDrewNotFinite;
        ++drawn_tokens_;
      }
    });
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
      meta.plan = translate(batch.plan);
      meta.table_stride = batch.table_stride;
      for (const auto& table : batch.block_tables) tables.push_back(translate(table));
    }
    [[nodiscard]] BatchMeta batch() const {
      BatchMeta with_tables = meta;
      with_tables.block_tables = tables;
      return with_tables;
    }
    [[nodiscard]] size_t sequences() const { return meta.context_length.size(); }

    BatchMeta meta;
    std::vector<std::span<const int32_t>> tables;
  };

  static void write_plan(const BatchMeta& batch) {
    auto* plan = reinterpret_cast<int32_t*>(batch.plan.data());
    plan[0] = static_cast<int32_t>(batch.padding);
    std::ranges::copy(batch.context_length, plan + 1);
  }

  /// Rows of a layer's states.
  static View view_of(const backend::StateLayer& states) { return {.data = states.of(0)}; }

  template <typename F>
  void enqueue(std::string_view what, std::initializer_list<View> views, const F& run) {
    enqueue(what, views, nullptr, 0, run);
  }
  template <typename F>
  void enqueue(std::string_view what, std::initializer_list<View> views, std::byte* workspace,
               size_t bytes, const F& run) {
    std::string text = fmt::format("{} {}", what, fmt::ptr(workspace));
    for (const View& view : views) {
      text += fmt::format(" {}[{},{}]", fmt::ptr(view.data), view.rows, view.columns);
    }
    const size_t room = memory::Arena::aligned(bytes);
    auto inside = [this, run, workspace, room] {
      memory::Arena arena = memory::Arena::placing(workspace, room);
      cpu_.use_scratch(arena);
      run();
    };
    queue_.push({std::move(text), std::move(inside)});
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
};

}  // namespace plimsoll::testing
