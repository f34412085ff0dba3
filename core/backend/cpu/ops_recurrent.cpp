// Convolutions and recurrences: a task is some columns or heads of one sequence, over its rows in
// order.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backend/cpu/ops.h"

namespace plimsoll::backend {
namespace {

constexpr int64_t kConvColumns = 256;    // of a task
constexpr int64_t kTaskFloats = 8192;    // of a task's states: they stay in the nearest cache
constexpr float kLengthEpsilon = 1e-6f;  // of q and k, beside the sum of squares

float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

/// Rows of a sequence, and its state.
struct SequenceRows {
  int64_t first = 0;
  int64_t count = 0;
  float* state = nullptr;
  bool starts = false;  // at position 0: the state is of the slot's last sequence
};

SequenceRows rows_of(const BatchMeta& batch, const StateLayer& states, int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  const int64_t first = batch.query_start[s];
  const int64_t count = batch.context_length[s] == 0 ? 0 : batch.query_start[s + 1] - first;
  return {.first = first,
          .count = count,
          .state = count == 0 ? nullptr : states.of(batch.state_slots[s]),
          .starts = count > 0 && batch.positions[first] == 0};
}

int64_t sequences_of(const BatchMeta& batch) {
  return static_cast<int64_t>(batch.context_length.size());
}

/// Heads of one task.
int64_t heads_together(const model::RecurrentSpec& spec) {
  return std::clamp<int64_t>(kTaskFloats / (spec.head_dim * spec.state), 1, spec.heads);
}

}  // namespace

void CpuBackend::compute(const ops::Convolve& op) {
  const model::ConvSpec& spec = *op.spec;
  const int64_t parts = divide_up(spec.width, kConvColumns);
  const int64_t past = spec.taps - 1;
  pool_.run(sequences_of(*op.batch) * parts, 2 * op.out.rows * spec.width * spec.taps,
            [&](int64_t task, int) {
              const SequenceRows rows = rows_of(*op.batch, op.states, task / parts);
              if (rows.count == 0) return;
              const int64_t begin = task % parts * kConvColumns;
              const int64_t count = std::min(kConvColumns, spec.width - begin);
              float* state = rows.state + begin;
              if (rows.starts) {
                for (int64_t i = 0; i < past; ++i) std::fill_n(state + i * spec.width, count, 0.f);
              }
              std::array<float, kConvColumns * model::kMostTaps> taps;  // [taps][count]
              for (int64_t tap = 0; tap < spec.taps; ++tap)
                for (int64_t c = 0; c < count; ++c)
                  taps[tap * count + c] = floats(op.weight)[(begin + c) * spec.taps + tap];
              const auto input = [&](int64_t row) {  // before the first row: kept ones
                return row < 0 ? state + (past + row) * spec.width
                               : row_of(op.in, rows.first + row) + begin;
              };
              for (int64_t row = 0; row < rows.count; ++row) {
                float* to = row_of(op.out, rows.first + row) + begin;
                std::fill_n(to, count, 0.f);
                for (int64_t tap = 0; tap < spec.taps; ++tap)
                  kernels_.add_product(to, input(row - past + tap), taps.data() + tap * count,
                                       count);
                kernels_.finish(to, count,
                                {op.bias ? floats(op.bias) + begin : nullptr, spec.activation});
              }
              for (int64_t i = 0; i < past; ++i)  // forwards: what is moved lies behind
                std::copy_n(input(rows.count - past + i), count, state + i * spec.width);
            });
}

void CpuBackend::compute(const ops::SelectiveScan& op) {
  const model::RecurrentSpec& spec = *op.spec;
  const int64_t together = heads_together(spec);
  const int64_t parts = divide_up(spec.heads, together);
  const int64_t head_floats = spec.head_dim * spec.state;
  const bool each = op.weights.decay.spec->elements() > spec.heads;
  pool_.run(
      sequences_of(*op.batch) * parts, 6 * op.out.rows * spec.state_floats(),
      [&](int64_t task, int) {
        const SequenceRows rows = rows_of(*op.batch, op.states, task / parts);
        const int64_t begin = task % parts * together;
        const int64_t end = std::min(spec.heads, begin + together);
        if (rows.starts)
          std::fill(rows.state + begin * head_floats, rows.state + end * head_floats, 0.f);
        for (int64_t row = rows.first; row < rows.first + rows.count; ++row)
          for (int64_t head = begin; head < end; ++head) {
            const float bias = op.weights.step_bias ? floats(op.weights.step_bias)[head] : 0.f;
            const bool steps = op.in.step.columns > 0;  // without steps each is 1
            const float size = steps ? softplus(row_of(op.in.step, row)[head] + bias) : 1.f;
            const int64_t group = head / (spec.heads / spec.groups) * spec.state;
            const float* decay = floats(op.weights.decay);
            kernels_.scan_step({.h = rows.state + head * head_floats,
                                .x = row_of(op.in.x, row) + head * spec.head_dim,
                                .b = row_of(op.in.b, row) + group,
                                .c = row_of(op.in.c, row) + group,
                                .out = row_of(op.out, row) + head * spec.head_dim,
                                .channels = spec.head_dim,
                                .state = spec.state,
                                .size = size,
                                .decay = each ? 0.f : std::exp(size * decay[head]),
                                .rates = each ? decay + head * spec.state : nullptr,
                                .skip = op.weights.skip ? floats(op.weights.skip)[head] : 0.f});
          }
      });
}

void CpuBackend::compute(const ops::GatedDelta& op) {
  const model::RecurrentSpec& spec = *op.spec;
  const int64_t head_floats = spec.head_dim * spec.state;
  const auto keys = static_cast<size_t>(spec.state);
  const float query_factor = 1.f / std::sqrt(static_cast<float>(spec.state));
  const auto scaled = [&](const float* from, float factor, std::vector<float>& to) {
    const float squares = kernels_.dot(from, from, spec.state);
    std::copy_n(from, spec.state, to.data());
    kernels_.scale(to.data(), factor / std::sqrt(squares + kLengthEpsilon), spec.state);
  };
  pool_.run(sequences_of(*op.batch) * spec.heads, 8 * op.out.rows * spec.state_floats(),
            [&](int64_t task, int) {
              const SequenceRows rows = rows_of(*op.batch, op.states, task / spec.heads);
              const int64_t head = task % spec.heads;
              const int64_t group = spec.key_head(head) * spec.state;
              const float rate = -std::exp(floats(op.weights.decay_log)[head]);
              const int64_t decayed =
                  op.in.step.columns / spec.heads;  // numbers with one of theirs
              float* state = rows.state + head * head_floats;
              if (rows.starts) std::fill_n(state, head_floats, 0.f);
              std::vector<float> q(keys), k(keys), decays(decayed);
              for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
                scaled(row_of(op.in.q, row) + group, query_factor, q);
                scaled(row_of(op.in.k, row) + group, 1.f, k);
                const float beta = row_of(op.in.beta, row)[head];
                for (int64_t i = 0; i < decayed; ++i) {
                  const int64_t at = head * decayed + i;
                  const float bias = op.weights.step_bias ? floats(op.weights.step_bias)[at] : 0.f;
                  decays[i] = std::exp(rate * softplus(row_of(op.in.step, row)[at] + bias));
                }
                kernels_.delta_step({.s = state,
                                     .q = q.data(),
                                     .k = k.data(),
                                     .v = row_of(op.in.v, row) + head * spec.head_dim,
                                     .out = row_of(op.out, row) + head * spec.head_dim,
                                     .keys = spec.state,
                                     .values = spec.head_dim,
                                     .beta = spec.beta_factor / (1.f + std::exp(-beta)),
                                     .decay = decays[0],
                                     .decays = decayed > 1 ? decays.data() : nullptr});
              }
            });
}

void CpuBackend::compute(const ops::LinearRecurrence& op) {
  const model::RecurrentSpec& spec = *op.spec;
  constexpr float kSharpness = -8.f;  // Griffin's c
  constexpr int64_t kRowCost = 64;    // of an exponential and its like
  const int64_t channels = spec.head_dim;
  pool_.run(sequences_of(*op.batch) * spec.heads, kRowCost * op.out.rows * spec.width(),
            [&](int64_t task, int) {
              const SequenceRows rows = rows_of(*op.batch, op.states, task / spec.heads);
              if (rows.count == 0) return;
              const int64_t first = task % spec.heads * channels;
              std::vector<float> rates(channels);
              for (int64_t i = 0; i < channels; ++i) {
                rates[i] = kSharpness * softplus(floats(op.decay)[first + i]);
              }
              for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
                const float* gates = row_of(op.in.gates, row) + 2 * first;
                kernels_.lru_step({.h = rows.state + first,
                                   .x = row_of(op.in.x, row) + first,
                                   .input_gates = gates,
                                   .decay_gates = gates + channels,
                                   .rates = rates.data(),
                                   .out = row_of(op.out, row) + first,
                                   .channels = channels,
                                   .starts = rows.starts && row == rows.first});
              }
            });
}

}  // namespace plimsoll::backend
