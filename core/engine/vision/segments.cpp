#include "engine/vision/segments.h"

#include <algorithm>
#include <numeric>

#include "base/rounding.h"

namespace plimsoll::engine {
namespace {

std::span<int32_t> take(memory::Arena& arena, std::string_view name, int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {arena.take_array<int32_t>(name, size), size};
}

}  // namespace

Segments::Segments(std::span<const int64_t> lengths, backend::Segmentation segmentation,
                   const model::AttentionSpec& attention, const backend::Footprint& footprint,
                   memory::Arena& arrays) {
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t stride = divide_up(std::ranges::max(lengths), kBlockRows);
  for (const int64_t length : lengths) blocks_ += divide_up(length, kBlockRows);
  const auto positions = take(arrays, "segment positions", rows);
  const auto row_segment = take(arrays, "segments of rows", rows);
  const auto seen_end = take(arrays, "segment ends", rows);
  const auto starts = take(arrays, "segment starts", std::ssize(lengths) + 1);
  const auto contexts = take(arrays, "segment lengths", std::ssize(lengths));
  const auto table = take(arrays, "segment blocks", std::ssize(lengths) * stride);
  const size_t plan = footprint.segments_plan_bytes(rows, std::ssize(lengths), attention);
  batch_.plan = {arrays.take_array<std::byte>("segment plan", plan), plan};
  table_ = table;
  batch_.segmentation = segmentation;
  batch_.positions = positions;
  batch_.row_sequence = row_segment;
  batch_.query_start = starts;
  batch_.context_length = contexts;
  batch_.seen_end = seen_end;
  batch_.block_tables = {&table_, 1};
  batch_.table_stride = batch_.table_width = stride;
  if (arrays.is_counting()) return;
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
    const std::span<int32_t> blocks = table.subspan(s * stride);
    for (size_t i = 0; i < static_cast<size_t>(stride); ++i) blocks[i] = i < used ? block++ : -1;
  }
}

}  // namespace plimsoll::engine
