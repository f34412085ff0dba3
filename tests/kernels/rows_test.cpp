#include "kernels/rows/rows.h"

#include "kernels/fixture.h"

namespace plimsoll::testing {
namespace {

using kernels::Vector;
using model::Activation;
using model::NormKind;

/// One rounding to the type, and float arithmetic before it: sums of up to 10^4 terms in a tree and
/// functions within a few ulp.
double tolerance(DType dtype) {
  return 1.01 * epsilon(dtype) + 2e-6;
}

struct RowsCase {
  int64_t rows, columns;
  Layout layout;
};
const RowsCase kRowsCases[] = {
    {0, 64, kAligned},   {1, 1, kAligned},    {3, 8, kAligned},
    {5, 100, kAligned},  {2, 4096, kAligned}, {3, 77, kOdd},
    {4, 64, {.gap = 3}}, {2, 1500, kOdd},     {40, 16, kAligned},
};

template <typename F>
void for_rows_cases(F test) {
  for (const DType dtype : kActivationTypes)
    for (const RowsCase& row : kRowsCases) {
      INFO(torch_name(dtype) << " [" << row.rows << ", " << row.columns << "], gap "
                             << row.layout.gap << ", skew " << row.layout.skew);
      in_each_order([&] { test(dtype, row); });
    }
}

}  // namespace

TEST_CASE("embed gathers, scales and adds, past the table its first row") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix table = random_matrix(7, c.columns, dtype, 1);
    const Matrix before = random_matrix(c.rows, c.columns, dtype, 2);
    std::vector<int32_t> ids;
    const std::vector<int32_t> drawn{7, -2, 3};
    for (int64_t t = 0; t < c.rows; ++t) ids.push_back(static_cast<int32_t>((t * 5 + 1) % 9) - 3);
    const DeviceRows device_table(table, dtype, c.layout);
    const DeviceArray<int32_t> device_ids(ids), device_drawn(drawn), resolved(ids);
    for (const auto store : {kernels::Store::overwrite, kernels::Store::accumulate}) {
      const DeviceRows out(before, dtype, c.layout);
      kernels::embed({.out = out.view(),
                      .table = device_table.view(),
                      .ids = device_ids.data(),
                      .drawn = device_drawn.data(),
                      .resolved = resolved.data(),
                      .id_offset = 2,
                      .scale = 1.5,
                      .store = store},
                     kStream);
      Matrix expected(c.rows, c.columns);
      for (int64_t t = 0; t < c.rows; ++t)
        for (int64_t i = 0; i < c.columns; ++i) {
          const int32_t id = ids[static_cast<size_t>(t)];
          const int32_t row = id >= 0 ? id + 2 : drawn[static_cast<size_t>(-1 - id)];
          const double value = row < 0 ? 0 : 1.5 * table.at(row < 7 ? row : 0, i);
          const double old = store == kernels::Store::accumulate ? before.at(t, i) : 0;
          expected.at(t, i) = rounded(old + value, dtype);
        }
      std::vector<int32_t> known = ids;
      for (int32_t& id : known)
        if (id < 0) id = std::max(drawn[static_cast<size_t>(-1 - id)], 0);
      CHECK(resolved.download() == known);
      // One rounding of the product or of the sum; f32 sums round the product before.
      CHECK(largest_error(out.matrix(), expected, 1) <= (dtype == DType::f32 ? 1e-6 : 0));
    }
  });
}

TEST_CASE("gather_rows copies rows and gives zeros for padding") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(6, c.columns, dtype, 3);
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < c.rows; ++i) rows.push_back(static_cast<int32_t>(i * 5 % 7) - 1);
    const DeviceRows device_in(in, dtype, c.layout), out(c.rows, c.columns, dtype, c.layout);
    const DeviceArray<int32_t> device_rows(rows);
    kernels::gather_rows(out.view(), device_in.view(), device_rows.data(), kStream);
    Matrix expected(c.rows, c.columns);
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t j = 0; j < c.columns; ++j)
        expected.at(i, j) =
            rows[static_cast<size_t>(i)] < 0 ? 0 : in.at(rows[static_cast<size_t>(i)], j);
    CHECK(out.matrix().values == expected.values);
  });
}

TEST_CASE("norm agrees with the reference, with and without an addend") {
  struct NormCase {
    NormKind kind;
    float offset;
    bool weight, bias;
  };
  for_rows_cases([](DType dtype, const RowsCase& c) {
    for (const NormCase& kind :
         {NormCase{NormKind::rms, 0, true, false}, NormCase{NormKind::rms, 1, true, false},
          NormCase{NormKind::layer, 0, true, true}, NormCase{NormKind::layer, 0, false, false}}) {
      Matrix in = random_matrix(c.rows, c.columns, dtype, 4);
      for (double& x : in.values) x = rounded(x + 3, dtype);  // a mean that has to go
      const Matrix delta = random_matrix(c.rows, c.columns, dtype, 5);
      const Matrix weight = random_matrix(1, c.columns, dtype, 6);
      const Matrix bias = random_matrix(1, c.columns, DType::f32, 7);
      const model::Norm spec{
          .kind = kind.kind, .epsilon = 1e-5f, .weight_offset = kind.offset, .present = true};
      const DeviceRows device_weight(weight, dtype), device_bias(bias, DType::f32);
      const DeviceRows device_delta(delta, dtype, c.layout);
      Matrix sum = in;
      for (size_t i = 0; i < sum.values.size(); ++i)
        sum.values[i] = rounded(in.values[i] + delta.values[i], dtype);
      for (const bool add : {false, true}) {
        const DeviceRows residual(in, dtype, c.layout), out(c.rows, c.columns, dtype, c.layout);
        kernels::norm({.out = out.view(),
                       .in = residual.view(),
                       .delta = add ? device_delta.view() : View{},
                       .spec = spec,
                       .weight = kind.weight ? Vector{device_weight.view().data, dtype} : Vector{},
                       .bias = kind.bias ? Vector{device_bias.view().data, DType::f32} : Vector{}},
                      kStream);
        const Matrix& normed = add ? sum : in;
        const Matrix expected =
            reference::norm(normed, spec, kind.weight ? weight.values : std::vector<double>{},
                            kind.bias ? bias.values : std::vector<double>{});
        // The mean of layer norm cancels: errors relative to the largest, about 4.
        CHECK(largest_error(out.matrix(), expected, 1) <= 4 * tolerance(dtype));
        CHECK(residual.matrix().values == normed.values);
      }
    }
  });
}

TEST_CASE("norm in place, on rows wider than a block") {
  for (const DType dtype : kActivationTypes)
    in_each_order([&] {
      const Matrix in = random_matrix(2, 9000, dtype, 8);
      const DeviceRows rows(in, dtype);
      kernels::norm({.out = rows.view(), .in = rows.view(), .spec = {.present = true}}, kStream);
      CHECK(largest_error(rows.matrix(), reference::norm(in, {}, {}, {}), 1e-3) <=
            tolerance(dtype));
    });
}

TEST_CASE("a norm's weight of several rows takes them in turn") {
  constexpr int64_t kTurns = 3;
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(c.rows, c.columns, dtype, 4);
    const Matrix weight = random_matrix(kTurns, c.columns, dtype, 6);
    const DeviceRows device_weight(weight, dtype), rows(in, dtype, c.layout);
    const model::Norm spec{.epsilon = 1e-5f, .weight_offset = 1, .present = true};
    kernels::norm({.out = rows.view(),
                   .in = rows.view(),
                   .spec = spec,
                   .weight = {device_weight.view().data, dtype},
                   .turns = kTurns},
                  kStream);
    Matrix expected = reference::norm(in, spec, {}, {});
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t i = 0; i < c.columns; ++i) expected.at(t, i) *= weight.at(t % kTurns, i) + 1;
    CHECK(largest_error(rows.matrix(), expected, 1e-3) <= tolerance(dtype));
  });
}

TEST_CASE("rows take the size of others, or keep what lies above their spread") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(c.rows, c.columns, dtype, 18);
    Matrix like = random_matrix(c.rows, c.columns, dtype, 19, 3), small = in;
    for (double& x : small.values) x = rounded(x * 1e-3, dtype);  // below the least square
    const DeviceRows others(like, dtype, c.layout), sized(in, dtype, c.layout),
        grown(small, dtype, c.layout), kept(in, dtype, c.layout);
    kernels::compute(backend::ops::MatchSize{sized.view(), others.view()}, kStream);
    kernels::compute(backend::ops::MatchSize{grown.view(), others.view()}, kStream);
    kernels::compute(backend::ops::KeepAbove{kept.view(), 0.7f}, kStream);
    CHECK(largest_error(sized.matrix(), reference::match_size(in, like), 1e-3) <= tolerance(dtype));
    CHECK(largest_error(grown.matrix(), reference::match_size(small, like), 1e-3) <=
          tolerance(dtype));
    // Errors of keep_above(), a difference, are relative to its terms.
    CHECK(largest_error(kept.matrix(), reference::keep_above(in, double(0.7f)), 1) <=
          tolerance(dtype));
  });
}

TEST_CASE("add rounds once") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix a = random_matrix(c.rows, c.columns, dtype, 9);
    const Matrix b = random_matrix(c.rows, c.columns, dtype, 10);
    const DeviceRows residual(a, dtype, c.layout), delta(b, dtype, c.layout);
    kernels::compute(backend::ops::Add{residual.view(), delta.view()}, kStream);
    Matrix expected = a;
    for (size_t i = 0; i < a.values.size(); ++i)
      expected.values[i] = rounded(a.values[i] + b.values[i], dtype);
    CHECK(residual.matrix().values == expected.values);
  });
}

TEST_CASE("activations, gated and with a bias") {
  for (const Activation kind :
       {Activation::none, Activation::silu, Activation::gelu, Activation::gelu_tanh,
        Activation::relu, Activation::gelu_quick, Activation::relu_squared})
    for_rows_cases([kind](DType dtype, const RowsCase& c) {
      const Matrix in = random_matrix(c.rows, 2 * c.columns, dtype, 11, 3);
      const Matrix bias = random_matrix(1, c.columns, dtype, 12);
      const DeviceRows device_in(in, dtype, c.layout), out(c.rows, c.columns, dtype, c.layout);
      const DeviceRows device_bias(bias, dtype);
      kernels::compute(backend::ops::GatedActivation{out.view(), device_in.view(), kind}, kStream);
      const View left = device_in.view().slice_columns(0, c.columns);
      kernels::bias_activation(left, {device_bias.view().data, dtype}, kind, kStream);
      Matrix gated(c.rows, c.columns), biased = in;
      for (int64_t t = 0; t < c.rows; ++t)
        for (int64_t i = 0; i < c.columns; ++i) {
          gated.at(t, i) = reference::activate(kind, in.at(t, i)) * in.at(t, c.columns + i);
          biased.at(t, i) = reference::activate(kind, in.at(t, i) + bias.at(0, i));
        }
      // gelu of large negative numbers cancels: an error of 1e-7 of 1 there; half's smallest
      // number.
      CHECK(largest_error(out.matrix(), gated, 0.05) <= tolerance(dtype) + 2e-5);
      CHECK(largest_error(device_in.matrix(), biased, 0.05) <= tolerance(dtype) + 2e-5);
    });
}

TEST_CASE("limits of gates and ups") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(c.rows, 2 * c.columns, dtype, 31, 3);
    for (const model::GateLimits limits : {model::GateLimits{0.5f, 0.25f}, {0.5f, 0}, {0, 0.25f}}) {
      const DeviceRows cut(in, dtype, c.layout);
      kernels::compute(backend::ops::LimitGates{cut.view(), limits}, kStream);
      CHECK(largest_error(cut.matrix(), reference::limit_gates(in, limits), 1) == 0);
    }
  });
}

TEST_CASE("scale, gates and xIELU") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(c.rows, c.columns, dtype, 15, 2);
    const Matrix parameters = random_matrix(1, 4, dtype, 16);
    const DeviceRows device_parameters(parameters, dtype);
    const DeviceRows scaled(in, dtype, c.layout), bent(in, dtype, c.layout);
    kernels::compute(backend::ops::Scale{scaled.view(), 0.3f}, kStream);
    kernels::xielu(bent.view(), {device_parameters.view().data, dtype}, kStream);
    Matrix expected_scaled = in, expected_bent = in;
    for (double& x : expected_scaled.values) x *= double(0.3f);
    for (double& x : expected_bent.values) x = reference::xielu(parameters.values, x);
    CHECK(largest_error(scaled.matrix(), expected_scaled, 1e-3) <= tolerance(dtype));
    CHECK(largest_error(bent.matrix(), expected_bent, 0.05) <= tolerance(dtype) + 2e-5);
    for (const int64_t count : {c.columns, int64_t{1}})
      for (const auto kind : {model::GateKind::sigmoid, model::GateKind::softplus}) {
        const Matrix gates = random_matrix(c.rows, count, dtype, 17, 4);
        const DeviceRows device_gates(gates, dtype, c.layout), out(in, dtype, c.layout);
        kernels::compute(backend::ops::MultiplyGates{out.view(), device_gates.view(), kind},
                         kStream);
        Matrix expected = in;
        for (int64_t t = 0; t < c.rows; ++t)
          for (int64_t i = 0; i < c.columns; ++i) {
            const double gate = gates.at(t, i / (c.columns / count));
            expected.at(t, i) *= kind == model::GateKind::sigmoid ? 1 / (1 + std::exp(-gate))
                                                                  : reference::softplus(gate);
          }
        // Gates of -16 shrink to 1e-7: errors relative to 1e-3.
        CHECK(largest_error(out.matrix(), expected, 1e-3) <= tolerance(dtype) + 1e-4);
      }
  });
}

TEST_CASE("copy_heads") {
  const backend::HeadColumns columns{
      .heads = 3, .width = 4, .from = 2, .from_stride = 7, .to = 1, .to_stride = 5};
  for (const DType dtype : kActivationTypes) {
    const Matrix in = random_matrix(9, 22, dtype, 13), before = random_matrix(9, 18, dtype, 14);
    const DeviceRows from(in, dtype, kOdd);
    in_each_order([&] {
      const DeviceRows out(before, dtype, kOdd), cleared(before, dtype);
      kernels::compute(backend::ops::CopyHeads{out.view(), from.view(), columns}, kStream);
      kernels::compute(backend::ops::CopyHeads{cleared.view(), {}, columns}, kStream);
      Matrix expected = before, zeros = before;
      for (int64_t t = 0; t < 9; ++t)
        for (int64_t h = 0; h < columns.heads; ++h)
          for (int64_t i = 0; i < columns.width; ++i) {
            expected.at(t, 1 + 5 * h + i) = in.at(t, 2 + 7 * h + i);
            zeros.at(t, 1 + 5 * h + i) = 0;
          }
      CHECK(out.matrix().values == expected.values);
      CHECK(cleared.matrix().values == zeros.values);
    });
  }
}

TEST_CASE("soft_cap") {
  for_rows_cases([](DType dtype, const RowsCase& c) {
    const Matrix in = random_matrix(c.rows, c.columns, dtype, 13, 40);
    const DeviceRows x(in, dtype, c.layout);
    kernels::compute(backend::ops::SoftCap{x.view(), 30}, kStream);
    Matrix expected = in;
    for (double& value : expected.values) value = 30 * std::tanh(value / 30);
    CHECK(largest_error(x.matrix(), expected, 1e-3) <= tolerance(dtype));
  });
}

TEST_CASE("factors multiply each number by its index, or all of them") {
  constexpr int64_t kRows = 7, kChosen = 5, kFactors = 12;
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i < kRows * kChosen; ++i)
    numbers.push_back(static_cast<int32_t>(i * 5 % kFactors));
  const DeviceArray<int32_t> device_numbers(numbers);
  const View indices{device_numbers.data(), DType::i32, kRows, kChosen, kChosen};
  for (const DType dtype : kActivationTypes) {
    INFO(torch_name(dtype));
    const Matrix in = random_matrix(kRows, kChosen, dtype, 1);
    const Matrix factors = random_matrix(1, kFactors, dtype, 2);
    const DeviceRows device_factors(factors, dtype);
    const kernels::Vector by{device_factors.view().data, dtype};
    const DeviceRows each(in, dtype, kOdd), all(in, dtype, kOdd);
    kernels::multiply_factors(each.view(), by, indices, kStream);
    kernels::multiply_factors(all.view(), by, {}, kStream);
    Matrix expected_each = in, expected_all = in;
    for (size_t i = 0; i < in.values.size(); ++i) {
      expected_each.values[i] *= factors.values[static_cast<size_t>(numbers[i])];
      expected_all.values[i] *= factors.values[0];
    }
    CHECK(largest_error(each.matrix(), expected_each, 1e-3) <= tolerance(dtype));
    CHECK(largest_error(all.matrix(), expected_all, 1e-3) <= tolerance(dtype));
  }
}

TEST_CASE("a row has the same bits alone and among others") {
  const Matrix in = random_matrix(7, 300, DType::bf16, 14);
  const DeviceRows all(in, DType::bf16), one(in, DType::bf16);
  const model::Norm spec{.present = true};
  kernels::norm({.out = all.view(), .in = all.view(), .spec = spec}, kStream);
  const View fifth = one.view().slice_rows(5, 1);
  kernels::norm({.out = fifth, .in = fifth, .spec = spec}, kStream);
  for (int64_t i = 0; i < 300; ++i) CHECK(all.matrix().at(5, i) == one.matrix().at(5, i));
}

}  // namespace plimsoll::testing
