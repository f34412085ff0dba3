// Types of numbers: their names, and conversions against the rules of IEEE 754.
#include "base/dtype.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"

using namespace plimsoll;

namespace {

/// The number that a half's bits stand for, by the definition of binary16.
double half_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

TEST_CASE("each half is the number of its bits, and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(half_value(bits))) {
      REQUIRE(std::isnan(value));
      const uint32_t back = float_to_f16(value);
      REQUIRE((std::isnan(half_value(back)) && (back & 0x8000) == (bits & 0x8000)));
      continue;
    }
    REQUIRE(static_cast<double>(value) == half_value(bits));
    REQUIRE(std::signbit(value) == ((bits & 0x8000) != 0));
    REQUIRE(float_to_f16(value) == bits);
  }
}

TEST_CASE("between two halves the nearer is taken, in the middle the even one") {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    // Behind the largest half is as if one more stood there: from its place on it is infinity.
    const double below = half_value(bits);
    const double above = bits == 0x7bff ? 65536 : half_value(bits + 1);
    const auto middle = static_cast<float>((below + above) / 2);
    REQUIRE(float_to_f16(middle) == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(float_to_f16(std::nextafter(middle, 0.f)) == bits);
    REQUIRE(float_to_f16(std::nextafter(middle, 1e9f)) == bits + 1);
    REQUIRE(float_to_f16(-middle) == (0x8000 | (bits % 2 == 0 ? bits : bits + 1)));
  }
  CHECK(float_to_f16(1e30f) == 0x7c00);
  CHECK(float_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
}

TEST_CASE("bfloat16 is the upper half of a float, rounded to the even one in the middle") {
  CHECK(bf16_to_float(0x3f80) == 1);
  CHECK(float_to_bf16(1 + 0x1p-8f) == 0x3f80);             // the middle behind an even one
  CHECK(float_to_bf16(1 + 3 * 0x1p-8f) == 0x3f82);         // behind an odd one
  CHECK(float_to_bf16(1 + 0x1p-8f + 0x1p-23f) == 0x3f81);  // a bit more
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  const float least_nan = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(bf16_to_float(float_to_bf16(least_nan))));
}

TEST_CASE("types are known by safetensors' and torch's names") {
  using Row = std::tuple<DType, size_t, const char*, const char*>;
  const std::vector<Row> rows = {
      {DType::boolean, 1, "BOOL", "bool"},
      {DType::u8, 1, "U8", "uint8"},
      {DType::i8, 1, "I8", "int8"},
      {DType::f8_e5m2, 1, "F8_E5M2", "float8_e5m2"},
      {DType::f8_e4m3, 1, "F8_E4M3", "float8_e4m3fn"},
      {DType::f8_e8m0, 1, "F8_E8M0", "float8_e8m0fnu"},
      {DType::i16, 2, "I16", "int16"},
      {DType::u16, 2, "U16", "uint16"},
      {DType::f16, 2, "F16", "float16"},
      {DType::bf16, 2, "BF16", "bfloat16"},
      {DType::i32, 4, "I32", "int32"},
      {DType::u32, 4, "U32", "uint32"},
      {DType::f32, 4, "F32", "float32"},
      {DType::f64, 8, "F64", "float64"},
      {DType::i64, 8, "I64", "int64"},
      {DType::u64, 8, "U64", "uint64"},
  };
  for (const auto& [dtype, size, stored, torch] : rows) {
    INFO(stored);
    CHECK(dtype_size(dtype) == size);
    CHECK(safetensors_name(dtype) == stored);
    CHECK(torch_name(dtype) == torch);
    CHECK(dtype_from_safetensors(stored) == dtype);
    CHECK(dtype_from_torch(torch) == dtype);
    CHECK(dtype_from_torch(std::string("torch.") + torch) == dtype);
  }
  CHECK(dtype_from_torch("half") == DType::f16);
  CHECK(dtype_from_torch("torch.float") == DType::f32);
  CHECK(dtype_from_torch("double") == DType::f64);
  CHECK_FALSE(dtype_from_torch("float4"));
  CHECK_FALSE(dtype_from_safetensors("bf16"));
}

TEST_CASE("floating types convert into one another, others only into themselves") {
  const std::vector<double> numbers = {0, -1.5, 96, 0.25};
  const std::vector<DType> floats = {DType::f64, DType::f32, DType::f16, DType::bf16};
  for (const DType from : floats) {
    for (const DType to : floats) {
      INFO(safetensors_name(from) << " to " << safetensors_name(to));
      // One byte in front: no address is aligned.
      std::string stored(1 + 8 * numbers.size(), '\0'), converted = stored;
      convert(numbers.data(), DType::f64, stored.data() + 1, from, numbers.size());
      convert(stored.data() + 1, from, converted.data() + 1, to, numbers.size());
      std::vector<double> back(numbers.size());
      convert(converted.data() + 1, to, back.data(), DType::f64, numbers.size());
      CHECK(back == numbers);
    }
  }
  const int32_t seven = 7;
  int32_t copy = 0;
  float number = 0;
  convert(&seven, DType::i32, &copy, DType::i32, 1);
  CHECK(copy == 7);
  CHECK_THROWS_WITH(convert(&seven, DType::i32, &number, DType::f32, 1), "no conversion from I32");
  CHECK_THROWS_WITH(convert(&number, DType::f32, &copy, DType::i32, 1), "no conversion to I32");
}
