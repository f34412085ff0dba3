// Products with float8 weights by cuBLASLt: rows and weights as it takes them, and when it is used.
#include "kernels/products/fp8.h"

#include "kernels/packed_fixture.h"
#include "kernels/products/unpack_fp8.h"

namespace plimsoll::testing {
namespace {

using backend::cuda::Fp8Product;
using backend::cuda::kFp8Rows;
using kernels::Fp8Linear;
using kernels::Fp8Products;
using model::Activation;
using model::InputRounding;
using model::Packing;

Packing fp8(InputRounding inputs, int64_t group = 0) {
  return {.format = model::PackedFormat::fp8,
          .code = model::Code::e4m3,
          .bits = 8,
          .group = group,
          .inputs = inputs};
}

/// One part, rows of bf16 and all that a product takes.
struct Fixture {
  Fixture(const Packing& packing, int64_t rows, int64_t n, int64_t k,
          size_t weight_bytes = backend::cuda::kFp8WeightBytes)
      : weight(packing, {n}, k, DType::bf16),
        in(random_matrix(rows, k, DType::bf16, 1)),
        bias(random_matrix(1, n, DType::bf16, 3)),
        device_in(in, DType::bf16),
        device_bias(bias, DType::bf16),
        out(rows, n, DType::bf16),
        op(product(packing, rows, weight_bytes)) {
    products.use_workspace(static_cast<std::byte*>(library.data()), library.size());
  }
  [[nodiscard]] Matrix expected() const {
    return reference::linear(rounded_rows(in, op.part.packing->inputs), weight.values, bias.values,
                             Activation::silu);
  }
  [[nodiscard]] double error() const {
    return largest_error(out.matrix(), expected(), typical_size(expected()));
  }

  kernels::Stream stream;
  DeviceBytes library{size_t{4} << 20};
  kernels::Products products{kernels::Pinning::by_rows, stream.get()};
  PackedWeight weight;
  Matrix in, bias;
  DeviceRows device_in, device_bias, out;
  std::unique_ptr<DeviceBytes> workspace{};
  Fp8Linear op;

 private:
  Fp8Linear product(const Packing& packing, int64_t rows, size_t weight_bytes) {
    const backend::Segments segments = backend::cuda::packed_segments(weight.spec, DType::bf16, 0);
    const kernels::PackedPart part =
        kernels::packed_part(weight.spec, weight.bytes->data(), segments, segments.parts.front());
    workspace =
        std::make_unique<DeviceBytes>(Fp8Product(part.layout, packing, rows, weight_bytes).bytes);
    return {.out = out.view(),
            .in = device_in.view(),
            .part = part,
            .bias = {device_bias.view().data, DType::bf16},
            .activation = Activation::silu,
            .workspace = static_cast<std::byte*>(workspace->data()),
            .weight_bytes = weight_bytes};
  }
};

}  // namespace

TEST_CASE("float8 weights are unpacked to the rows that were packed") {
  for (const auto& [group, columns] :
       {std::pair<int64_t, int64_t>{0, 256}, {128, 256}, {0, 304}, {0, 336}}) {
    INFO(columns << " columns in groups of " << group);
    const Packing packing = fp8(InputRounding::fp8_token, group);
    Fixture f(packing, 1, 48, columns);
    const int64_t first = 16, count = 32, groups = f.op.part.layout.groups;
    in_each_order([&] {
      const DeviceBytes codes(static_cast<size_t>(count * columns)), scales(4 * count * groups);
      kernels::unpack_fp8({f.op.part, first, count, static_cast<unsigned char*>(codes.data()),
                           static_cast<float*>(scales.data())},
                          kStream);
      require(cudaDeviceSynchronize());
      std::vector<uint8_t> bytes(static_cast<size_t>(count * columns));
      std::vector<float> factors(static_cast<size_t>(count * groups));
      codes.download(bytes.data());
      scales.download(factors.data());
      for (int64_t o = 0; o < count; ++o)
        for (int64_t n = 0; n < columns; ++n) {
          const int64_t g = group > 0 ? n / group : 0;
          const double value = double{e4m3_to_float(bytes[static_cast<size_t>(o * columns + n)])} *
                               double{factors[static_cast<size_t>(g * count + o)]};
          REQUIRE(value == f.weight.values.at(first + o, n));
        }
    });
  }
}

#ifdef PLIMSOLL_EMULATION
TEST_CASE("float8 products by cuBLASLt agree with the reference") {
  const OnCard hopper(emulation::kHopper);
  struct Row {
    InputRounding inputs;
    int64_t group;
  };
  for (const Row& row : {Row{InputRounding::fp8_token, 0}, Row{InputRounding::fp8_static, 0},
                         Row{InputRounding::fp8_bounded, 0}, Row{InputRounding::fp8_group, 128}}) {
    INFO(static_cast<int>(row.inputs));
    // The second in pieces of 128 outputs.
    for (const size_t weight_bytes : {backend::cuda::kFp8WeightBytes, size_t{1}}) {
      Fixture f(fp8(row.inputs, row.group), 130, 208, 256, weight_bytes);
      Fp8Products fp8(f.products, f.stream.get());
      REQUIRE(fp8.multiply(f.op));
      f.stream.wait();
      // Results are rounded to bf16, twice where an activation follows; sums of 256 are float's.
      CHECK(f.error() < 3 * epsilon(DType::bf16));
    }
  }
}

TEST_CASE("a float8 product is tried by numbers and clock before it is used") {
  emulation::Card card = emulation::kHopper;
  for (const bool lies : {false, true}) {
    card.other_scales = lies;
    const OnCard hopper(card);
    Fixture f(fp8(InputRounding::fp8_token), 160, 64, 128);
    Fp8Products fp8(f.products, f.stream.get());
    CHECK_FALSE(fp8.run(f.op));
    const DeviceBytes scratch(size_t{4} << 20);
    fp8.tune({static_cast<std::byte*>(scratch.data()), scratch.size()});
    f.products.seal();
    const bool used = fp8.run(f.op);
    f.stream.wait();
    if (lies) CHECK_FALSE(used);
    if (used) CHECK(f.error() < 3 * epsilon(DType::bf16));
    f.op.in.rows = f.op.out.rows = kFp8Rows - 1;
    CHECK_FALSE(fp8.run(f.op));
  }
}

TEST_CASE("cuBLASLt's float8 is not for every card and size") {
  {
    Fixture f(fp8(InputRounding::fp8_token), 128, 64, 128);  // on a card of 8.0
    CHECK_FALSE(Fp8Products(f.products, f.stream.get()).multiply(f.op));
  }
  const OnCard hopper(emulation::kHopper);
  Fixture odd(fp8(InputRounding::fp8_token), 128, 40, 128);  // outputs that are no multiple of 16
  CHECK_FALSE(Fp8Products(odd.products, odd.stream.get()).multiply(odd.op));
}
#endif

TEST_CASE("which products are multiplied in float8 follows from sizes, rounding and card") {
  const backend::CardFigures hopper;
  const auto takes = [&](const Packing& packing, int64_t n, int64_t k, DType dtype,
                         const backend::CardFigures& card) {
    return backend::cuda::multiplies_fp8(packed_part(packing, n, k), k, dtype, card);
  };
  const Packing token = fp8(InputRounding::fp8_token);
  CHECK(takes(token, 64, 128, DType::bf16, hopper));
  CHECK(takes(fp8(InputRounding::fp8_group, 128), 64, 256, DType::f16, hopper));
  CHECK_FALSE(takes(token, 64, 128, DType::f32, hopper));
  CHECK_FALSE(takes(token, 72, 128, DType::bf16, hopper));
  CHECK_FALSE(takes(token, 64, 136, DType::bf16, hopper));
  CHECK_FALSE(takes(fp8(InputRounding::none), 64, 128, DType::bf16, hopper));
  CHECK_FALSE(takes(fp8(InputRounding::fp8_group, 64), 64, 256, DType::bf16, hopper));
  CHECK_FALSE(takes(token, 64, 128, DType::bf16, {.compute_capability = 80}));
  CHECK_FALSE(takes(token, 64, 128, DType::bf16, {.compute_capability = 100}));
  CHECK_FALSE(takes(token, 64, 128, DType::bf16, {.deterministic = true}));
}

}  // namespace plimsoll::testing
