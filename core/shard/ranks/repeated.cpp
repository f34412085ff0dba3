#include "shard/ranks/repeated.h"

namespace plimsoll::shard {
namespace {

using checkpoint::Block;
using checkpoint::TensorEntry;

void copy_element(const TensorEntry& tensor, bool transposed, int64_t row, int64_t column,
                  DType dtype, std::byte* to) {
  checkpoint::copy_block(tensor, transposed,
                         {.row = row, .rows = 1, .column = column, .columns = 1}, dtype, to, 1);
}

}  // namespace

void copy_repeated(const TensorEntry& tensor, const Slice& slice, const Block& block, DType dtype,
                   std::byte* to, int64_t to_stride) {
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  for (int64_t row = 0; row < block.rows; ++row) {
    for (int64_t column = 0; column < block.columns; ++column) {
      copy_element(tensor, slice.part->transposed, (block.row + row) / slice.repeat.rows,
                   (block.column + column) / slice.repeat.columns, dtype,
                   to + (row * to_stride + column) * size);
    }
  }
}

void copy_unrepeated(const TensorEntry& from, const Slice& slice, const Block& block, DType dtype,
                     std::byte* to, int64_t to_stride) {
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t row = (block.row + i) * slice.repeat.rows - slice.row;  // the first of its copies
    if (row < 0 || row >= slice.rows) continue;
    for (int64_t j = 0; j < block.columns; ++j) {
      const int64_t column = (block.column + j) * slice.repeat.columns - slice.column;
      if (column < 0 || column >= slice.columns) continue;
      copy_element(from, /*transposed=*/false, slice.to_row + row, slice.to_column + column, dtype,
                   to + (i * to_stride + j) * size);
    }
  }
}

}  // namespace plimsoll::shard
