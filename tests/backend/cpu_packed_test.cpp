// Products with quantized weights against weights that the formula gives, in double precision.
#include "backend/cpu/round_inputs.h"
#include "backend/cpu_fixture.h"
#include "backend/random_part.h"
#include "like_cases.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using model::Activation;
using model::Code;
using model::Packing;
using model::ScaleType;

/// A weight of two parts of one packing, loaded, and its values.
struct PackedWeight {
  model::WeightSpec spec{.name = "weight"};
  Matrix values;
  backend::Weight weight;
  std::vector<std::byte> storage;

  PackedWeight(backend::Backend& backend, const Packing& packing, std::vector<int64_t> rows,
               int64_t columns, DType dtype = DType::f32)
      : values(0, 0) {
    int64_t total = 0;
    std::vector<std::unique_ptr<RandomPart>> parts;
    for (const int64_t count : rows) {
      spec.parts.push_back(packed_part(packing, count, columns));
      parts.push_back(
          std::make_unique<RandomPart>(packing, count, columns, static_cast<uint32_t>(7 + total)));
      total += count;
    }
    spec.shape = {total, columns};
    values = Matrix(total, columns);
    int64_t row = 0;
    for (size_t p = 0; p < rows.size(); ++p)
      for (int64_t o = 0; o < rows[p]; ++o, ++row)
        for (int64_t n = 0; n < columns; ++n) values.at(row, n) = parts[p]->weight(o, n);
    storage.assign(backend.footprint().weight_bytes(spec, dtype), std::byte{0xff});
    weight = backend.load_weight(spec, dtype, storage.data(),
                                 {[](int64_t, int64_t, void*) { FAIL("no part is plain"); },
                                  [&](size_t part) { return std::move(parts[part]); }});
  }
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;
};

/// No multiple of a block of unpacked columns; whole blocks of ggml.
int64_t columns_of(const Packing& packing) {
  return packing.has_blocks() ? 512 : 240;
}

TEST_CASE("products with quantized weights agree with the formula for every instruction set") {
  size_t number = 0;
  for (const Processor& on : processors())
    for (const PackedCase& packed : cpu_cases())
      for (const auto& [rows, dtype] : {std::pair<int64_t, DType>{1, DType::f32},
                                        {3, DType::f32},
                                        {40, DType::f32},
                                        {7, DType::bf16}}) {
        if (!testing::is_taken_sanitized(number++, 3)) continue;
        CAPTURE(on.name(), packed.name, rows, torch_name(dtype));
        const int64_t columns = columns_of(packed.packing);
        CpuFixture cpu(on, 2);
        const PackedWeight w(*cpu, packed.packing, {70, 33}, columns, dtype);
        Rows in = Rows::random(rows, columns, 3);
        Rows out(rows, 103);
        cpu->run(ops::Linear{out, in, w.weight, {}, Activation::none});
        for (int64_t r = 0; r < rows; ++r)
          backend::round_inputs(in.row(r), columns,
                                {.rounding = packed.packing.inputs, .stated = kInputScale}, {},
                                in.row(r));
        const Matrix expected = reference::linear(in.matrix(), w.values, {}, Activation::none);
        // Sums are rounded after each group, and scales that are products once more. Of a bf16
        // model inputs may be multiples of 2^-14 of the largest beside them.
        CHECK(distance(out.matrix(), expected) < (dtype == DType::f32 ? 1e-6 : 1e-4));
      }
}

TEST_CASE("inputs with zero points span a row from its least to its largest") {
  const std::vector<float> row = {-1, 0, 0.5f, 3};
  std::vector<float> rounded(4);
  const backend::InputRule rule{.rounding = model::InputRounding::int8_zeros};
  backend::round_inputs(row.data(), 4, rule, {}, rounded.data());
  const float scale = 4.f / 255;  // and -64 the zero point: codes -128, -64, -32, 127
  CHECK(rounded == std::vector<float>{-64 * scale, 0, 32 * scale, 191 * scale});
  const std::vector<float> equal(4, 0.7f);
  backend::round_inputs(equal.data(), 4, rule, {}, rounded.data());
  CHECK(rounded == equal);
}

TEST_CASE("inputs by powers of two are as vLLM and compressed-tensors have them") {
  struct Row {
    model::InputRounding rounding;
    float most, other, rounded_most, rounded_other;
  };
  using enum model::InputRounding;
  for (const Row& row : {Row{mxfp4_group, 6.99f, -0.3f, 6, -0.5f},  // steps of 1
                         {mxfp4_group, 7, -0.3f, 8, 0},             // of 2: 7 is nearer to 8
                         {mxfp4_group, 0.013f, 0.006f, 0.01171875f, 0.005859375f},  // of 2^-9
                         {mxfp8_group, 448, 3.3f, 448, 3.25f},
                         {mxfp8_group, 449, 3.3f, 448, 3.25f},  // of 2
                         {mxfp8_group, 0, 0, 0, 0}}) {
    std::vector<float> in(64, 0), out(64, 1);
    in[3] = row.most;
    in[31] = row.other;
    in[40] = 1;  // of the next group
    backend::round_inputs(in.data(), 64, {.rounding = row.rounding}, {}, out.data());
    INFO(row.most);
    CHECK(out[3] == row.rounded_most);
    CHECK(out[31] == row.rounded_other);
    CHECK(out[40] == 1);
    CHECK(out[50] == 0);
  }
}

TEST_CASE("a row's product with quantized weights has the same bits beside any other rows") {
  size_t number = 0;
  for (const Processor& on : processors())
    for (const PackedCase& packed : cpu_cases()) {
      if (!testing::is_taken_sanitized(number++, 3)) continue;
      const DType dtype = packed.packing.bits == 4 ? DType::bf16 : DType::f32;
      CAPTURE(on.name(), packed.name);
      const int64_t columns = columns_of(packed.packing);
      CpuFixture one(on, 1);
      CpuFixture three(on, 3);
      const PackedWeight w(*one, packed.packing, {64, 37}, columns, dtype);
      Rows in = Rows::random(45, columns, 5);
      Rows together(45, 101);
      three->run(ops::Linear{together, in, w.weight, {}, Activation::silu});
      for (int64_t rows = 1; rows <= 20; ++rows) {
        Rows some(rows, 101);
        one->run(
            ops::Linear{some, View(in).slice_rows(rows, rows), w.weight, {}, Activation::silu});
        for (int64_t r = 0; r < rows; ++r) REQUIRE(some.same_bits(r, together, rows + r));
      }
    }
}

TEST_CASE("rows of a table of ggml's blocks are what the blocks decode to") {
  CpuFixture cpu(processors().front(), 1);
  for (const PackedCase& packed : kGgmlCases) {
    if (!packed.packing.has_blocks()) continue;
    CAPTURE(packed.name);
    const PackedWeight w(*cpu, packed.packing, {70, 33}, 512);
    backend::BatchMeta batch;
    const std::vector<int32_t> ids = {0, 31, 32, 69, 70, 102};
    batch.token_ids = ids;
    Rows out(std::ssize(ids), 512);
    cpu->run(ops::Embed{.out = out, .table = w.weight, .batch = batch});
    for (size_t i = 0; i < ids.size(); ++i)
      for (int64_t n = 0; n < 512; ++n)
        REQUIRE(out.row(static_cast<int64_t>(i))[n] == static_cast<float>(w.values.at(ids[i], n)));
  }
}

TEST_CASE("quantized weights take little more than their codes, scales and zero points") {
  const backend::Footprint& sizes = backend::cpu_footprint();
  const auto bytes = [&](const Packing& packing) {
    model::WeightSpec spec{.name = "w", .shape = {4096, 4096}};
    model::Part part{.tensor = "w.weight",
                     .stored_shape = {4096, 4096},
                     .block_rows = 4096,
                     .block_stride = 4096};
    part.packing = packing;
    spec.parts = {part};
    return static_cast<double>(sizes.weight_bytes(spec, DType::bf16)) / (4096 * 4096);
  };
  // AWQ stores 4 bits of zero point and 16 of scale for each group.
  const Packing awq{.bits = 4, .group = 32, .scale = ScaleType::f16, .zeros = true};
  CHECK(bytes(awq) <= 1.05 * (0.5 + 2.5 / 32));
  CHECK(bytes({.code = Code::table,
               .bits = 4,
               .group = 16,
               .scale = ScaleType::e4m3,
               .factors = true}) <= 1.05 * (0.5 + 1.0 / 16));
  CHECK(bytes({.code = Code::table,
               .bits = 4,
               .group = 64,
               .scale = ScaleType::nested,
               .block_inputs = 64 * 256}) <= 1.05 * (0.5 + 1.0 / 64 + 4.0 / 64 / 256));
  for (const PackedCase& packed : kGgmlCases) {
    if (!packed.packing.has_blocks()) continue;
    CAPTURE(packed.name);
    const double in_file = static_cast<double>(packed.packing.block_row_bytes(4096)) / 4096;
    CHECK(bytes(packed.packing) <= 1.002 * in_file);
  }
  CHECK(bytes({.bits = 3, .group = 128, .scale = ScaleType::f16, .zeros = true}) <=
        1.05 * (3.0 / 8 + (2 + 3.0 / 8) / 128));
}

}  // namespace
}  // namespace plimsoll::testing
