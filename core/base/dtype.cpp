#include "base/dtype.h"

#include <array>
#include <cstring>

#include "base/error.h"

namespace plimsoll {
namespace {

struct Row {
  DType dtype;
  size_t size;
  std::string_view safetensors;
  std::string_view torch;
};

constexpr std::array<Row, 16> kTypes = {{
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
}};

const Row& row(DType dtype) {
  return kTypes[static_cast<size_t>(dtype)];
}

template <typename T>
T load_unaligned(const void* from, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
  return value;
}

double element(const void* from, DType type, size_t index) {
  switch (type) {
    case DType::f64:
      return load_unaligned<double>(from, index);
    case DType::f32:
      return load_unaligned<float>(from, index);
    case DType::f16:
      return f16_to_float(load_unaligned<uint16_t>(from, index));
    case DType::bf16:
      return bf16_to_float(load_unaligned<uint16_t>(from, index));
    default:
      fail(ExitCode::checkpoint_unusable, "no conversion from {}", safetensors_name(type));
  }
}

template <typename T>
void store_unaligned(void* to, size_t index, T value) {
  std::memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

void store(void* to, DType type, size_t index, double value) {
  switch (type) {
    case DType::f64:
      return store_unaligned(to, index, value);
    case DType::f32:
      return store_unaligned(to, index, static_cast<float>(value));
    case DType::f16:
      return store_unaligned(to, index, float_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return store_unaligned(to, index, float_to_bf16(static_cast<float>(value)));
    default:
      fail(ExitCode::checkpoint_unusable, "no conversion to {}", safetensors_name(type));
  }
}

}  // namespace

size_t dtype_size(DType dtype) {
  return row(dtype).size;
}
std::string_view safetensors_name(DType dtype) {
  return row(dtype).safetensors;
}
std::string_view torch_name(DType dtype) {
  return row(dtype).torch;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& type : kTypes) {
    if (type.safetensors == name) return type.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_torch(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "half") return DType::f16;
  if (name == "float") return DType::f32;
  if (name == "double") return DType::f64;
  for (const Row& type : kTypes) {
    if (type.torch == name) return type.dtype;
  }
  return std::nullopt;
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {                                               // subnormal half
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // ulp of 0.5 is 2^-24
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

void convert(const void* from, DType from_type, void* to, DType to_type, size_t count) {
  if (from_type == to_type) {
    std::memcpy(to, from, count * dtype_size(from_type));
    return;
  }
  if (from_type == DType::bf16 && to_type == DType::f32) {
    for (size_t i = 0; i < count; ++i) {
      store_unaligned(to, i, bf16_to_float(load_unaligned<uint16_t>(from, i)));
    }
    return;
  }
  if (from_type == DType::f32 && to_type == DType::bf16) {
    for (size_t i = 0; i < count; ++i) {
      store_unaligned(to, i, float_to_bf16(load_unaligned<float>(from, i)));
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) store(to, to_type, i, element(from, from_type, i));
}

}  // namespace plimsoll
