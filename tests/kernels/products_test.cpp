// Products by cuBLASLt: operands as it reads them, epilogues, what is chosen when.
#include <catch2/catch.hpp>

#include "kernels/fixture.h"
#include "kernels/products/linear.h"
#include "reference/ops.h"

using namespace plimsoll;
using backend::View;
using backend::Weight;
using kernels::Pinning;
using kernels::Products;
using model::Activation;

namespace {

/// Sums of all sizes alike, or each with two large terms far apart that cancel each other: what is
/// added between them loses bits, so that results of 16 bits, too, tell one order from another.
enum class Terms : uint8_t { alike, cancelling };

testing::Matrix with_terms(testing::Matrix matrix, Terms terms, double first, double last) {
  if (terms == Terms::alike) return matrix;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    matrix.at(row, matrix.columns / 8) = first;
    matrix.at(row, matrix.columns - 1 - matrix.columns / 8) = last;
  }
  return matrix;
}

struct Operands {
  Operands(int64_t rows, int64_t n, int64_t k, DType in_type, DType out_type,
           Terms terms = Terms::alike)
      : in(with_terms(testing::random_matrix(rows, k, in_type, 1), terms, 512, 512)),
        weight(with_terms(testing::random_matrix(n, k, in_type, 2, 0.1), terms, 512, -512)),
        bias_values(testing::random_matrix(1, n, out_type, 3)),
        device_in(in, in_type),
        device_weight(weight, in_type),
        device_bias(bias_values, out_type),
        device_out(rows, n, out_type) {
    spec.name = "weight";
    spec.shape = {n, k};
    bias_spec.name = "bias";
    bias_spec.shape = {n};
  }

  [[nodiscard]] Weight weight_view() const {
    return {&spec, device_weight.view().dtype, device_weight.view().data};
  }
  [[nodiscard]] Weight bias_view() const {
    return {&bias_spec, device_bias.view().dtype, device_bias.view().data};
  }
  [[nodiscard]] double error(bool biased, Activation activation) const {
    const std::vector<double> bias = biased ? bias_values.values : std::vector<double>{};
    return testing::largest_error(device_out.matrix(),
                                  reference::linear(in, weight, bias, activation), 1);
  }

  testing::Matrix in, weight, bias_values;
  testing::DeviceRows device_in, device_weight, device_bias, device_out;
  model::WeightSpec spec, bias_spec;
};

/// Products with a workspace of their own.
struct Fixture {
  explicit Fixture(Pinning pinning = Pinning::by_rows) : products(pinning, stream.get()) {
    products.use_workspace(static_cast<std::byte*>(workspace.data()), workspace.size());
  }
  kernels::Stream stream;
  testing::DeviceBytes workspace{size_t{4} << 20};
  Products products;
};

/// Sums of float products rounded to the type: half a unit of it, and float's along K.
double tolerance(DType dtype, int64_t k) {
  return 2 * testing::epsilon(dtype) + static_cast<double>(k) * 0x1p-24;
}

}  // namespace

TEST_CASE("a product runs what was chosen for the next larger row count") {
  using kernels::kRowBuckets;
  using kernels::row_bucket;
  CHECK(kRowBuckets[row_bucket(1)] == 1);
  CHECK(kRowBuckets[row_bucket(2)] == 4);
  CHECK(kRowBuckets[row_bucket(130)] == 160);
  CHECK(kRowBuckets[row_bucket(160)] == 160);
  CHECK(kRowBuckets[row_bucket(1 << 20)] == kRowBuckets.back());
}

TEST_CASE("alignment is that of the address and of the rows") {
  const auto at = [](uintptr_t address, int64_t stride) {
    return kernels::common_alignment({reinterpret_cast<void*>(address), DType::bf16, 4, 8, stride});
  };
  CHECK(at(1 << 20, 128) == 256);
  CHECK(at(1 << 20, 64) == 128);
  CHECK(at((1 << 20) + 16, 128) == 16);
  CHECK(at(1 << 20, 9) == 2);
}

TEST_CASE("products agree with the reference in all types, with bias and activation") {
  Fixture fixture;
  for (const auto& [in, out] : {std::pair{DType::bf16, DType::bf16},
                                {DType::bf16, DType::f32},
                                {DType::f16, DType::f16},
                                {DType::f32, DType::f32}}) {
    for (const int64_t rows : {1, 5, 33, 130}) {
      Operands x(rows, 48, 72, in, out);
      for (const Activation activation :
           {Activation::none, Activation::relu, Activation::gelu_tanh}) {
        for (const bool biased : {false, true}) {
          INFO(torch_name(in) << " to " << torch_name(out) << ", " << rows << " rows, activation "
                              << static_cast<int>(activation) << (biased ? ", bias" : ""));
          const auto fused =
              fixture.products.run(x.device_out.view(), x.device_in.view(), x.weight_view(),
                                   biased ? x.bias_view() : Weight{}, activation);
          fixture.stream.wait();
          REQUIRE(fused.has_value());
          CHECK(fused->bias == biased);
          // GELU in the epilogue is too coarse for results in float32.
          const bool is_fused = activation != Activation::gelu_tanh || out != DType::f32;
          CHECK(fused->activation == is_fused);
          CHECK(x.error(biased, is_fused ? activation : Activation::none) <= tolerance(out, 72));
        }
      }
    }
  }
}

TEST_CASE("what the epilogue does not have is left to the caller") {
  Fixture fixture;
  Operands x(3, 16, 32, DType::bf16, DType::bf16);
  const auto fused = fixture.products.run(x.device_out.view(), x.device_in.view(), x.weight_view(),
                                          x.bias_view(), Activation::silu);
  fixture.stream.wait();
  REQUIRE(fused.has_value());
  CHECK(fused->bias);
  CHECK_FALSE(fused->activation);
  CHECK(x.error(true, Activation::none) <= tolerance(DType::bf16, 32));

  Operands mixed(3, 16, 32, DType::f32, DType::f32);
  const Operands narrow(3, 16, 32, DType::bf16, DType::bf16);
  CHECK_FALSE(fixture.products
                  .run(mixed.device_out.view(), narrow.device_in.view(), mixed.weight_view(), {},
                       Activation::none)
                  .has_value());
}

TEST_CASE("after tuning and the seal the same products run, and no others") {
  Fixture fixture;
  Operands x(40, 64, 96, DType::bf16, DType::bf16);
  const auto run = [&](Operands& of, int64_t rows) {
    return fixture.products
        .run(of.device_out.view().slice_rows(0, rows), of.device_in.view().slice_rows(0, rows),
             of.weight_view(), {}, Activation::none)
        .has_value();
  };
  REQUIRE(run(x, 40));
  testing::DeviceBytes scratch(size_t{1} << 20);
  fixture.products.tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, 100);
  fixture.products.seal();
  for (const int64_t rows : {1, 2, 7, 8, 31, 40}) CHECK(run(x, rows));  // buckets below were tuned
  Operands longer(100, 64, 96, DType::bf16, DType::bf16);
  CHECK(run(longer, 100));  // and those above, up to the rows that were named
  fixture.stream.wait();
  CHECK(x.error(false, Activation::none) <= tolerance(DType::bf16, 96));
  Operands never_seen(4, 80, 96, DType::bf16, DType::bf16);
  CHECK_FALSE(run(never_seen, 4));
}

TEST_CASE("one pinned algorithm gives a row the same bits in any batch") {
  const DType out = GENERATE(DType::bf16, DType::f16, DType::f32);
  INFO(torch_name(out));
  Fixture fixture(Pinning::single);
  Operands x(70, 64, 160, out == DType::f32 ? DType::bf16 : out, out, Terms::cancelling);
  const auto rows_of = [&](int64_t first, int64_t count) {
    REQUIRE(fixture.products
                .run(x.device_out.view().slice_rows(first, count),
                     x.device_in.view().slice_rows(first, count), x.weight_view(), {},
                     Activation::none)
                .has_value());
  };
  rows_of(0, 70);
  // The heuristic's first keeps no bits, here; the trial finds it out.
  testing::DeviceBytes scratch(size_t{1} << 20);
  fixture.products.tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, 70);
  fixture.products.seal();
  CHECK(fixture.products.refused().empty());
  rows_of(0, 70);
  fixture.stream.wait();
  const std::vector<double> together = x.device_out.matrix().values;
  for (int64_t row = 0; row < 70; ++row) rows_of(row, 1);
  fixture.stream.wait();
  CHECK((x.device_out.matrix().values == together));
}

TEST_CASE("one pinned algorithm gives a column the same bits beside any others") {
  constexpr int64_t kColumns = 600, kDepth = 160;
  Operands wide(5, kColumns, kDepth, DType::bf16, DType::bf16, Terms::cancelling);
  testing::DeviceBytes scratch(size_t{1} << 20);
  // Products of some columns alone, as on a rank that has only these: each launch chooses by
  // itself.
  const auto columns_of = [&](int64_t first, int64_t count) {
    Fixture fixture(Pinning::single);
    model::WeightSpec spec = wide.spec;
    spec.shape.front() = count;
    auto* const data = static_cast<std::byte*>(wide.device_weight.view().data) +
                       static_cast<size_t>(first * kDepth) * dtype_size(DType::bf16);
    const Weight weight{.spec = &spec, .dtype = DType::bf16, .data = data};
    const testing::DeviceRows out(5, count, DType::bf16);
    for (const bool tuned : {false, true}) {
      REQUIRE(fixture.products.run(out.view(), wide.device_in.view(), weight, {}, Activation::none)
                  .has_value());
      if (tuned) break;
      fixture.products.tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, 5);
      fixture.products.seal();
    }
    fixture.stream.wait();
    return out.matrix();
  };
  const testing::Matrix all = columns_of(0, kColumns);
  for (const int64_t count : {304, 8}) {
    for (const int64_t first : {int64_t{0}, kColumns - count}) {
      INFO("columns " << first << " to " << first + count);
      const testing::Matrix some = columns_of(first, count);
      size_t different = 0;
      for (int64_t row = 0; row < 5; ++row)
        for (int64_t i = 0; i < count; ++i)
          different += some.at(row, i) != all.at(row, first + i) ? 1 : 0;
      CHECK(different == 0);
    }
  }
}

TEST_CASE("slices of a product have the same bits beside any others") {
  constexpr int64_t kRows = 6, kColumns = 40, kDepth = 48;
  testing::DeviceBytes scratch(size_t{1} << 20);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    Operands x(kRows, kColumns, 8 * kDepth, dtype, dtype);
    // Slices from one on, of a rank that has so many.
    const auto slices_of = [&](int64_t first, int64_t count) {
      Fixture fixture(Pinning::single);
      const testing::DeviceRows sums(count * kRows, kColumns, DType::f32);
      // A rank's own matrices lie without gaps: others' are other strides.
      testing::Matrix in(kRows, count * kDepth), weight(kColumns, count * kDepth);
      const auto cut = [&](testing::Matrix& to, const testing::Matrix& from) {
        for (int64_t row = 0; row < to.rows; ++row)
          for (int64_t i = 0; i < to.columns; ++i)
            to.values[static_cast<size_t>(row * to.columns + i)] = from.at(row, first * kDepth + i);
      };
      cut(in, x.in);
      cut(weight, x.weight);
      const testing::DeviceRows device_in(in, dtype), device_weight(weight, dtype);
      for (const bool tuned : {false, true}) {
        REQUIRE(fixture.products.run_slices({.in = device_in.view(),
                                             .weight = device_weight.view(),
                                             .out = static_cast<float*>(sums.view().data),
                                             .out_stride = kColumns,
                                             .slices = count}));
        if (tuned) break;
        fixture.products.tune({static_cast<std::byte*>(scratch.data()), scratch.size()}, kRows);
        fixture.products.seal();
      }
      fixture.stream.wait();
      return sums.matrix();
    };
    const testing::Matrix all = slices_of(0, 8);
    for (const int64_t count : {1, 2, 4}) {
      const testing::Matrix some = slices_of(8 - count, count);
      CHECK((some.values == testing::slice_rows(all, (8 - count) * kRows, count * kRows).values));
    }
    double sum = 0;
    for (int64_t s = 0; s < 8; ++s) sum += all.at(s * kRows + 1, 2);
    CHECK(std::abs(sum - reference::linear(x.in, x.weight, {}, Activation::none).at(1, 2)) < 1e-3);
  }
}
