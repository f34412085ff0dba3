// Products with quantised weights against weights that the formula gives, in double precision.
#include <random>
#include <set>

#include "backend/cpu/round_inputs.h"
#include "backend/cpu_fixture.h"
#include "base/float8.h"
#include "model/slices.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using model::Activation;
using model::Code;
using model::InputRounding;
using model::PackedFormat;
using model::Packing;
using model::ScaleType;

constexpr std::array<float, 16> kNumbers = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                            -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// Random codes, scales and zero points of one part, and the weights that they are.
class RandomPart final : public model::PackedRows {
 public:
  RandomPart(const Packing& packing, int64_t rows, int64_t columns, uint32_t seed)
      : packing_(packing), rows_(rows), columns_(columns), groups_(packing.groups(columns)) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint8_t>(random() % n); };
    for (int64_t i = 0; i < rows * columns; ++i) {
      uint8_t code = below(1u << packing.bits);
      if (packing.code == Code::e4m3 && (code & 0x7f) == 0x7f) code = 0;
      codes_.push_back(code);
    }
    for (int64_t i = 0; i < rows * groups_; ++i) {
      zeros_.push_back(below(1u << packing.bits));
      scale_codes_.push_back(static_cast<uint8_t>(40 + below(40)));
    }
    for (int64_t i = 0; i < rows; ++i) factors_.push_back(0.5f + 0.01f * static_cast<float>(i));
    for (int64_t k = 0; k < columns; ++k)
      order_.push_back(static_cast<int32_t>(k * 5 % columns * groups_ / columns));
    for (int i = 0; i < 256; ++i) nested_numbers_.push_back(0.001f * static_cast<float>(i - 90));
    for (int64_t i = 0; i < (rows * groups_ + 255) / 256; ++i)
      absmax_.push_back(1.f + 0.25f * static_cast<float>(i));
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    std::copy_n(codes_.begin() + first * columns_, count * columns_, to);
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const int64_t size = model::scale_bytes(packing_.scale);
    for (int64_t i = 0; i < count * groups_; ++i) {
      const uint8_t code = scale_codes_[static_cast<size_t>(first * groups_ + i)];
      const float value = plain_scale(code);
      std::byte* at = to + i * size;
      if (size == 1) *at = std::byte{code};
      if (packing_.scale == ScaleType::f32) std::memcpy(at, &value, 4);
      if (packing_.scale == ScaleType::f16) convert(&value, DType::f32, at, DType::f16, 1);
      if (packing_.scale == ScaleType::bf16) convert(&value, DType::f32, at, DType::bf16, 1);
    }
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    std::copy_n(zeros_.begin() + first * groups_, count * groups_, to);
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    std::copy_n(factors_.begin() + first, count, to);
  }
  void input_groups(int32_t* to) const override { std::ranges::copy(order_, to); }
  void table(std::span<float, 16> to) const override { std::ranges::copy(kNumbers, to.begin()); }
  void nested(model::NestedScales& to) const override {
    std::ranges::copy(nested_numbers_, to.numbers.begin());
    std::ranges::copy(absmax_, to.absmax.begin());
    to.offset = 0.125f;
  }
  [[nodiscard]] float input_scale() const override { return 0.01f; }

  /// w[o, n], as packing.h says it.
  [[nodiscard]] double weight(int64_t o, int64_t n) const {
    const int64_t group = packing_.ordered     ? order_[static_cast<size_t>(n)]
                          : packing_.group > 0 ? n / packing_.group
                                               : 0;
    const auto at = static_cast<size_t>(o * groups_ + group);
    const uint8_t code = codes_[static_cast<size_t>(o * columns_ + n)];
    double number = code;
    if (packing_.code == Code::e4m3) number = double{e4m3_to_float(code)};
    if (packing_.code == Code::table) number = double{kNumbers[code]};
    if (packing_.code == Code::integer)
      number -= static_cast<double>(packing_.zero) + (packing_.zeros ? zeros_[at] : 0);
    double scale = double{plain_scale(scale_codes_[at])};
    if (packing_.scale == ScaleType::nested)
      scale = double{nested_numbers_[scale_codes_[at]]} * double{absmax_[at / 256]} + 0.125;
    return number * scale * (packing_.factors ? double{factors_[static_cast<size_t>(o)]} : 1.0);
  }

 private:
  [[nodiscard]] float plain_scale(uint8_t code) const {
    if (packing_.scale == ScaleType::e4m3) return e4m3_to_float(code);
    if (packing_.scale == ScaleType::e8m0) return e8m0_to_float(code);
    return static_cast<float>(code) / 64;  // exact in 16 bits
  }

  Packing packing_;
  int64_t rows_, columns_, groups_;
  std::vector<uint8_t> codes_, zeros_, scale_codes_;
  std::vector<float> factors_, nested_numbers_, absmax_;
  std::vector<int32_t> order_;
};

struct PackedCase {
  const char* name;
  Packing packing;
};

const std::vector<PackedCase> kCases = {
    {"2 bits, zero points",
     {.bits = 2, .group = 16, .scale = ScaleType::f16, .zeros = true, .zero = 1}},
    {"3 bits, zero points", {.bits = 3, .group = 32, .scale = ScaleType::f16, .zeros = true}},
    {"4 bits, one zero point", {.bits = 4, .group = 32, .scale = ScaleType::bf16, .zero = 8}},
    {"4 bits, all inputs in a group",
     {.bits = 4, .scale = ScaleType::f32, .zeros = true, .zero = 1}},
    {"4 bits, activation order",
     {.bits = 4, .group = 24, .scale = ScaleType::f16, .zeros = true, .ordered = true}},
    {"8 bits", {.bits = 8, .group = 0, .zero = 128}},
    {"8 bits, zero points above 255", {.bits = 8, .group = 48, .zeros = true, .zero = 1}},
    {"float8", {.format = PackedFormat::fp8, .code = Code::e4m3, .bits = 8}},
    {"float8 in blocks", {.format = PackedFormat::fp8, .code = Code::e4m3, .bits = 8, .group = 40}},
    {"NVFP4",
     {.format = PackedFormat::nvfp4,
      .code = Code::table,
      .bits = 4,
      .group = 16,
      .scale = ScaleType::e4m3,
      .factors = true}},
    {"MXFP4",
     {.format = PackedFormat::mxfp4,
      .code = Code::table,
      .bits = 4,
      .group = 16,
      .scale = ScaleType::e8m0}},
    {"double-quantised scales",
     {.format = PackedFormat::nf4,
      .code = Code::table,
      .bits = 4,
      .group = 8,
      .scale = ScaleType::nested}},
    {"8 bits, inputs in int8", {.bits = 8, .zero = 128, .inputs = InputRounding::int8_token}},
    {"8 bits, inputs in int8 by one scale",
     {.bits = 8, .zero = 128, .inputs = InputRounding::int8_static}},
    {"8 bits in groups, inputs in int8",
     {.bits = 8, .group = 80, .zero = 128, .inputs = InputRounding::int8_token}},
    {"float8, inputs in float8",
     {.format = PackedFormat::fp8,
      .code = Code::e4m3,
      .bits = 8,
      .inputs = InputRounding::fp8_token}},
};

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
      model::Part part{.tensor = "part.weight",
                       .stored_shape = {count, columns},
                       .block_rows = count,
                       .block_stride = count};
      part.packing = packing;
      spec.parts.push_back(part);
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

constexpr int64_t kColumns = 240;  // no multiple of a block of unpacked columns

TEST_CASE("products with quantised weights agree with the formula for every instruction set") {
  for (const CpuIsa isa : isas())
    for (const PackedCase& packed : kCases)
      for (const int64_t rows : {1, 3, 40}) {
        CAPTURE(isa_name(isa), packed.name, rows);
        CpuFixture cpu(isa, 2);
        const PackedWeight w(*cpu, packed.packing, {70, 33}, kColumns);
        Rows in = Rows::random(rows, kColumns, 3);
        Rows out(rows, 103);
        cpu->linear(out, in, w.weight, {}, Activation::none);
        for (int64_t r = 0; r < rows; ++r)
          backend::round_inputs(in.row(r), kColumns,
                                {.rounding = packed.packing.inputs, .scale = 0.01f},
                                backend::largest_input(in.row(r), kColumns), in.row(r));
        const Matrix expected = reference::linear(in.matrix(), w.values, {}, Activation::none);
        // Sums are rounded after each group, and scales that are products once more.
        CHECK(distance(out.matrix(), expected) < 1e-6);
      }
}

TEST_CASE("a row's product with quantised weights has the same bits beside any other rows") {
  for (const CpuIsa isa : isas())
    for (const PackedCase& packed : kCases) {
      CAPTURE(isa_name(isa), packed.name);
      CpuFixture one(isa, 1);
      CpuFixture three(isa, 3);
      const PackedWeight w(*one, packed.packing, {64, 37}, kColumns);
      Rows in = Rows::random(45, kColumns, 5);
      Rows together(45, 101);
      three->linear(together, in, w.weight, {}, Activation::silu);
      for (int64_t rows = 1; rows <= 20; ++rows) {
        Rows some(rows, 101);
        one->linear(some, View(in).slice_rows(rows, rows), w.weight, {}, Activation::silu);
        for (int64_t r = 0; r < rows; ++r) REQUIRE(some.same_bits(r, together, rows + r));
      }
    }
}

/// Some inputs of a part's rows, whole groups of them.
class SomeInputs final : public model::PackedRows {
 public:
  SomeInputs(const RandomPart& rows, const Packing& packing, int64_t columns,
             const model::Inputs& inputs)
      : rows_(rows),
        packing_(packing),
        columns_(columns),
        inputs_(inputs),
        first_group_(packing.group > 0 ? inputs.first / packing.group : 0) {}

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    std::vector<uint8_t> all(static_cast<size_t>(count * columns_));
    rows_.codes(first, count, all.data());
    cut(all.data(), count, columns_, inputs_, to);
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const int64_t size = model::scale_bytes(packing_.scale);
    std::vector<std::byte> all(static_cast<size_t>(count * all_groups() * size));
    rows_.scales(first, count, all.data());
    cut(all.data(), count, all_groups() * size, {first_group_ * size, groups() * size}, to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    std::vector<uint8_t> all(static_cast<size_t>(count * all_groups()));
    rows_.zeros(first, count, all.data());
    cut(all.data(), count, all_groups(), {first_group_, groups()}, to);
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    rows_.factors(first, count, to);
  }
  void input_groups(int32_t*) const override { FAIL("an order is not cut"); }
  void table(std::span<float, 16> to) const override { rows_.table(to); }
  void nested(model::NestedScales& to) const override {
    rows_.nested(to);
    to.first = first_group_;
    to.stride = all_groups();
  }
  [[nodiscard]] float input_scale() const override { return rows_.input_scale(); }

 private:
  template <typename T>
  static void cut(const T* from, int64_t count, int64_t width, const model::Inputs& some, T* to) {
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(from + i * width + some.first, some.count, to + i * some.count);
  }
  [[nodiscard]] int64_t all_groups() const { return packing_.groups(columns_); }
  [[nodiscard]] int64_t groups() const { return packing_.groups(inputs_.count); }

  const RandomPart& rows_;
  Packing packing_;
  int64_t columns_;
  model::Inputs inputs_;
  int64_t first_group_;
};

/// A rank's share of the inputs of a quantised weight [rows, columns]; of one rank all.
struct InputShare {
  model::WeightSpec spec{.name = "weight", .split = model::Split::row};
  backend::Weight weight;
  std::vector<std::byte> storage;

  InputShare(backend::Backend& backend, const Packing& packing, const RandomPart& values,
             int64_t rows, int64_t columns, int64_t rank, int64_t ranks) {
    const int64_t own = columns / ranks;
    model::Part part{.tensor = "part.weight",
                     .stored_shape = {rows, columns},
                     .block_rows = rows,
                     .block_stride = rows};
    part.packing = packing;
    spec.parts = {part};
    spec.shape = {rows, own};
    spec.slices = model::slices_of(columns, model::slice_unit(spec)) / ranks;
    spec.ranks = ranks;
    storage.resize(backend.footprint().weight_bytes(spec, DType::f32));
    weight = backend.load_weight(spec, DType::f32, storage.data(),
                                 {[](int64_t, int64_t, void*) { FAIL("no part is plain"); },
                                  [&](size_t) {
                                    return std::make_unique<SomeInputs>(
                                        values, packing, columns, model::Inputs{rank * own, own});
                                  }});
  }
  InputShare(const InputShare&) = delete;
  InputShare& operator=(const InputShare&) = delete;
};

/// Ranks whose rows' largest inputs are known beforehand.
class KnownMost final : public backend::InputRanks {
 public:
  explicit KnownMost(const Rows& in) : in_(in) {}
  void sum(View) override { FAIL("linear() leaves sums to its caller"); }
  void most(View values) override {
    REQUIRE(values.columns == 1);
    for (int64_t r = 0; r < values.rows; ++r)
      static_cast<float*>(values.data)[r] = backend::largest_input(in_.row(r), in_.columns());
  }

 private:
  const Rows& in_;
};

TEST_CASE("a quantised sum that ranks share has the bits that one rank's has") {
  constexpr int64_t kInputs = 640, kOutputs = 70;
  for (const CpuIsa isa : isas())
    for (const PackedCase& packed : kCases) {
      if (packed.packing.ordered) continue;
      CpuFixture cpu(isa, 1);
      const RandomPart values(packed.packing, kOutputs, kInputs, 7);
      const InputShare whole(*cpu, packed.packing, values, kOutputs, kInputs, 0, 1);
      const LoadedWeight biases(*cpu, {kOutputs}, model::WeightUse::vector, DType::f32, 4);
      for (const int64_t rows : {1, 3, 40}) {
        Rows in = Rows::random(rows, kInputs, 3);
        Rows expected(rows, kOutputs);
        cpu->linear(expected, in, whole.weight, biases.weight, Activation::none);
        for (const int64_t ranks : {2, 4, 8}) {
          CAPTURE(isa_name(isa), packed.name, rows, ranks, whole.spec.slices);
          if (whole.spec.slices % ranks != 0) continue;
          KnownMost others(in);
          std::vector<Rows> sums;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            const InputShare share(*cpu, packed.packing, values, kOutputs, kInputs, rank, ranks);
            backend::Weight weight = share.weight;
            weight.ranks = &others;
            Rows& sum = sums.emplace_back(rows, kOutputs);
            cpu->linear(sum, View(in).slice_columns(rank * kInputs / ranks, kInputs / ranks),
                        weight, rank == 0 ? biases.weight : backend::Weight{}, Activation::none);
          }
          for (size_t step = 1; step < sums.size(); step *= 2)
            for (size_t to = 0; to < sums.size(); to += 2 * step)
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < kOutputs; ++c)
                  sums[to].row(r)[c] += sums[to + step].row(r)[c];
          for (int64_t r = 0; r < rows; ++r) REQUIRE(sums.front().same_bits(r, expected, r));
        }
      }
    }
}

TEST_CASE("slices of quantised sums cut neither groups nor words") {
  const auto slices = [](const Packing& packing, int64_t inputs) {
    model::WeightSpec spec{.name = "w", .shape = {8, inputs}, .parts = {model::Part{}}};
    spec.parts.front().packing = packing;
    const int64_t unit = model::slice_unit(spec);
    return unit == 0 ? 0 : model::slices_of(inputs, unit);
  };
  CHECK(slices({.bits = 4, .group = 128}, 14336) == 8);
  CHECK(slices({.bits = 4, .group = 128}, 18944) == 4);
  CHECK(slices({.bits = 4, .group = 128}, 384) == 1);
  CHECK(slices({.bits = 3}, 96) == 1);
  CHECK(slices({.bits = 8}, 96) == 8);
  CHECK(slices({.code = Code::e4m3, .bits = 8, .inputs = InputRounding::fp8_group}, 512) == 4);
  CHECK(slices({.bits = 4, .group = 128, .ordered = true}, 14336) == 0);
}

TEST_CASE("quantised weights take little more than their codes, scales and zero points") {
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
  CHECK(bytes({.code = Code::table, .bits = 4, .group = 64, .scale = ScaleType::nested}) <=
        1.05 * (0.5 + 1.0 / 64 + 4.0 / 64 / 256));
  CHECK(bytes({.bits = 3, .group = 128, .scale = ScaleType::f16, .zeros = true}) <=
        1.05 * (3.0 / 8 + (2 + 3.0 / 8) / 128));
}

}  // namespace
}  // namespace plimsoll::testing
