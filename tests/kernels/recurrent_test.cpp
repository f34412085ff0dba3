#include "reference/recurrent.h"
#include "kernels/recurrent_fixture.h"

namespace plimsoll::testing {
namespace {

struct ScanCase {
  model::RecurrentSpec spec;
  Layout layout = kAligned;
  DType vectors = DType::f32;
};

void check_scan(const ScanCase& c, DType dtype) {
  const model::RecurrentSpec& spec = c.spec;
  const bool each = spec.kind == model::RecurrentKind::mamba1;
  const bool steps = spec.kind != model::RecurrentKind::linear;
  Parameters decay(spec.heads * (each ? spec.state : 1), c.vectors, 1, 0.3);
  for (double& a : decay.values.values) a = -std::abs(a);
  decay.rows.upload(decay.values);
  const Parameters skip(spec.heads, dtype, 2), bias(spec.heads, dtype, 3);
  const int64_t shared = spec.groups * spec.state;
  // Sums of squares of a state's size: of size 1, as what models have.
  const double size = 1 / std::sqrt(double(spec.state));
  const Matrix x = random_rows(spec.width(), dtype, 4), step = random_rows(spec.heads, dtype, 5);
  const Matrix b = random_rows(shared, dtype, 6);
  const Matrix c_of_all = random_matrix(Sequences::kRows, shared, dtype, 7, size);
  check_steps(
      spec.state_floats(), spec.width(), recurrent_tolerance(dtype),
      [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
        const DeviceRows x_of(pick(x, rows), dtype, c.layout),
            step_of(pick(step, rows), dtype, c.layout), b_of(pick(b, rows), dtype, c.layout),
            c_of(pick(c_of_all, rows), dtype, c.layout),
            out(std::ssize(rows), spec.width(), dtype, c.layout);
        kernels::selective_scan(
            {.out = out.view(),
             .in = {x_of.view(), steps ? step_of.view() : View{}, b_of.view(), c_of.view()},
             .spec = &spec,
             .decay = decay.vector(),
             .decays_each = each,
             .skip = steps ? skip.vector() : Vector{},
             .step_bias = steps ? bias.vector() : Vector{},
             .states = states},
            batch, kStream);
        return out.matrix();
      },
      [&](size_t s) {
        const std::vector<double> none;
        return reference::selective_scan(
            {Sequences::of(x, s), steps ? Sequences::of(step, s) : Matrix(0, 0),
             Sequences::of(b, s), Sequences::of(c_of_all, s), decay.numbers(),
             steps ? skip.numbers() : none, steps ? bias.numbers() : none},
            spec);
      });
}

using model::RecurrentKind;

/// heads, head_dim, groups, state.
model::RecurrentSpec sizes(RecurrentKind kind, int64_t heads, int64_t head_dim, int64_t groups,
                           int64_t state) {
  return {.kind = kind, .heads = heads, .head_dim = head_dim, .groups = groups, .state = state};
}

}  // namespace

TEST_CASE("selective scans decay by number or by head") {
  const ScanCase cases[] = {
      {sizes(RecurrentKind::mamba1, 70, 1, 1, 16)},
      {sizes(RecurrentKind::mamba1, 37, 1, 1, 16), kOdd, DType::bf16},
      {sizes(RecurrentKind::mamba1, 21, 1, 3, 10)},
      {sizes(RecurrentKind::mamba1, 18, 1, 1, 130)},
      {sizes(RecurrentKind::mamba2, 6, 5, 3, 19)},
      {sizes(RecurrentKind::mamba2, 4, 8, 2, 12), {.gap = 4}},
      {sizes(RecurrentKind::mamba2, 2, 64, 1, 128)},
      {sizes(RecurrentKind::mamba2, 3, 32, 1, 64), kOdd},
      {sizes(RecurrentKind::mamba2, 2, 16, 2, 256)},
      {sizes(RecurrentKind::linear, 3, 21, 3, 21)},
      {sizes(RecurrentKind::linear, 2, 96, 2, 96)},
  };
  for (const DType dtype : kActivationTypes)
    for (const ScanCase& c : cases) {
      INFO(torch_name(dtype) << ", " << c.spec.heads << " heads of " << c.spec.head_dim
                             << ", states of " << c.spec.state);
      check_scan(c, dtype);
    }
}

TEST_CASE("the gated delta rule forgets, corrects and reads") {
  struct Case {
    model::RecurrentSpec spec;
    bool biased;
    Layout layout;
  };
  model::RecurrentSpec doubled = sizes(RecurrentKind::gated_delta, 2, 128, 2, 64);
  doubled.beta_factor = 2;
  model::RecurrentSpec tiled = sizes(RecurrentKind::gated_delta, 4, 37, 2, 21);
  tiled.tiled = true;
  const Case cases[] = {
      {sizes(RecurrentKind::gated_delta, 4, 37, 2, 21), true, kAligned},
      {tiled, true, kAligned},
      {doubled, false, kAligned},
      {sizes(RecurrentKind::gated_delta, 4, 40, 1, 128), true, {.gap = 4}},
      {sizes(RecurrentKind::gated_delta, 1, 32, 1, 200), true, kOdd},
      {sizes(RecurrentKind::channel_delta, 3, 19, 3, 19), true, kAligned},
      {sizes(RecurrentKind::channel_delta, 1, 40, 1, 128), true, kAligned},
  };
  for (const DType dtype : kActivationTypes)
    for (const Case& c : cases) {
      const model::RecurrentSpec& spec = c.spec;
      INFO(torch_name(dtype) << ", " << spec.heads << " heads of " << spec.head_dim << ", keys of "
                             << spec.state);
      const int64_t decays =
          spec.heads * (spec.kind == RecurrentKind::channel_delta ? spec.state : 1);
      const Parameters decay(spec.heads, DType::f32, 1), bias(decays, dtype, 3);
      const int64_t keys = spec.groups * spec.state;
      const Matrix q = random_rows(keys, dtype, 4), k = random_rows(keys, dtype, 5);
      const Matrix v = random_rows(spec.width(), dtype, 6);
      const Matrix beta = random_rows(spec.heads, dtype, 7), step = random_rows(decays, dtype, 8);
      check_steps(
          spec.state_floats(), spec.width(), recurrent_tolerance(dtype),
          [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
            const auto of = [&](const Matrix& all) { return pick(all, rows); };
            const DeviceRows q_of(of(q), dtype, c.layout), k_of(of(k), dtype, c.layout),
                v_of(of(v), dtype, c.layout), beta_of(of(beta), dtype, c.layout),
                step_of(of(step), dtype, c.layout),
                out(std::ssize(rows), spec.width(), dtype, c.layout);
            kernels::gated_delta(
                {.out = out.view(),
                 .in = {q_of.view(), k_of.view(), v_of.view(), beta_of.view(), step_of.view()},
                 .spec = &spec,
                 .decay_log = decay.vector(),
                 .step_bias = c.biased ? bias.vector() : Vector{},
                 .states = states},
                batch, kStream);
            return out.matrix();
          },
          [&](size_t s) {
            return reference::gated_delta(
                {Sequences::of(q, s), Sequences::of(k, s), Sequences::of(v, s),
                 Sequences::of(beta, s), Sequences::of(step, s), decay.numbers(),
                 c.biased ? bias.numbers() : std::vector<double>()},
                spec);
          });
    }
}

TEST_CASE("gated linear recurrences take each channel by itself") {
  for (const DType dtype : kActivationTypes)
    for (const int64_t channels : {1, 21, 64}) {
      INFO(torch_name(dtype) << ", heads of " << channels);
      const model::RecurrentSpec spec = sizes(RecurrentKind::gated_linear, 3, channels, 3, 1);
      // Decays near 1 and near 0: softplus of -6 to 2.
      const Parameters decay(spec.width(), DType::f32, 1, 2);
      const Matrix x = random_rows(spec.width(), dtype, 2);
      const Matrix gates = random_rows(2 * spec.width(), dtype, 3);
      check_steps(
          spec.width(), spec.width(), recurrent_tolerance(dtype),
          [&](const RowNumbers& rows, const backend::StateLayer& states, const DeviceBatch& batch) {
            const DeviceRows x_of(pick(x, rows), dtype), gates_of(pick(gates, rows), dtype, kOdd),
                out(std::ssize(rows), spec.width(), dtype, kOdd);
            kernels::linear_recurrence({.out = out.view(),
                                        .in = {x_of.view(), gates_of.view()},
                                        .head_dim = spec.head_dim,
                                        .decay = decay.vector(),
                                        .states = states},
                                       batch, kStream);
            return out.matrix();
          },
          [&](size_t s) {
            return reference::linear_recurrence(
                {Sequences::of(x, s), Sequences::of(gates, s), decay.numbers()}, spec);
          });
    }
}

}  // namespace plimsoll::testing
