#include "base/ggml/decode.h"

#include <array>
#include <bit>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "base/ggml/blocks.h"

namespace plimsoll {
namespace {

/// One block's float16s and bytes, for ggml_scale().
struct OneBlock {
  const GgmlBlocks& blocks;
  const std::byte* scales;

  [[nodiscard]] float half(int64_t i) const {
    float value = 0;
    convert(scales + 2 * i, DType::f16, &value, DType::f32, 1);
    return value;
  }
  [[nodiscard]] int32_t byte(int64_t i) const {
    return static_cast<int32_t>(scales[2 * blocks.halves + i]);
  }
  [[nodiscard]] static float to_float(int32_t integer) { return static_cast<float>(integer); }
  [[nodiscard]] static float of_bits(int32_t bits) { return std::bit_cast<float>(bits); }
  [[nodiscard]] static float zero() { return 0; }
  [[nodiscard]] static float where(bool condition, float yes, float no) {
    return condition ? yes : no;
  }
};

}  // namespace

void decode_ggml_codes(const GgmlBlocks& blocks, const uint8_t* codes, const std::byte* scales,
                       float* to) {
  for (int64_t g = 0; g < blocks.values / blocks.group; ++g) {
    const auto [scale, minimum] = ggml_scale(blocks.type, OneBlock{blocks, scales}, g);
    for (int64_t j = g * blocks.group; j < (g + 1) * blocks.group; ++j) {
      const int32_t number = blocks.table ? (*blocks.table)[codes[j]] : codes[j] - blocks.zero;
      to[j] = scale * static_cast<float>(number) - minimum;
    }
  }
}

void decode_ggml(GgmlType type, const std::byte* from, int64_t count, float* to) {
  const auto plain = [&](DType dtype) {
    convert(from, dtype, to, DType::f32, static_cast<size_t>(count));
  };
  switch (type) {
    case GgmlType::f32:
      return plain(DType::f32);
    case GgmlType::f16:
      return plain(DType::f16);
    case GgmlType::bf16:
      return plain(DType::bf16);
    case GgmlType::f64:
      return plain(DType::f64);
    default:
      break;
  }
  const GgmlBlocks* const blocks = find_ggml_blocks(type);
  if (blocks == nullptr) throw std::logic_error("a type that run does not have");
  std::vector<uint8_t> codes(static_cast<size_t>(blocks->values));
  std::vector<std::byte> scales(static_cast<size_t>(blocks->scale_bytes()));
  const int64_t bytes = find_ggml_type(static_cast<uint32_t>(type))->bytes;
  for (int64_t done = 0; done < count; done += blocks->values, from += bytes) {
    split_ggml_block(*blocks, from, codes.data(), scales.data());
    decode_ggml_codes(*blocks, codes.data(), scales.data(), to + done);
  }
}

}  // namespace plimsoll
