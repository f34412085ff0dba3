#include "engine/vision/segments.h"

#include <algorithm>
#include <numeric>

#include "base/rounding.h"

namespace plimsoll::engine {
namespace {

constexpr int64_t kBlockRows = 16;  // rows of a cache block

std::span<int32_t> take(backend::Backend& backend, std::string_view name, int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {backend.scratch().take_array<int32_t>(name, size), size};
}

}  // namespace

Segments::Segments(std::span<const int64_t> lengths, const model::AttentionSpec& attention,
                   DType dtype, backend::Backend& backend) {
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t stride = divide_up(std::ranges::max(lengths), kBlockRows);
  int64_t blocks = 0;
  for (const int64_t length : lengths) blocks += divide_up(length, kBlockRows);
  const auto positions = take(backend, "segment positions", rows);
  const auto row_segment = take(backend, "segments of rows", rows);
  const auto seen_end = take(backend, "segment ends", rows);
  const auto starts = take(backend, "segment starts", std::ssize(lengths) + 1);
  const auto contexts = take(backend, "segment lengths", std::ssize(lengths));
  const auto table = take(backend, "segment blocks", std::ssize(lengths) * stride);
  cache_.block_stride = backend.footprint().kv_bytes(attention, kBlockRows, dtype);
  cache_.pool = backend.scratch().take_array<std::byte>(
      "segment keys and values", static_cast<size_t>(blocks) * cache_.block_stride);
  cache_.dtype = dtype;
  cache_.block_size = kBlockRows;
  table_ = table;
  batch_.positions = positions;
  batch_.row_sequence = row_segment;
  batch_.query_start = starts;
  batch_.context_length = contexts;
  batch_.seen_end = seen_end;
  batch_.block_tables = {&table_, 1};
  batch_.table_stride = batch_.table_width = stride;
  if (backend.scratch().is_counting()) return;
  size_t row = 0;
  int32_t block = 0;
  starts[0] = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const auto length = static_cast<int32_t>(lengths[s]);
    for (int32_t position = 0; position < length; ++position, ++row) {
      positions[row] = position;
      row_segment[row] = static_cast<int32_t>(s);
      seen_end[row] = length;
    }
    starts[s + 1] = static_cast<int32_t>(row);
    contexts[s] = length;
    const auto used = static_cast<size_t>(divide_up(lengths[s], kBlockRows));
    for (size_t i = 0; i < used; ++i) table[s * static_cast<size_t>(stride) + i] = block++;
  }
}

}  // namespace plimsoll::engine
