// Products with quantized weights, of every kind of code and scale.
#include "kernels/products/packed/packed.h"

#include "backend/cpu/round_inputs.h"
#include "kernels/packed_fixture.h"
#include "kernels/rows/embed_blocks.h"
#include "like_cases.h"

namespace plimsoll::testing {

Matrix rounded_rows(const Matrix& in, model::InputRounding rounding,
                    const model::InputScale& scale) {
  Matrix result(in.rows, in.columns);
  std::vector<float> row(static_cast<size_t>(in.columns));
  for (int64_t r = 0; r < in.rows; ++r) {
    for (int64_t i = 0; i < in.columns; ++i)
      row[static_cast<size_t>(i)] = static_cast<float>(in.at(r, i));
    backend::round_inputs(row.data(), in.columns, {.rounding = rounding, .stated = scale}, {},
                          row.data());
    for (int64_t i = 0; i < in.columns; ++i) result.at(r, i) = double{row[static_cast<size_t>(i)]};
  }
  return result;
}

namespace {

using model::Activation;
using model::Code;
using model::InputRounding;
using model::Packing;
using model::ScaleType;

/// The cases of the processor's, then what they leave out of codes and scales.
std::vector<PackedCase> packed_cases() {
  std::vector<PackedCase> cases = kPackedCases;
  const auto add = [&](const char* name, const Packing& packing) {
    cases.push_back({name, packing});
  };
  add("2 bits, one zero point", {.bits = 2, .group = 64, .scale = ScaleType::f32, .zero = 2});
  add("3 bits, one group", {.bits = 3, .scale = ScaleType::bf16, .zero = 4});
  add("4 bits, groups longer than a chunk",
      {.bits = 4, .group = 192, .scale = ScaleType::f16, .zeros = true, .zero = 1});
  add("8 bits, activation order", {.bits = 8, .group = 32, .zeros = true, .ordered = true});
  add("4 bits, a share in activation order", {.bits = 4,
                                              .group = 24,
                                              .scale = ScaleType::f16,
                                              .zeros = true,
                                              .ordered = true,
                                              .scattered = true});
  add("float8, float8 scales",
      {.code = Code::e4m3, .bits = 8, .group = 16, .scale = ScaleType::e4m3, .factors = true});
  add("float8, powers of two",
      {.code = Code::e4m3, .bits = 8, .group = 32, .scale = ScaleType::e8m0});
  add("float8, inputs in float8 by one scale",
      {.code = Code::e4m3, .bits = 8, .inputs = InputRounding::fp8_static});
  add("NVFP4, inputs too", {.code = Code::table,
                            .group = 16,
                            .scale = ScaleType::e4m3,
                            .factors = true,
                            .inputs = InputRounding::nvfp4_group});
  add("a table, float scales", {.code = Code::table, .group = 64, .scale = ScaleType::f32});
  std::ranges::copy_if(kGgmlCases, std::back_inserter(cases),
                       [](const PackedCase& c) { return c.packing.code != Code::none; });
  add("Q5_0", ggml_case(GgmlType::q5_0));
  add("IQ4_NL", ggml_case(GgmlType::iq4_nl));
  return cases;
}

/// Neither whole chunks nor whole groups of all cases; of GGUF files whole blocks. `half`: the last
/// chunk has at most 64 inputs; 0 where blocks have more.
int64_t columns_of(const Packing& packing, bool half = false) {
  if (!packing.has_blocks()) return half ? 304 : 240;
  const int64_t values = packing.block_type().values;
  if (values == 256) return half ? 0 : 768;
  return half ? 256 + values : 3 * values + 128;
}

/// A product through what a launch takes: rewritten rows in a workspace of the planned size.
void multiply(const PackedWeight& weight, const View& out, const View& in,
              const kernels::Vector& bias, Activation activation, kernels::PackedTiles tiles) {
  const backend::Segments segments = backend::cuda::packed_segments(weight.spec, in.dtype, 0);
  const DeviceBytes workspace(
      backend::CudaFootprint({}).linear_workspace(in.rows, weight.spec, in.dtype));
  kernels::PackedInputs inputs(in, static_cast<std::byte*>(workspace.data()), kStream);
  for (const auto& segment : segments.parts) {
    const kernels::PackedPart part =
        kernels::packed_part(weight.spec, weight.bytes->data(), segments, segment);
    kernels::Vector own = bias;
    if (bias.data != nullptr) own.data = static_cast<const float*>(bias.data) + segment.first_row;
    kernels::packed_linear({.out = out.slice_columns(segment.first_row, segment.part->rows()),
                            .in = inputs.rows_for(part),
                            .part = part,
                            .bias = own,
                            .activation = activation,
                            .tiles = tiles},
                           kStream);
  }
  require(cudaDeviceSynchronize());
}

/// Bound of the error relative to `typical_size`: results are rounded once, as are inputs that the
/// packing rounds, and sums of floats after each group.
double bound(const Packing& packing, DType dtype) {
  const double inputs = packing.inputs == InputRounding::none ? 0 : 3;  // of 240, at random
  return (1 + inputs) * epsilon(dtype) + 1e-6;
}

}  // namespace

TEST_CASE("products with quantized weights agree with the reference") {
  size_t number = 0;
  for (const DType dtype : kActivationTypes)
    for (const PackedCase& c : packed_cases()) {
      if (!testing::is_taken_sanitized(number++, 4)) continue;
      const int64_t columns = columns_of(c.packing);
      const PackedWeight weight(c.packing, {70, 33}, columns, dtype);
      const Matrix bias = random_matrix(1, 103, DType::f32, 3);
      const DeviceRows device_bias(bias, DType::f32);
      for (const int64_t rows : {0, 1, 3, 17, 70}) {
        INFO(torch_name(dtype) << ", " << c.name << ", " << rows << " rows");
        const Matrix in = random_matrix(rows, columns, dtype, 1);
        const Layout layout = rows == 3 ? kOdd : kAligned;
        const DeviceRows device_in(in, dtype, layout);
        const bool biased = rows == 17;
        const Matrix expected = reference::linear(rounded_rows(in, c.packing.inputs), weight.values,
                                                  biased ? bias.values : std::vector<double>{},
                                                  biased ? Activation::relu : Activation::none);
        const auto check = [&] {
          // Results with random powers of two are too small for 16 bits.
          const bool wide = rows == 1 || c.packing.scale == ScaleType::e8m0;
          const DeviceRows out(rows, 103, wide ? DType::f32 : dtype, layout);
          multiply(
              weight, out.view(), device_in.view(),
              biased ? kernels::Vector{device_bias.view().data, DType::f32} : kernels::Vector{},
              biased ? Activation::relu : Activation::none, kernels::PackedTiles::by_rows);
          CHECK(largest_error(out.matrix(), expected, typical_size(expected)) <=
                bound(c.packing, dtype));
        };
        // Orders differ in the arrangement, not in the code.
        if (rows == 3 || (rows == 17 && c.packing.bits == 4)) {
          in_each_order(check);
        } else {
          check();
        }
      }
    }
}

TEST_CASE("a last chunk of at most 64 inputs is stored by half") {
  // gpt-oss has 2,880 columns: 22 chunks and 64 inputs.
  const Packing mxfp4{.code = Code::table, .bits = 4, .group = 32, .scale = ScaleType::e8m0};
  for (const auto& [columns, inputs] :
       {std::pair<int64_t, size_t>{2880, 2880}, {2896, 2944}, {64, 64}, {16, 64}, {80, 128}}) {
    INFO(columns);
    const backend::cuda::PackedMatrix layout(packed_part(mxfp4, 32, columns), columns);
    CHECK(layout.strip_codes == 16 * inputs / 2);
  }
  // Six bits have no half: the last codes of a row lie in what the first leave of their words.
  const Packing q6 = ggml_case(GgmlType::q6_k);
  CHECK(backend::cuda::PackedMatrix(packed_part(q6, 32, 768), 768).strip_codes == 16 * 768 * 6 / 8);
  CHECK(backend::cuda::PackedMatrix(packed_part({.bits = 3}, 16, 64), 64).strip_codes ==
        16 * 128 * 3 / 8);
  size_t number = 0;
  for (const PackedCase& c : packed_cases()) {
    const int64_t columns = columns_of(c.packing, true);
    if (columns == 0 || !testing::is_taken_sanitized(number++, 4)) continue;
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const PackedWeight weight(c.packing, {70, 33}, columns, dtype);
      for (const int64_t rows : {3, 17}) {
        INFO(torch_name(dtype) << ", " << c.name << ", " << rows << " rows");
        const Matrix in = random_matrix(rows, columns, dtype, 1);
        const DeviceRows device_in(in, dtype), out(rows, 103, DType::f32);
        multiply(weight, out.view(), device_in.view(), {}, Activation::none,
                 kernels::PackedTiles::by_rows);
        const Matrix expected = reference::linear(rounded_rows(in, c.packing.inputs), weight.values,
                                                  {}, Activation::none);
        CHECK(largest_error(out.matrix(), expected, typical_size(expected)) <=
              bound(c.packing, dtype));
      }
    }
  }
}

TEST_CASE("quantized rows longer than a span of scales, and rows of less than a strip") {
  const Packing packing{.bits = 4, .group = 64, .scale = ScaleType::f16, .zeros = true};
  for (const DType dtype : {DType::f16, DType::f32})
    for (const auto& [columns, outputs, rows] :
         {std::tuple<int64_t, int64_t, int64_t>{4400, 5, 2}, {9000, 19, 9}, {16, 1, 1}}) {
      INFO(torch_name(dtype) << ", " << columns << " to " << outputs);
      const PackedWeight weight(packing, {outputs}, columns, dtype);
      const Matrix in = random_matrix(rows, columns, dtype, 1);
      const DeviceRows device_in(in, dtype), out(rows, outputs, dtype);
      multiply(weight, out.view(), device_in.view(), {}, Activation::none,
               kernels::PackedTiles::by_rows);
      const Matrix expected = reference::linear(in, weight.values, {}, Activation::none);
      CHECK(largest_error(out.matrix(), expected, typical_size(expected)) <=
            bound(packing, dtype) + static_cast<double>(columns) * 1e-9);
    }
}

TEST_CASE("rows of a GGUF file's blocks longer than a span of scales") {
  for (const GgmlType type : {GgmlType::q4_k, GgmlType::q6_k, GgmlType::nvfp4}) {
    constexpr int64_t kColumns = 5632, kOutputs = 19;
    INFO(static_cast<int>(type));
    const PackedWeight weight(ggml_case(type), {kOutputs}, kColumns, DType::bf16);
    const Matrix in = random_matrix(2, kColumns, DType::bf16, 1);
    const DeviceRows device_in(in, DType::bf16), out(2, kOutputs, DType::f32);
    multiply(weight, out.view(), device_in.view(), {}, Activation::none,
             kernels::PackedTiles::by_rows);
    const Matrix expected = reference::linear(in, weight.values, {}, Activation::none);
    // Out in float: sums of exact products, rounded after each step.
    CHECK(largest_error(out.matrix(), expected, typical_size(expected)) <= 1e-6 + kColumns * 1e-9);
  }
}

TEST_CASE("rows of a table of a GGUF file are what its blocks decode to") {
  const std::vector<int32_t> ids{3, 0, 102, 69, 75, 999};  // of both halves of a strip
  const DeviceArray<int32_t> device_ids(ids);
  for (const auto& [dtype, half] : {std::pair(DType::bf16, false),
                                    {DType::f16, false},
                                    {DType::f32, false},
                                    {DType::f32, true}})
    for (const PackedCase& c : packed_cases()) {
      const int64_t columns = columns_of(c.packing, half);
      if (c.packing.format != model::PackedFormat::ggml || columns == 0) continue;
      INFO(torch_name(dtype) << ", " << c.name << ", " << columns << " columns");
      const PackedWeight weight(c.packing, {103}, columns, dtype);
      const DeviceRows out(std::ssize(ids), columns, dtype);
      kernels::embed_blocks(
          {.out = out.view(),
           .table = {nullptr, dtype, 103, columns, columns},
           .ids = device_ids.data(),
           .scale = 2},
          {.data = static_cast<const std::byte*>(weight.bytes->data()),
           .layout = backend::cuda::PackedMatrix(weight.spec.parts.front(), columns),
           .packing = c.packing,
           .blocks = kernels::BlockShape(*find_ggml_blocks(c.packing.blocks))},
          kStream);
      require(cudaDeviceSynchronize());
      const Matrix found = out.matrix();
      Matrix expected(std::ssize(ids), columns);
      for (int64_t t = 0; t < expected.rows; ++t) {
        const int32_t id = ids[static_cast<size_t>(t)];  // one past the table is row 0
        for (int64_t n = 0; n < columns; ++n)
          expected.at(t, n) = 2 * weight.values.at(id < 103 ? id : 0, n);
      }
      // A product and a difference in float, rounded once to the rows' type.
      CHECK(largest_error(found, expected, typical_size(expected)) <= 4 * epsilon(dtype));
    }
}

TEST_CASE("one arrangement gives a row the same bits in any batch") {
  const Packing gptq{.bits = 4, .group = 32, .scale = ScaleType::f16, .zeros = true};
  for (const auto& [packing, columns, dtype] :
       {std::tuple(gptq, int64_t{1000}, DType::bf16), std::tuple(gptq, int64_t{1000}, DType::f32),
        std::tuple(ggml_case(GgmlType::q4_k), int64_t{1024}, DType::bf16)}) {
    const PackedWeight weight(packing, {40}, columns, dtype);
    const Matrix in = random_matrix(70, columns, dtype, 1);
    const DeviceRows device_in(in, dtype), all(70, 40, DType::f32);
    multiply(weight, all.view(), device_in.view(), {}, Activation::none,
             kernels::PackedTiles::many);
    for (const int64_t rows : {1, 9}) {
      const DeviceRows some(rows, 40, DType::f32);
      multiply(weight, some.view(), device_in.view().slice_rows(30, rows), {}, Activation::none,
               kernels::PackedTiles::many);
      const Matrix a = all.matrix(), b = some.matrix();
      for (int64_t i = 0; i < rows * 40; ++i)
        CHECK(a.values[static_cast<size_t>(1200 + i)] == b.values[static_cast<size_t>(i)]);
    }
  }
}

TEST_CASE("inputs are rounded as on the processor, in the order of slots") {
  using enum InputRounding;
  const std::vector<int32_t> order{5, -1, 299, 0, 17};
  const DeviceArray<int32_t> device_order(order);
  const model::InputScale stated{0.03f, 20};
  const DeviceArray<model::InputScale> scale(std::vector{stated});
  for (const InputRounding rounding :
       {none, int8_token, int8_zeros, int8_static, int8_static_zeros, int8_group32, int8_group256,
        fp8_token, fp8_bounded, fp8_group, fp8_static, nvfp4_group, mxfp4_group, mxfp8_group}) {
    INFO(static_cast<int>(rounding));
    Matrix in = random_matrix(3, 300, DType::f32, 1, 2);
    for (int64_t i = 0; i < 300; ++i) in.at(1, i) = 0;
    const Matrix expected = rounded_rows(in, rounding, stated);
    const DeviceRows device_in(in, DType::f32, kOdd);
    in_each_order([&] {
      const DeviceRows out(3, 300, DType::f32), some(3, 5, DType::f32);
      kernels::RoundInputs op{
          .out = out.view(), .in = device_in.view(), .rounding = rounding, .scale = scale.data()};
      kernels::round_inputs(op, kStream);
      CHECK((out.matrix().values == expected.values));
      op.out = some.view();
      op.order = device_order.data();
      kernels::round_inputs(op, kStream);
      const Matrix chosen = some.matrix();
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t j = 0; j < 5; ++j) {
          const int32_t column = order[static_cast<size_t>(j)];
          CHECK(chosen.at(r, j) == (column < 0 ? 0 : expected.at(r, column)));
        }
    });
  }
}

}  // namespace plimsoll::testing
