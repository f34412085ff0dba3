// Choice of the kernel for products of few rows: ways that are tried, that may not be, that are
// remembered.
#include "kernels/products/few_rows_choice.h"

#include <catch2/catch.hpp>

#include "kernels/fixture.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using backend::Weight;
using kernels::FewRowsChoice;
using model::Activation;

/// A product of bf16 rows with a matrix [16, k] on a card.
struct Chosen {
  explicit Chosen(int64_t columns = 256)
      : matrix(random_matrix(16, columns, DType::bf16, 1), DType::bf16),
        in(8, columns, DType::bf16),
        out(8, 16, DType::bf16) {
    spec.name = "weight";
    spec.shape = {16, columns};
    products.use_workspace(static_cast<std::byte*>(workspace.data()), workspace.size());
  }

  FewRowsChoice::Way of(int64_t rows, bool alike = false) {
    const View some_in = in.view().slice_rows(0, rows), some_out = out.view().slice_rows(0, rows);
    model::WeightSpec described = spec;  // as a part's, which lives no longer than the call
    const Weight weight{&described, DType::bf16, matrix.view().data}, no_bias;
    const FewRowsChoice::Way way =
        choice.of({some_out, some_in, weight, no_bias, Activation::none, alike});
    described.shape = {0, 0};
    return way;
  }
  void tune(size_t room = size_t{1} << 16) {
    const DeviceBytes scratch(room);
    choice.tune({static_cast<std::byte*>(scratch.data()), scratch.size()});
  }

  model::WeightSpec spec;
  DeviceRows matrix, in, out;
  kernels::Stream stream;
  DeviceBytes workspace{size_t{4} << 20};
  kernels::Products products{kernels::Pinning::by_rows, stream.get()};
  FewRowsChoice choice{products, stream.get(), 0};
};

}  // namespace

TEST_CASE("products of few rows are small_linear's until others were tried") {
  Chosen chosen;
  for (const int64_t rows : {1, 2, 4, 8}) {
    CHECK_FALSE(chosen.of(rows).cublaslt);
    CHECK(chosen.of(rows).feed == kernels::Feed::registers);
  }
  CHECK(chosen.choice.notes().empty());
  chosen.tune(1024);  // no room for rows
  CHECK_FALSE(chosen.of(8).cublaslt);
}

TEST_CASE("of one or two rows cuBLASLt is not tried, nor where ranks must agree") {
  Chosen chosen;
  (void)chosen.of(8);
  (void)chosen.of(8, true);
  chosen.tune();
  CHECK_FALSE(chosen.of(1).cublaslt);
  CHECK_FALSE(chosen.of(2).cublaslt);
  for (const int64_t rows : {1, 4, 8}) CHECK_FALSE(chosen.of(rows, true).cublaslt);
}

TEST_CASE("matrices that take no longer than a launch are not tried") {
  Chosen chosen;
  kernels::FewRowsChoice choice(chosen.products, chosen.stream.get());
  const Weight weight{&chosen.spec, DType::bf16, chosen.matrix.view().data}, no_bias;
  const auto of = [&] {
    return choice.of(
        {chosen.out.view(), chosen.in.view(), weight, no_bias, Activation::none, false});
  };
  (void)of();
  const DeviceBytes scratch(size_t{1} << 16);
  choice.tune({static_cast<std::byte*>(scratch.data()), scratch.size()});
  CHECK_FALSE(of().cublaslt);
  CHECK(of().feed == kernels::Feed::registers);
}

TEST_CASE("odd matrices stay with small_linear by registers") {
  Chosen chosen(333);
  (void)chosen.of(8);
  chosen.tune();
  CHECK_FALSE(chosen.of(8).cublaslt);
  CHECK(chosen.of(1).feed == kernels::Feed::registers);
}

#ifdef PLIMSOLL_EMULATION
// The clock is certain in emulation: cuBLASLt is a loop there, and small_linear runs instructions
// on fibers.
TEST_CASE("what was faster in a trial is taken from then on, and noted") {
  Chosen chosen;
  (void)chosen.of(3);
  chosen.tune();
  for (const int64_t rows : {3, 4, 5, 8}) CHECK(chosen.of(rows).cublaslt);
  const std::vector<std::string> notes = chosen.choice.notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "product of bfloat16 with a bfloat16 matrix [16, 256]: of 3 to 4, 5 to 8 rows cuBLASLt was "
        "faster");
  chosen.choice.seal();
  CHECK(chosen.of(8).cublaslt);
  chosen.spec.shape = {8, 256};  // another product, too late
  CHECK_FALSE(chosen.of(8).cublaslt);
  chosen.tune();
  CHECK_FALSE(chosen.of(8).cublaslt);
}
#endif

}  // namespace plimsoll::testing
