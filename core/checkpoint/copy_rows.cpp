#include "checkpoint/copy_rows.h"

#include <vector>

#include "base/error.h"
#include "base/ggml/decode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace plimsoll::checkpoint {
namespace {

// A tile is converted into a buffer that stays in the cache, then written out transposed.
constexpr int64_t kTile = 64;

template <size_t kBytes>
void transpose_tile(const std::byte* tile, int64_t tile_rows, int64_t tile_columns, std::byte* to,
                    int64_t to_stride) {
  for (int64_t column = 0; column < tile_columns; ++column) {
    std::byte* out = to + column * to_stride * static_cast<int64_t>(kBytes);
    for (int64_t row = 0; row < tile_rows; ++row) {
      std::memcpy(out + static_cast<size_t>(row) * kBytes,
                  tile + static_cast<size_t>(row * kTile + column) * kBytes, kBytes);
    }
  }
}

void copy_transposed(const TensorEntry& tensor, const Block& block, DType dtype, std::byte* to,
                     int64_t to_stride) {
  const auto from_size = static_cast<int64_t>(dtype_size(tensor.dtype));
  const auto to_size = static_cast<int64_t>(dtype_size(dtype));
  const int64_t stored_columns = tensor.shape[1];
  std::array<std::byte, kTile * kTile * sizeof(double)> tile;
  const auto transpose = to_size == 1   ? transpose_tile<1>
                         : to_size == 2 ? transpose_tile<2>
                         : to_size == 4 ? transpose_tile<4>
                                        : transpose_tile<8>;
  for (int64_t i = 0; i < block.rows; i += kTile) {
    const int64_t width = std::min(kTile, block.rows - i);
    for (int64_t j = 0; j < block.columns; j += kTile) {
      const int64_t height = std::min(kTile, block.columns - j);
      for (int64_t row = 0; row < height; ++row) {
        const int64_t stored = (block.column + j + row) * stored_columns + block.row + i;
        convert(tensor.data + stored * from_size, tensor.dtype, tile.data() + row * kTile * to_size,
                dtype, static_cast<size_t>(width));
      }
      transpose(tile.data(), height, width, to + (i * to_stride + j) * to_size, to_stride);
    }
  }
}

/// Decodes the stored rows that a block needs, and copies it from these.
void copy_decoded(const TensorEntry& tensor, bool transposed, const Block& block, DType dtype,
                  std::byte* to, int64_t to_stride) {
  if (!tensor.blocks->is_run) {
    fail(ExitCode::checkpoint_unusable,
         "tensor {} is {}, which run does not decode (plan counts it)", tensor.name,
         tensor.blocks->name);
  }
  const int64_t columns = tensor.shape.back();
  const int64_t first = transposed ? block.column : block.row;
  const int64_t rows = transposed ? block.columns : block.rows;
  const int64_t row_bytes = columns / tensor.blocks->values * tensor.blocks->bytes;
  std::vector<float> decoded(static_cast<size_t>(rows * columns));
  decode_ggml(tensor.blocks->type(), tensor.data + first * row_bytes, rows * columns,
              decoded.data());
  TensorEntry plain = tensor;
  plain.dtype = DType::f32;
  plain.blocks = nullptr;
  plain.shape = {rows, columns};
  plain.data = reinterpret_cast<const std::byte*>(decoded.data());
  plain.bytes = decoded.size() * sizeof(float);
  Block own = block;
  (transposed ? own.column : own.row) = 0;
  copy_block(plain, transposed, own, dtype, to, to_stride);
}

}  // namespace

void copy_block(const TensorEntry& tensor, bool transposed, const Block& block, DType dtype,
                std::byte* to, int64_t to_stride) {
  if (tensor.is_packed()) return copy_decoded(tensor, transposed, block, dtype, to, to_stride);
  if (transposed) return copy_transposed(tensor, block, dtype, to, to_stride);
  const auto from_size = static_cast<int64_t>(dtype_size(tensor.dtype));
  const auto to_size = static_cast<int64_t>(dtype_size(dtype));
  const int64_t stored_columns = static_cast<int64_t>(tensor.bytes) / from_size /
                                 (tensor.shape.empty() ? 1 : std::max<int64_t>(tensor.shape[0], 1));
  const bool whole_rows = block.columns == stored_columns && block.columns == to_stride;
  const int64_t runs = whole_rows ? 1 : block.rows;
  const int64_t run = whole_rows ? block.rows * block.columns : block.columns;
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t stored = (block.row + i) * stored_columns + block.column;
    convert(tensor.data + stored * from_size, tensor.dtype, to + i * to_stride * to_size, dtype,
            static_cast<size_t>(run));
  }
}

void copy_rows(const TensorEntry& tensor, const model::Part& part, const Block& block, DType dtype,
               std::byte* to) {
  const auto row_bytes = block.columns * static_cast<int64_t>(dtype_size(dtype));
  for_each_run(part, block.row, block.rows, [&](int64_t stored, int64_t done, int64_t run) {
    copy_block(tensor, part.transposed,
               {.row = stored, .rows = run, .column = block.column, .columns = block.columns},
               dtype, to + done * row_bytes, block.columns);
  });
}

void copy_constant(const model::WeightSpec& weight, const Block& block, DType dtype,
                   std::byte* to) {
  const auto row_bytes = block.columns * static_cast<int64_t>(dtype_size(dtype));
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t first = (block.row + i) * weight.columns() + block.column;
    convert(weight.constant.data() + first, DType::f32, to + i * row_bytes, dtype,
            static_cast<size_t>(block.columns));
  }
}

float rounded(float value, DType dtype) {
  std::array<std::byte, sizeof(double)> stored{};
  convert(&value, DType::f32, stored.data(), dtype, 1);
  convert(stored.data(), dtype, &value, DType::f32, 1);
  return value;
}

namespace {

// Divides a row by its length as torch's normalize does: the length is rounded to the dtype too,
// and none is below 1e-12.
void make_unit(std::span<float> row, DType dtype) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * static_cast<double>(value);
  const float length = rounded(static_cast<float>(std::sqrt(sum)), dtype);
  for (float& value : row) value /= std::max(length, 1e-12f);
}

}  // namespace

void change_values(const model::Part& part, std::byte* values, DType dtype, int64_t rows,
                   int64_t columns) {
  const auto count = static_cast<size_t>(rows * columns), row = static_cast<size_t>(columns);
  std::vector<float> wide(count);
  convert(values, dtype, wide.data(), DType::f32, count);
  for (float& value : wide) value = value * part.factor + part.offset;
  if (part.mapping == model::Mapping::unit_rows) {
    for (size_t i = 0; i < count; i += row) make_unit(std::span(wide).subspan(i, row), dtype);
  }
  convert(wide.data(), DType::f32, values, dtype, count);
}

}  // namespace plimsoll::checkpoint
