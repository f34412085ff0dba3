// How checkpoints store quantized matrices: what is read, and what is refused by the tensor's name.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "quantization/formats/format.h"

using namespace plimsoll;
using namespace plimsoll::quantization;
using Catch::Contains;
using model::Packing;

namespace {

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

template <typename T>
Tensor tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Tensor result{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

std::vector<uint32_t> words(size_t count) {
  std::vector<uint32_t> result(count);
  uint32_t state = 12345;
  for (uint32_t& word : result) word = state = state * 1664525u + 1013904223u;
  return result;
}

std::vector<float> scales(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = 0.5f + static_cast<float>(i);
  return result;
}

constexpr int64_t kRows = 32, kColumns = 64, kGroup = 32, kGroups = 2;

StoredMatrix stored(const Tensors& tensors) {
  StoredMatrix matrix{.module = "m.q_proj", .rows = kRows, .columns = kColumns};
  matrix.find = [&tensors](const std::string& ending) -> std::optional<StoredTensor> {
    const auto found = tensors.find(ending);
    if (found == tensors.end()) return std::nullopt;
    return StoredTensor{.name = "m.q_proj." + ending,
                        .dtype = found->second.dtype,
                        .shape = found->second.shape,
                        .data = found->second.bytes.data(),
                        .guarded = [](const std::function<void()>& read) { read(); }};
  };
  return matrix;
}

/// All that opening and reading do.
std::vector<uint8_t> read_all(const WeightScheme& scheme, const Tensors& tensors) {
  const StoredMatrix matrix = stored(tensors);
  const Packing packing = packing_of(scheme, matrix);
  const auto rows = open_matrix(packing, matrix);
  std::vector<uint8_t> codes(kRows * kColumns);
  rows->codes(0, kRows, codes.data());
  std::vector<std::byte> all(static_cast<size_t>(kRows * packing.groups(kColumns) * 4));
  rows->scales(0, kRows, all.data());
  return codes;
}

Tensors awq() {
  return {{"qweight", tensor(DType::i32, {kColumns, kRows / 8}, words(kColumns * kRows / 8))},
          {"qzeros", tensor(DType::i32, {kGroups, kRows / 8}, words(kGroups * kRows / 8))},
          {"scales", tensor(DType::f32, {kGroups, kRows}, scales(kGroups * kRows))}};
}
const WeightScheme kAwq{
    .format = WeightFormat::awq, .bits = 4, .group = kGroup, .zero_points = true};

Tensors gptq(int64_t bits) {
  std::vector<int32_t> order(kColumns);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i / kGroup);
  const int64_t lines = kColumns * bits / 32;
  const int64_t zeros = kRows * bits / 32;
  return {
      {"qweight", tensor(DType::i32, {lines, kRows}, words(static_cast<size_t>(lines * kRows)))},
      {"qzeros", tensor(DType::i32, {kGroups, zeros}, words(static_cast<size_t>(kGroups * zeros)))},
      {"scales", tensor(DType::f32, {kGroups, kRows}, scales(kGroups * kRows))},
      {"g_idx", tensor(DType::i32, {kColumns}, order)}};
}
WeightScheme gptq_scheme(int64_t bits) {
  return {.format = WeightFormat::gptq, .bits = bits, .group = kGroup};
}

Tensors packed() {
  return {{"weight_packed", tensor(DType::i32, {kRows, kColumns / 8}, words(kRows * kColumns / 8))},
          {"weight_scale", tensor(DType::f32, {kRows, kGroups}, scales(kRows * kGroups))},
          {"weight_shape", tensor<int64_t>(DType::i64, {2}, {kRows, kColumns})}};
}
const WeightScheme kPacked{.format = WeightFormat::packed, .bits = 4, .group = kGroup};

Tensors fp8() {
  return {{"weight",
           tensor(DType::f8_e4m3, {kRows, kColumns}, std::vector<uint8_t>(kRows * kColumns, 0x38))},
          {"weight_scale", tensor<float>(DType::f32, {}, {0.5f})}};
}
const WeightScheme kFp8{.format = WeightFormat::fp8, .bits = 8};

uint32_t word_of(const Tensor& from, int64_t i) {
  uint32_t word = 0;
  std::memcpy(&word, from.bytes.data() + i * 4, 4);
  return word;
}

}  // namespace

TEST_CASE("AWQ's nibbles are read in their order") {
  const Tensors tensors = awq();
  const std::vector<uint8_t> codes = read_all(kAwq, tensors);
  constexpr int kOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int64_t o = 0; o < kRows; ++o)
    for (int64_t n = 0; n < kColumns; ++n) {
      const uint32_t word = word_of(tensors.at("qweight"), n * (kRows / 8) + o / 8);
      REQUIRE(codes[static_cast<size_t>(o * kColumns + n)] == (word >> 4 * kOrder[o % 8] & 15));
    }
}

TEST_CASE("GPTQ's numbers run over the ends of words") {
  for (const int64_t bits : {2, 3, 4, 8}) {
    const Tensors tensors = gptq(bits);
    const std::vector<uint8_t> codes = read_all(gptq_scheme(bits), tensors);
    for (int64_t o = 0; o < kRows; ++o)
      for (int64_t n = 0; n < kColumns; ++n) {
        uint32_t code = 0;  // bit by bit
        for (int64_t b = 0; b < bits; ++b) {
          const int64_t at = n * bits + b;
          code |= (word_of(tensors.at("qweight"), at / 32 * kRows + o) >> at % 32 & 1) << b;
        }
        REQUIRE(codes[static_cast<size_t>(o * kColumns + n)] == code);
      }
  }
}

TEST_CASE("groups in the order of inputs are kept without an index, others with one") {
  Tensors tensors = gptq(4);
  CHECK_FALSE(packing_of(gptq_scheme(4), stored(tensors)).ordered);
  std::swap(tensors.at("g_idx").bytes[0], tensors.at("g_idx").bytes[4 * kGroup]);
  CHECK(packing_of(gptq_scheme(4), stored(tensors)).ordered);
}

/// Some inputs of a matrix are read as those of the whole one are.
void check_some(const WeightScheme& scheme, StoredMatrix matrix, const model::Inputs& inputs) {
  const Packing packing = packing_of(scheme, matrix);
  CAPTURE(static_cast<int>(packing.format), packing.bits);
  const auto whole = open_matrix(packing, matrix);
  matrix.inputs = inputs;
  const auto some = open_matrix(packing, matrix);
  const bool in_groups = packing.group > 0;
  const int64_t first = in_groups ? inputs.first / packing.group : 0;
  const int64_t last = in_groups ? (inputs.first + inputs.count - 1) / packing.group : 0;
  const auto check = [&](auto element, int64_t all, int64_t from, int64_t count, const auto& read) {
    std::vector<decltype(element)> expected(static_cast<size_t>(kRows * all));
    std::vector<decltype(element)> own(static_cast<size_t>(kRows * count));
    read(*whole, expected.data());
    read(*some, own.data());
    for (int64_t o = 0; o < kRows; ++o) {
      const auto row = expected.begin() + o * all + from;
      CHECK(std::equal(row, row + count, own.begin() + o * count));
    }
  };
  const int64_t groups = packing.groups(kColumns), size = model::scale_bytes(packing.scale);
  check(uint8_t{}, kColumns, inputs.first, inputs.count,
        [](const auto& rows, uint8_t* to) { rows.codes(0, kRows, to); });
  check(std::byte{}, groups * size, first * size, (last - first + 1) * size,
        [](const auto& rows, std::byte* to) { rows.scales(0, kRows, to); });
  if (!packing.zeros) return;
  check(uint8_t{}, groups, first, last - first + 1,
        [](const auto& rows, uint8_t* to) { rows.zeros(0, kRows, to); });
}

TEST_CASE("some inputs of a matrix are read as they are among all") {
  struct Row {
    WeightScheme scheme;
    Tensors tensors;
  };
  const Row rows[] = {{kAwq, awq()},
                      {gptq_scheme(2), gptq(2)},
                      {gptq_scheme(3), gptq(3)},
                      {gptq_scheme(8), gptq(8)},
                      {kPacked, packed()},
                      {kFp8, fp8()}};
  for (const Row& row : rows)
    for (const int64_t first : {int64_t{0}, kGroup / 2, kGroup}) {
      CAPTURE(first);
      check_some(row.scheme, stored(row.tensors), {first, kGroup});
    }
}

TEST_CASE("damaged tensors of quantized matrices are refused by name") {
  struct Row {
    const char* what;
    WeightScheme scheme;
    Tensors tensors;
    std::function<void(Tensors&)> damage;
    const char* named;
  };
  const auto set_float = [](const char* name, float value) {
    return [name, value](Tensors& t) { std::memcpy(t.at(name).bytes.data() + 4, &value, 4); };
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Row rows[] = {
      {"no scales", kAwq, awq(), [](Tensors& t) { t.erase("scales"); }, "m.q_proj.scales"},
      {"no zero points", kAwq, awq(), [](Tensors& t) { t.erase("qzeros"); }, "m.q_proj.qzeros"},
      {"codes of another shape", kAwq, awq(),
       [](Tensors& t) {
         t.at("qweight").shape = {kColumns / 2, kRows / 4};
       },
       "m.q_proj.qweight"},
      {"scales of another type", kAwq, awq(), [](Tensors& t) { t.at("scales").dtype = DType::i32; },
       "m.q_proj.scales"},
      {"a scale that is no number", kAwq, awq(), set_float("scales", nan), "m.q_proj.scales"},
      {"an infinite scale", kPacked, packed(), set_float("weight_scale", inf),
       "m.q_proj.weight_scale"},
      {"groups that do not divide",
       {.format = WeightFormat::awq, .bits = 4, .group = 48, .zero_points = true},
       awq(),
       [](Tensors&) {},
       "m.q_proj"},
      {"a group out of range", gptq_scheme(4), gptq(4),
       [](Tensors& t) { t.at("g_idx").bytes[0] = std::byte{2}; }, "m.q_proj.g_idx"},
      {"a negative group", gptq_scheme(4), gptq(4),
       [](Tensors& t) { t.at("g_idx").bytes[3] = std::byte{0xff}; }, "m.q_proj.g_idx"},
      {"an index that is too short", gptq_scheme(4), gptq(4),
       [](Tensors& t) { t.at("g_idx").shape = {kColumns / 2}; }, "m.q_proj.g_idx"},
      {"no zero points of GPTQ", gptq_scheme(3), gptq(3), [](Tensors& t) { t.erase("qzeros"); },
       "m.q_proj.qzeros"},
      {"a shape that is not the matrix's", kPacked, packed(),
       [](Tensors& t) { t.at("weight_shape").bytes[0] = std::byte{1}; }, "m.q_proj.weight_shape"},
      {"packed words that do not fit", kPacked, packed(),
       [](Tensors& t) {
         t.at("weight_packed").shape = {kRows / 2, kColumns / 4};
       },
       "m.q_proj.weight_packed"},
      {"zero points of symmetric integers", kPacked, packed(),
       [](Tensors& t) {
         t["weight_zero_point"] = tensor(DType::i32, {kRows / 8, 2}, words(kRows / 4));
       },
       "m.q_proj.weight_zero_point"},
      {"a weight that is no number", kFp8, fp8(),
       [](Tensors& t) { t.at("weight").bytes[9] = std::byte{0xff}; }, "m.q_proj.weight"},
      {"no scale of a float8", kFp8, fp8(), [](Tensors& t) { t.erase("weight_scale"); },
       "m.q_proj.weight_scale"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Tensors tensors = row.tensors;
    CHECK_NOTHROW(row.scheme.group == 48 || (read_all(row.scheme, tensors), true));
    row.damage(tensors);
    CHECK_THROWS_WITH(read_all(row.scheme, tensors), Contains(row.named));
  }
}

TEST_CASE("bitsandbytes' blocks run over the ends of outputs, and their scales may be nested") {
  constexpr int64_t kOutputs = 3, kInputs = 48, kBlock = 32, kBlocks = 5, kShare = 16;
  const bool twice = GENERATE(true, false);
  const std::string state = R"({"blocksize": 32, "nested_blocksize": 256, "nested_offset": 0.25})";
  std::vector<float> numbers(256), table(16, 0.f), plain(kBlocks);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) / 256;
  const std::vector<uint8_t> absmax = {3, 200, 17, 90, 255};
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = numbers[absmax[i]] * 2 + 0.25f;
  Tensors tensors = {
      {"weight", tensor(DType::u8, {kOutputs * kInputs / 2, 1},
                        std::vector<uint8_t>(kOutputs * kInputs / 2, 0x21))},
      {"weight.absmax",
       twice ? tensor(DType::u8, {kBlocks}, absmax) : tensor(DType::f32, {kBlocks}, plain)},
      {"weight.quant_map", tensor(DType::f32, {16}, table)},
      {"weight.quant_state.bitsandbytes__nf4",
       tensor(DType::u8, {std::ssize(state)}, std::vector<uint8_t>(state.begin(), state.end()))}};
  if (twice) {
    tensors["weight.nested_absmax"] = tensor(DType::f32, {1}, std::vector<float>{2});
    tensors["weight.nested_quant_map"] = tensor(DType::f32, {256}, numbers);
  }
  StoredMatrix matrix = stored(tensors);
  matrix.rows = kOutputs;
  matrix.columns = kInputs;
  Packing packing = packing_of({.format = WeightFormat::bitsandbytes, .bits = 4}, matrix);
  CHECK(packing.group == kShare);
  CHECK(packing.scale == model::ScaleType::nested);
  CHECK(packing.block_inputs == (twice ? 256 : 1) * kBlock);
  const auto expected = [&](int64_t i) { return plain[static_cast<size_t>(i * kShare / kBlock)]; };
  constexpr int64_t kPieces = kOutputs * kInputs / kShare;
  std::vector<uint8_t> bytes(kPieces);
  std::vector<float> first(256), second(twice ? 1 : kBlocks);
  model::NestedScales nested{.numbers = first, .absmax = second};
  const auto rows = open_matrix(packing, matrix);
  rows->scales(0, kOutputs, reinterpret_cast<std::byte*>(bytes.data()));
  rows->nested(nested);
  for (int64_t i = 0; i < kPieces; ++i) {
    const auto share = static_cast<size_t>(i * kShare / packing.block_inputs);
    CHECK(first[bytes[static_cast<size_t>(i)]] * second[share] + nested.offset == expected(i));
  }
  // Scales are read as where outputs do not lie together.
  packing.scale = model::ScaleType::f32;
  std::vector<float> scales(kPieces);
  open_matrix(packing, matrix)->scales(0, kOutputs, reinterpret_cast<std::byte*>(scales.data()));
  for (int64_t i = 0; i < kPieces; ++i) CHECK(scales[static_cast<size_t>(i)] == expected(i));
}

TEST_CASE("a plan knows by the configuration whether bitsandbytes' scales are nested") {
  const Tensors nothing;
  StoredMatrix matrix = stored(nothing);
  matrix.columns = 128;
  WeightScheme scheme{.format = WeightFormat::bitsandbytes, .bits = 4};
  CHECK(packing_of(scheme, matrix).scale == model::ScaleType::f32);
  scheme.nested_scales = true;
  CHECK(packing_of(scheme, matrix).scale == model::ScaleType::nested);
}

TEST_CASE("static scales of inputs are positive, and Hugging Face calls them otherwise") {
  Tensors tensors = fp8();
  tensors.emplace("activation_scale", tensor(DType::f32, {}, std::vector<float>{0.5f}));
  const StoredMatrix matrix = stored(tensors);
  Packing packing = packing_of(kFp8, matrix);
  packing.inputs = model::InputRounding::fp8_static;
  CHECK(open_matrix(packing, matrix)->input_scale().scale == 0.5f);
  tensors.insert_or_assign("activation_scale", tensor(DType::f32, {}, std::vector<float>{-0.5f}));
  CHECK_THROWS_WITH(open_matrix(packing, matrix), Contains("m.q_proj.activation_scale\" is -0.5"));
}

TEST_CASE("inputs may have a stored zero point, an int8") {
  Tensors tensors = fp8();
  tensors.at("weight").dtype = DType::i8;
  tensors.emplace("input_scale", tensor(DType::f32, {1}, std::vector<float>{0.25f}));
  const StoredMatrix matrix = stored(tensors);
  Packing packing = packing_of({.format = WeightFormat::int8, .bits = 8}, matrix);
  packing.inputs = model::InputRounding::int8_static_zeros;
  CHECK_THROWS_WITH(open_matrix(packing, matrix), Contains("m.q_proj.input_zero_point"));
  tensors.emplace("input_zero_point", tensor(DType::i8, {}, std::vector<int8_t>{-9}));
  CHECK(open_matrix(packing, matrix)->input_scale() == model::InputScale{0.25f, -9});
  tensors.insert_or_assign("input_zero_point", tensor(DType::f32, {}, std::vector<float>{1}));
  CHECK_THROWS_WITH(open_matrix(packing, matrix), Contains("input_zero_point\" has dtype F32"));
}

TEST_CASE("float8 codes and scales may be stored the other way round") {
  Tensors tensors = fp8();
  std::vector<uint8_t> codes(kRows * kColumns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 120);
  tensors.insert_or_assign("weight", tensor(DType::f8_e4m3, {kColumns, kRows}, codes));
  constexpr int64_t kBlock = 32, kAcross = kColumns / kBlock, kDown = kRows / kBlock + 1;
  const WeightScheme scheme = block_fp8(kRows - 1, kBlock);  // a second line of blocks
  tensors.insert_or_assign("weight_scale",
                           tensor(DType::f32, {kAcross, kDown}, scales(kAcross * kDown)));
  StoredMatrix matrix = stored(tensors);
  matrix.transposed = true;
  matrix.inputs = {kBlock, kBlock};
  const auto rows = open_matrix(packing_of(scheme, matrix), matrix);
  std::vector<uint8_t> some(2 * kBlock);
  rows->codes(kRows - 2, 2, some.data());
  std::vector<float> found(2);
  rows->scales(kRows - 2, 2, reinterpret_cast<std::byte*>(found.data()));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t n = 0; n < kBlock; ++n)
      CHECK(some[static_cast<size_t>(i * kBlock + n)] ==
            codes[static_cast<size_t>((kBlock + n) * kRows + kRows - 2 + i)]);
  CHECK(found == std::vector<float>{0.5f + 2, 0.5f + 3});
}
