#include <functional>
#include <vector>

#include "backend/cpu_fixture.h"
#include "reference/recurrent.h"

namespace plimsoll::testing {
namespace {

using backend::BatchMeta;
using backend::View;
using model::WeightUse;

/// Two sequences whose rows come in pieces, in slots full of what others left there.
class RecurrentSequences {
 public:
  static constexpr int64_t kLength = 23;

  explicit RecurrentSequences(int64_t floats)
      : floats_(floats), slots_(static_cast<size_t>(3 * floats), 9.f) {}

  /// op(rows, count, batch) for rows [rows, rows + count) of 2 * kLength, in steps of both
  /// sequences; `cut` rows of each at a time.
  void run(int64_t cut, const std::function<void(std::vector<int64_t>, const BatchMeta&)>& op) {
    for (int64_t first = 0; first < kLength; first += cut) {
      const int64_t count = std::min(cut, kLength - first);
      std::vector<int32_t> positions, starts = {0}, lengths;
      std::vector<int64_t> rows;
      for (int64_t sequence = 0; sequence < 2; ++sequence) {
        for (int64_t i = first; i < first + count; ++i) {
          positions.push_back(static_cast<int32_t>(i));
          rows.push_back(sequence * kLength + i);
        }
        starts.push_back(static_cast<int32_t>(rows.size()));
        lengths.push_back(static_cast<int32_t>(first + count));
      }
      const std::vector<int32_t> slots = {2, 0};
      op(rows, BatchMeta{.positions = positions,
                         .query_start = starts,
                         .context_length = lengths,
                         .state_slots = slots});
    }
  }
  [[nodiscard]] backend::StateLayer states() {
    return {reinterpret_cast<std::byte*>(slots_.data()),
            static_cast<size_t>(floats_) * sizeof(float), 0};
  }

 private:
  int64_t floats_;
  std::vector<float> slots_;
};

Rows pick(const Rows& from, const std::vector<int64_t>& rows) {
  Rows picked(std::ssize(rows), from.columns());
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.row(rows[i]), from.columns(), picked.row(static_cast<int64_t>(i)));
  return picked;
}

void put(Rows& to, const std::vector<int64_t>& rows, const Rows& from) {
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.row(static_cast<int64_t>(i)), to.columns(), to.row(rows[i]));
}

Matrix sequence_of(const Rows& all, int64_t sequence) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < RecurrentSequences::kLength; ++i)
    rows.push_back(sequence * RecurrentSequences::kLength + i);
  return pick(all, rows).matrix();
}

/// The op over steps of several sizes: the same bits in all, and `expected` of each sequence.
void check(int64_t floats, int64_t columns,
           const std::function<Rows(const std::vector<int64_t>&, const backend::StateLayer&,
                                    const BatchMeta&)>& op,
           const std::function<Matrix(int64_t)>& expected) {
  Rows whole(2 * RecurrentSequences::kLength, columns);
  for (const int64_t cut : {RecurrentSequences::kLength, int64_t{7}, int64_t{1}}) {
    RecurrentSequences sequences(floats);
    Rows out(2 * RecurrentSequences::kLength, columns);
    sequences.run(cut, [&](const std::vector<int64_t>& rows, const BatchMeta& batch) {
      put(out, rows, op(rows, sequences.states(), batch));
    });
    if (cut == RecurrentSequences::kLength) {
      whole = out;
      for (int64_t s = 0; s < 2; ++s) CHECK(distance(sequence_of(out, s), expected(s)) < 2e-6);
      continue;
    }
    for (int64_t row = 0; row < out.count(); ++row) CHECK(out.same_bits(row, whole, row));
  }
}

constexpr int64_t kRows = 2 * RecurrentSequences::kLength;

TEST_CASE("convolutions look back over steps") {
  for (const CpuIsa isa : isas())
    for (const int64_t width : {1, 37, 300})
      for (const int64_t taps : {1, 3, 4}) {
        CAPTURE(isa_name(isa), width, taps);
        CpuFixture cpu(isa, 2);
        const LoadedWeight weight(*cpu, {width, 1, taps}, WeightUse::vector, DType::bf16, 1);
        const LoadedWeight bias(*cpu, {width}, WeightUse::vector, DType::f32, 2);
        const model::ConvSpec spec{
            .width = width, .taps = taps, .activation = model::Activation::silu};
        const Rows in = Rows::random(kRows, width, 3);
        Matrix matrix(width, taps);
        matrix.values = weight.values.values;
        check(
            width * (taps - 1), width,
            [&](const auto& rows, const auto& states, const BatchMeta& batch) {
              Rows some = pick(in, rows), out(some.count(), width);
              cpu->run(ops::Convolve{out, some, spec, weight.weight, bias.weight, states, batch});
              return out;
            },
            [&](int64_t s) {
              return reference::convolve(sequence_of(in, s), spec, matrix, bias.values.values);
            });
      }
}

TEST_CASE("selective scans decay by channel or by head") {
  const model::RecurrentSpec kinds[] = {
      {.kind = model::RecurrentKind::mamba1, .heads = 37, .head_dim = 1, .groups = 1, .state = 16},
      {.kind = model::RecurrentKind::mamba2, .heads = 6, .head_dim = 5, .groups = 3, .state = 19},
      {.kind = model::RecurrentKind::mamba2, .heads = 2, .head_dim = 64, .groups = 1, .state = 128},
      {.kind = model::RecurrentKind::linear, .heads = 3, .head_dim = 21, .groups = 3, .state = 21}};
  for (const CpuIsa isa : isas())
    for (const model::RecurrentSpec& spec : kinds) {
      CAPTURE(isa_name(isa), spec.heads);
      CpuFixture cpu(isa, 2);
      const bool each = spec.kind == model::RecurrentKind::mamba1;
      const bool steps = spec.kind != model::RecurrentKind::linear;
      const std::vector<int64_t> shape =
          each ? std::vector<int64_t>{spec.heads, spec.state} : std::vector<int64_t>{spec.heads};
      const LoadedWeight decay(*cpu, shape, WeightUse::vector, DType::f32, 1, 0.3);
      const LoadedWeight skip(*cpu, {spec.heads}, WeightUse::vector, DType::bf16, 2);
      const LoadedWeight bias(*cpu, {spec.heads}, WeightUse::vector, DType::bf16, 3);
      const Rows x = Rows::random(kRows, spec.width(), 4),
                 step = Rows::random(kRows, spec.heads, 5);
      const Rows b = Rows::random(kRows, spec.groups * spec.state, 6);
      const Rows c = Rows::random(kRows, spec.groups * spec.state, 7);
      check(
          spec.state_floats(), spec.width(),
          [&](const auto& rows, const auto& states, const BatchMeta& batch) {
            Rows x_of = pick(x, rows), step_of = pick(step, rows), b_of = pick(b, rows),
                 c_of = pick(c, rows), out(x_of.count(), spec.width());
            if (steps) {
              cpu->run(ops::SelectiveScan{out,
                                          {x_of, step_of, b_of, c_of},
                                          spec,
                                          {decay.weight, skip.weight, bias.weight},
                                          states,
                                          batch});
            } else {
              cpu->run(ops::SelectiveScan{
                  out, {x_of, {}, b_of, c_of}, spec, {.decay = decay.weight}, states, batch});
            }
            return out;
          },
          [&](int64_t s) {
            if (!steps) {
              return reference::selective_scan({.x = sequence_of(x, s),
                                                .step = Matrix(0, 0),
                                                .b = sequence_of(b, s),
                                                .c = sequence_of(c, s),
                                                .decay = decay.values.values,
                                                .skip = {},
                                                .step_bias = {}},
                                               spec);
            }
            return reference::selective_scan(
                {sequence_of(x, s), sequence_of(step, s), sequence_of(b, s), sequence_of(c, s),
                 decay.values.values, skip.values.values, bias.values.values},
                spec);
          });
    }
}

TEST_CASE("the gated delta rule forgets, corrects and reads") {
  const model::RecurrentSpec kinds[] = {{.kind = model::RecurrentKind::gated_delta,
                                         .heads = 4,
                                         .head_dim = 37,
                                         .groups = 2,
                                         .state = 21},
                                        {.kind = model::RecurrentKind::gated_delta,
                                         .heads = 2,
                                         .head_dim = 128,
                                         .groups = 2,
                                         .state = 64,
                                         .beta_factor = 2},
                                        {.kind = model::RecurrentKind::channel_delta,
                                         .heads = 3,
                                         .head_dim = 19,
                                         .groups = 3,
                                         .state = 19}};
  for (const CpuIsa isa : isas())
    for (const model::RecurrentSpec& spec : kinds) {
      CAPTURE(isa_name(isa), spec.head_dim);
      CpuFixture cpu(isa, 2);
      const LoadedWeight decay(*cpu, {spec.heads}, WeightUse::vector, DType::f32, 1);
      const bool each = spec.kind == model::RecurrentKind::channel_delta;
      const int64_t decays = spec.heads * (each ? spec.state : 1);
      const LoadedWeight bias(*cpu, {decays}, WeightUse::vector, DType::bf16, 3);
      const int64_t keys = spec.groups * spec.state;
      const Rows q = Rows::random(kRows, keys, 4), k = Rows::random(kRows, keys, 5);
      const Rows v = Rows::random(kRows, spec.width(), 6);
      const Rows beta = Rows::random(kRows, spec.heads, 7), step = Rows::random(kRows, decays, 8);
      check(
          spec.state_floats(), spec.width(),
          [&](const auto& rows, const auto& states, const BatchMeta& batch) {
            Rows q_of = pick(q, rows), k_of = pick(k, rows), v_of = pick(v, rows),
                 beta_of = pick(beta, rows), step_of = pick(step, rows),
                 out(q_of.count(), spec.width());
            cpu->run(ops::GatedDelta{out,
                                     {q_of, k_of, v_of, beta_of, step_of},
                                     spec,
                                     {decay.weight, bias.weight},
                                     states,
                                     batch});
            return out;
          },
          [&](int64_t s) {
            return reference::gated_delta(
                {sequence_of(q, s), sequence_of(k, s), sequence_of(v, s), sequence_of(beta, s),
                 sequence_of(step, s), decay.values.values, bias.values.values},
                spec);
          });
    }
}

TEST_CASE("gated linear recurrences take each channel by itself") {
  for (const CpuIsa isa : isas())
    for (const int64_t channels : {1, 21, 64}) {
      CAPTURE(isa_name(isa), channels);
      CpuFixture cpu(isa, 2);
      const model::RecurrentSpec spec{.kind = model::RecurrentKind::gated_linear,
                                      .heads = 3,
                                      .head_dim = channels,
                                      .groups = 3,
                                      .state = 1};
      // Decays near 1 and near 0: softplus of -6 to 2.
      LoadedWeight decay(*cpu, {spec.width()}, WeightUse::vector, DType::f32, 1, 4);
      const Rows x = Rows::random(kRows, spec.width(), 2);
      const Rows gates = Rows::random(kRows, 2 * spec.width(), 3);
      check(
          spec.state_floats(), spec.width(),
          [&](const auto& rows, const auto& states, const BatchMeta& batch) {
            Rows x_of = pick(x, rows), gates_of = pick(gates, rows),
                 out(x_of.count(), spec.width());
            cpu->run(
                ops::LinearRecurrence{out, {x_of, gates_of}, spec, decay.weight, states, batch});
            return out;
          },
          [&](int64_t s) {
            return reference::linear_recurrence(
                {sequence_of(x, s), sequence_of(gates, s), decay.values.values}, spec);
          });
    }
}

TEST_CASE("a norm's weight of several rows takes them in turn") {
  CpuFixture cpu(CpuIsa::portable, 1);
  const LoadedWeight weight(*cpu, {12}, WeightUse::vector, DType::f32, 1);
  const model::Norm spec{.epsilon = 1e-6f, .present = true};
  Rows in = Rows::random(6, 4, 2), out(6, 4);
  cpu->run(ops::Norm{out, in, spec, weight.weight, {}});
  const Matrix plain = reference::norm(in.matrix(), spec, {}, {});
  for (int64_t r = 0; r < 6; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      const double expected =
          plain.at(r, c) * weight.values.values[static_cast<size_t>(r % 3 * 4 + c)];
      CHECK(double(out.row(r)[c]) == Approx(expected).margin(1e-6));
    }
}

}  // namespace
}  // namespace plimsoll::testing
