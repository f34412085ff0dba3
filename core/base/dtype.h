// Element types of checkpoint tensors and of the engine, and scalar conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class DType : uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
};

/// Bytes of one element.
size_t dtype_size(DType dtype);
/// safetensors' spelling: "BF16", "F32", "F8_E4M3", ...
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);
/// torch's spelling without the "torch." prefix: "bfloat16", "float16" ("half"), "float32"
/// ("float"), ...
std::string_view torch_name(DType dtype);
std::optional<DType> dtype_from_torch(std::string_view name);

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// Rounds to nearest even; NaN stays NaN.
inline uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_float(uint16_t bits);
/// Rounds to nearest even, overflow to infinity.
uint16_t float_to_f16(float value);

/// Converts `count` elements between the floating types f64, f32, f16 and bf16 (nearest even), or
/// copies equal types. Unaligned pointers are allowed. Throws Error for a pair that has no
/// conversion.
void convert(const void* from, DType from_type, void* to, DType to_type, size_t count);

}  // namespace plimsoll
