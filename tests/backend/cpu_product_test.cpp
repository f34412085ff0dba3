#include "backend/cpu_fixture.h"
#include "bench/product_cases.h"
#include "like_cases.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using model::Activation;
using model::WeightUse;

/// Rounding of the inputs to bf16 (2^-9 each) is all that bf16 products may add; sums are float.
double tolerance(DType dtype) {
  return dtype == DType::bf16 ? 4e-3 : 1e-6;
}

TEST_CASE("products agree with the reference for every instruction set, type and shape") {
  size_t number = 0;
  for (const Processor& on : processors())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const ProductCase& shape : kSmallProducts)
        for (const int64_t rows : {1, 2, 5, 13, 40}) {
          if (!testing::is_taken_sanitized(number++, 3)) continue;
          CAPTURE(on.name(), torch_name(dtype), shape.name, rows);
          CpuFixture cpu(on, 2);
          const LoadedWeight w(*cpu, {shape.n, shape.k}, WeightUse::linear, dtype, 1);
          const LoadedWeight bias(*cpu, {shape.n}, WeightUse::vector, dtype, 2);
          Rows in = Rows::random(rows, shape.k, 3);
          Rows out(rows, shape.n);
          cpu->run(ops::Linear{out, in, w.weight, bias.weight, Activation::none});
          const Matrix expected =
              reference::linear(in.matrix(), w.values, bias.values.values, Activation::none);
          CHECK(distance(out.matrix(), expected) < tolerance(dtype));
        }
}

TEST_CASE("a row's product has the same bits beside any other rows, on any number of threads") {
  size_t number = 0;
  for (const Processor& on : processors())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const ProductCase& shape : kSmallProducts) {
        CAPTURE(on.name(), torch_name(dtype), shape.name);
        CpuFixture one(on, 1);
        CpuFixture three(on, 3);
        const LoadedWeight w(*one, {shape.n, shape.k}, WeightUse::linear, dtype, 1);
        Rows in = Rows::random(61, shape.k, 3);
        Rows together(61, shape.n);
        three->run(ops::Linear{together, in, w.weight, {}, Activation::silu});
        for (int64_t rows = 1; rows <= 30; ++rows) {
          if (!testing::is_taken_sanitized(number++, 7)) continue;
          Rows some(rows, shape.n);
          const int64_t first = rows % 7;
          one->run(
              ops::Linear{some, View(in).slice_rows(first, rows), w.weight, {}, Activation::silu});
          for (int64_t r = 0; r < rows; ++r) REQUIRE(some.same_bits(r, together, first + r));
        }
      }
}

/// One rank's columns of a row-parallel weight, as it lies in a backend.
class RowShare {
 public:
  RowShare(backend::Backend& backend, const Matrix& values, DType dtype, int64_t rank,
           int64_t ranks)
      : spec_{.name = "weight",
              .shape = {values.rows, values.columns / ranks},
              .split = model::Split::row,
              .slices = model::slices_of(values.columns) / ranks,
              .ranks = ranks},
        storage_(backend.footprint().weight_bytes(spec_, dtype)) {
    const int64_t columns = spec_.columns();
    weight = backend.load_weight(
        spec_, dtype, storage_.data(), [&](int64_t first, int64_t count, void* to) {
          auto* out = static_cast<std::byte*>(to);
          const size_t row = static_cast<size_t>(columns) * dtype_size(dtype);
          for (int64_t r = 0; r < count; ++r)
            convert(
                &values.values[static_cast<size_t>((first + r) * values.columns + rank * columns)],
                DType::f64, out + static_cast<size_t>(r) * row, dtype,
                static_cast<size_t>(columns));
        });
  }
  RowShare(const RowShare&) = delete;
  RowShare& operator=(const RowShare&) = delete;

 private:
  model::WeightSpec spec_;
  std::vector<std::byte> storage_;

 public:
  backend::Weight weight;
};

/// out += other, element by element.
void add_rows(Rows& out, const Rows& other) {
  for (int64_t r = 0; r < out.count(); ++r)
    for (int64_t c = 0; c < out.columns(); ++c) out.row(r)[c] += other.row(r)[c];
}

TEST_CASE("a sum that ranks share has the bits that one rank's has") {
  size_t number = 0;
  for (const Processor& on : processors())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const int64_t k : {48, 64, 208, 1040, 8320})
        for (const int64_t rows : {1, 4, 7, 150}) {
          if (!testing::is_taken_sanitized(number++, 7)) continue;
          CpuFixture cpu(on, 1);
          const LoadedWeight values(*cpu, {33, k}, WeightUse::linear, dtype, 1);
          const LoadedWeight bias(*cpu, {33}, WeightUse::vector, dtype, 2);
          const RowShare whole(*cpu, values.values, dtype, 0, 1);
          Rows in = Rows::random(rows, k, 3);
          Rows expected(rows, 33);
          cpu->run(ops::Linear{expected, in, whole.weight, bias.weight, Activation::silu});
          const Matrix reference =
              reference::linear(in.matrix(), values.values, bias.values.values, Activation::silu);
          CHECK(distance(expected.matrix(), reference) < tolerance(dtype));
          cpu->run(ops::Linear{expected, in, whole.weight, bias.weight, Activation::none});
          for (const int64_t ranks : {2, 4, 8}) {
            CAPTURE(on.name(), torch_name(dtype), k, rows, ranks);
            if (model::slices_of(k) < ranks) continue;
            std::vector<Rows> sums;
            for (int64_t rank = 0; rank < ranks; ++rank) {
              const RowShare share(*cpu, values.values, dtype, rank, ranks);
              Rows& sum = sums.emplace_back(rows, 33);
              cpu->run(ops::Linear{sum, View(in).slice_columns(rank * k / ranks, k / ranks),
                                   share.weight, rank == 0 ? bias.weight : backend::Weight{},
                                   Activation::none});
            }
            for (size_t step = 1; step < sums.size(); step *= 2)
              for (size_t rank = 0; rank < sums.size(); rank += 2 * step)
                add_rows(sums[rank], sums[rank + step]);
            for (int64_t r = 0; r < rows; ++r) REQUIRE(sums.front().same_bits(r, expected, r));
          }
        }
}

TEST_CASE("sums are cut into as many slices as ranks of 2, 4 or 8 can share") {
  CHECK(model::slices_of(4096) == 8);
  CHECK(model::slices_of(48) == 8);
  CHECK(model::slices_of(24) == 4);  // pairs stay whole
  CHECK(model::slices_of(17) == 1);
}

TEST_CASE("a product does not write beyond its columns") {
  for (const Processor& on : processors()) {
    CpuFixture cpu(on, 1);
    const LoadedWeight w(*cpu, {33, 40}, WeightUse::linear, DType::bf16, 1);
    Rows in = Rows::random(3, 40, 2);
    Rows out = Rows::random(3, 50, 3);
    const Rows before = out;
    cpu->run(ops::Linear{View(out).slice_columns(0, 33), in, w.weight, {}, Activation::none});
    for (int64_t r = 0; r < 3; ++r)
      CHECK(std::memcmp(out.row(r) + 33, before.row(r) + 33, 17 * sizeof(float)) == 0);
  }
}

TEST_CASE("every activation follows its formula") {
  const Activation kinds[] = {Activation::silu, Activation::gelu,       Activation::gelu_tanh,
                              Activation::relu, Activation::gelu_quick, Activation::relu_squared};
  for (const CpuIsa isa : isas())
    for (const Activation kind : kinds) {
      CAPTURE(isa_name(isa), static_cast<int>(kind));
      CpuFixture cpu(isa, 1);
      Rows in(1, 2 * 4001);
      Rows out(1, 4001);
      for (int i = 0; i < 4001; ++i) {
        in.row(0)[i] = static_cast<float>(i - 2000) / 100.f;
        in.row(0)[4001 + i] = 1;
      }
      cpu->run(ops::GatedActivation{out, in, kind});
      for (int i = 0; i < 4001; ++i) {
        const auto x = double(in.row(0)[i]);
        // Relative to the larger of result and 1e-1 |x|: 1 + erf cancels for negative x.
        const double expected = reference::activate(kind, x);
        REQUIRE(std::abs(double(out.row(0)[i]) - expected) <=
                4e-7 * std::max(std::abs(expected), 0.5 * std::abs(x)) + 1e-30);
      }
    }
}

TEST_CASE("tables are gathered from rows and from strips") {
  const std::vector<int32_t> ids = {0, 31, 32, 69, 5}, positions = {1, 32, 33, 70, 6};
  const backend::BatchMeta batch{.token_ids = ids, .positions = positions};
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (const WeightUse use : {WeightUse::linear, WeightUse::embedding}) {
      CpuFixture cpu(backend::detect_isa(), 2);
      const LoadedWeight table(*cpu, {70, 45}, use, dtype, 1);
      Rows out(5, 45);
      cpu->run(ops::Embed{out, table.weight, batch, 3.f});
      cpu->run(ops::EmbedPositions{out, table.weight, batch, -1});
      for (int64_t r = 0; r < 5; ++r)
        for (int64_t c = 0; c < 45; ++c) {
          const auto value = static_cast<float>(table.values.at(ids[static_cast<size_t>(r)], c));
          REQUIRE(out.row(r)[c] == value * 3.f + value);
        }
    }
}

}  // namespace
}  // namespace plimsoll::testing
