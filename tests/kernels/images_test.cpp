// Kernels on rows for image encoders and their embeddings.
#include "kernels/fixture.h"
#include "kernels/rows/rows.h"

namespace plimsoll::testing {
namespace {

struct Width {
  int64_t columns;
  Layout layout;
};
const Width kWidths[] = {{8, kAligned}, {100, kAligned}, {1152, kAligned}, {77, kOdd}};

template <typename F>
void for_widths(F test) {
  for (const DType dtype : kActivationTypes)
    for (const Width& width : kWidths) {
      INFO(torch_name(dtype) << ", " << width.columns << " columns, gap " << width.layout.gap);
      in_each_order([&] { test(dtype, width); });
    }
}

}  // namespace

TEST_CASE("place_rows takes the place of some rows") {
  for_widths([](DType dtype, const Width& width) {
    const Matrix before = random_matrix(7, width.columns, dtype, 1);
    const Matrix embeddings = random_matrix(5, width.columns, dtype, 2);
    const std::vector<int32_t> to{6, 0, 3}, from{1, 4, 1};
    const DeviceArray<int32_t> device_to(to), device_from(from);
    const DeviceRows out(before, dtype, width.layout), in(embeddings, dtype, width.layout);
    kernels::place_rows({.out = out.view(),
                         .in = in.view(),
                         .out_rows = device_to.data(),
                         .in_rows = device_from.data(),
                         .count = 3},
                        kStream);
    Matrix expected = before;
    for (size_t i = 0; i < to.size(); ++i)
      for (int64_t j = 0; j < width.columns; ++j) expected.at(to[i], j) = embeddings.at(from[i], j);
    CHECK(out.matrix().values == expected.values);
  });
}

TEST_CASE("average_parts rounds the mean of parts once") {
  for_widths([](DType dtype, const Width& width) {
    for (const int64_t parts : {1, 4, 9}) {
      const Matrix values = random_matrix(3, parts * width.columns, dtype, 3);
      const DeviceRows in(values, dtype, width.layout), out(3, width.columns, dtype, width.layout);
      kernels::compute(backend::ops::AverageParts{out.view(), in.view()}, kStream);
      Matrix expected(3, width.columns);
      for (int64_t t = 0; t < 3; ++t)
        for (int64_t i = 0; i < parts * width.columns; ++i)
          expected.at(t, i % width.columns) += values.at(t, i) / double(parts);
      // A sum of nine numbers in float, of size 3 at most, and one rounding.
      CHECK(largest_error(out.matrix(), expected, 1) <= 1.01 * epsilon(dtype) + 1e-6);
    }
  });
}

TEST_CASE("scale_columns multiplies each column by its factor") {
  for_widths([](DType dtype, const Width& width) {
    for (const DType stored : {dtype, DType::f32}) {
      const Matrix before = random_matrix(4, width.columns, dtype, 4);
      const Matrix factors = random_matrix(1, width.columns, stored, 5);
      const DeviceRows x(before, dtype, width.layout), device_factors(factors, stored);
      kernels::scale_columns(x.view(), {device_factors.view().data, stored}, kStream);
      Matrix expected = before;
      for (int64_t t = 0; t < 4; ++t)
        for (int64_t i = 0; i < width.columns; ++i) expected.at(t, i) *= factors.at(0, i);
      CHECK(largest_error(x.matrix(), expected, 1e-3) <= 1.01 * epsilon(dtype) + 2e-7);
    }
  });
}

}  // namespace plimsoll::testing
