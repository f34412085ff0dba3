#include "kernels/fixture.h"
#include "kernels/products/small_linear.h"

namespace plimsoll::testing {
namespace {

using backend::ProductEnd;
using model::Activation;

struct FusedCase {
  int64_t rows, n, k;
  ProductEnd end;
  bool biased = false;
  float offset = 0;
  bool has_gains = true;
};
const FusedCase kFusedCases[] = {
    {1, 8, 64, ProductEnd::stored},           {1, 7, 4104, ProductEnd::stored, true, 1},
    {2, 12, 2056, ProductEnd::gated},         {3, 10, 520, ProductEnd::gated, true},
    {4, 14, 88, ProductEnd::gated, false, 1}, {3, 6, 264, ProductEnd::stored, false, 0, false},
    {1, 9, 4096, ProductEnd::added},          {4, 5, 72, ProductEnd::added, true},
    {3, 12, 2064, ProductEnd::added}};

/// Result of the reference's ops in double.
Matrix expected_of(const FusedCase& c, const Matrix& in, const Matrix& gains, const Matrix& weight,
                   const std::vector<double>& bias, const Matrix& before) {
  Matrix x = in;
  if (c.end != ProductEnd::added) {
    const model::Norm norm{.epsilon = 1e-3f, .weight_offset = c.offset, .present = true};
    x = reference::norm(in, norm, c.has_gains ? gains.values : std::vector<double>{}, {});
  }
  Matrix product = reference::linear(x, weight, bias, Activation::none);
  if (c.end == ProductEnd::gated) {
    Matrix gated(c.rows, c.n / 2);
    for (int64_t t = 0; t < c.rows; ++t)
      for (int64_t i = 0; i < c.n / 2; ++i)
        gated.at(t, i) =
            reference::activate(Activation::silu, product.at(t, i)) * product.at(t, c.n / 2 + i);
    return gated;
  }
  if (c.end == ProductEnd::added) {
    for (size_t i = 0; i < product.values.size(); ++i) product.values[i] += before.values[i];
  }
  return product;
}

}  // namespace

TEST_CASE("fused products agree with the reference's norm, product and what follows") {
  for (const DType type : kActivationTypes)
    for (const FusedCase& c : kFusedCases) {
      INFO(torch_name(type) << " [" << c.rows << ", " << c.k << "] x " << c.n << ", end "
                            << static_cast<int>(c.end));
      const Matrix in = random_matrix(c.rows, c.k, type, 1), gains = random_matrix(1, c.k, type, 2);
      const Matrix weight = random_matrix(c.n, c.k, type, 3, 1 / std::sqrt(double(c.k)));
      const Matrix bias = random_matrix(1, c.n, type, 4);
      const int64_t columns = c.end == ProductEnd::gated ? c.n / 2 : c.n;
      const Matrix before = random_matrix(c.rows, columns, type, 5);
      const DeviceRows device_in(in, type), device_gains(gains, type), device_weight(weight, type),
          device_bias(bias, type);
      in_each_order([&] {
        const DeviceRows out(before, type, {.gap = 3});
        kernels::FusedSmallLinear op{
            .out = out.view(),
            .in = device_in.view(),
            .weight = device_weight.view(),
            .bias = c.biased ? kernels::Vector{device_bias.view().data, type} : kernels::Vector{},
            .normed = c.end != ProductEnd::added,
            .epsilon = 1e-3f,
            .weight_offset = c.offset,
            .gains = c.has_gains ? device_gains.view().data : nullptr,
            .end = c.end,
            .activation = Activation::silu};
        REQUIRE(kernels::covers_fused(op));
        kernels::fused_small_linear(op, kStream);
        const Matrix expected = expected_of(c, in, gains, weight,
                                            c.biased ? bias.values : std::vector<double>{}, before);
        // Sums of size 1 in float, of gates and ups a product of two; then one rounding.
        CHECK(largest_error(out.matrix(), expected, 1) <= epsilon(type) + 8e-6);
        for (const kernels::Feed feed : kernels::feeds()) {
          const DeviceRows fed(before, type, {.gap = 3});
          op.out = fed.view();
          op.feed = feed;
          kernels::fused_small_linear(op, kStream);
          CHECK(fed.matrix().values == out.matrix().values);
        }
      });
    }
}

TEST_CASE("a fused product gives a row the same bits beside others") {
  const Matrix in = random_matrix(4, 4096, DType::bf16, 1),
               weight = random_matrix(8, 4096, DType::bf16, 2);
  const DeviceRows device_in(in, DType::bf16), device_weight(weight, DType::bf16);
  const auto run = [&](int64_t first, int64_t rows) {
    const DeviceRows out(rows, 4, DType::bf16);
    kernels::fused_small_linear({.out = out.view(),
                                 .in = device_in.view().slice_rows(first, rows),
                                 .weight = device_weight.view(),
                                 .normed = true,
                                 .end = ProductEnd::gated,
                                 .activation = Activation::silu},
                                kStream);
    return out.matrix().values;
  };
  const std::vector<double> all = run(0, 4);
  for (const int64_t rows : {1, 2, 3}) {
    const std::vector<double> some = run(1, rows);
    CHECK(std::equal(some.begin(), some.end(), all.begin() + 4));
  }
}

TEST_CASE("what fused products do not cover is said ahead") {
  const DeviceRows in(1, 64, DType::bf16), weight(8, 64, DType::bf16), out(1, 8, DType::bf16);
  kernels::FusedSmallLinear op{.out = out.view(), .in = in.view(), .weight = weight.view()};
  op.normed = true;
  CHECK(kernels::covers_fused(op));
  op.end = ProductEnd::added;
  CHECK_FALSE(kernels::covers_fused(op));
  op.normed = false;
  CHECK(kernels::covers_fused(op));
  op.in.rows = op.out.rows = backend::kFusedRows + 1;
  CHECK_FALSE(kernels::covers_fused(op));
  op.in.rows = op.out.rows = 1;
  op.weight.dtype = DType::f32;
  CHECK_FALSE(kernels::covers_fused(op));
  op.weight = weight.view().slice_columns(1, 63);
  op.in = in.view().slice_columns(1, 63);
  CHECK_FALSE(kernels::covers_fused(op));
}

}  // namespace plimsoll::testing
