#include "shard/rank_stream.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/copy_rows.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::shard {
namespace {

void stream_bytes(const std::vector<std::byte>& bytes, Sink& sink) {
  std::memcpy(sink.room(bytes.size()).data(), bytes.data(), bytes.size());
  sink.commit(bytes.size());
}

void stream_zeros(int64_t count, Sink& sink) {
  while (count > 0) {
    const std::span<std::byte> room = sink.room(1);
    const size_t now = std::min(room.size(), static_cast<size_t>(count));
    std::memset(room.data(), 0, now);
    sink.commit(now);
    count -= static_cast<int64_t>(now);
  }
}

// Slices that lie beside each other in the rank's tensor [rows, columns].
void stream_slices(const Source& source, std::span<const Slice> slices, const ShardTensor& tensor,
                   Sink& sink) {
  const int64_t columns = slices.size() == 1 ? slices.front().columns : tensor.columns();
  const auto row_bytes = static_cast<size_t>(columns) * dtype_size(tensor.dtype);
  for (int64_t done = 0; done < slices.front().rows;) {
    const std::span<std::byte> room = sink.room(row_bytes);
    const int64_t rows =
        std::min(slices.front().rows - done, static_cast<int64_t>(room.size() / row_bytes));
    for (const Slice& slice : slices) {
      const checkpoint::TensorEntry& from = source.tensor(*slice.part);
      const checkpoint::GuardedRead guard(*from.file);
      const int64_t first = slices.size() == 1 ? 0 : slice.to_column;
      checkpoint::copy_block(
          from, slice.part->transposed,
          {.row = slice.row + done, .rows = rows, .column = slice.column, .columns = slice.columns},
          tensor.dtype, room.data() + static_cast<size_t>(first) * dtype_size(tensor.dtype),
          columns);
      guard.finish();
    }
    sink.commit(static_cast<size_t>(rows) * row_bytes);
    done += rows;
  }
}

}  // namespace

void stream_tensor(const Source& source, const ShardTensor& tensor, int64_t rank,
                   int64_t tensor_parallel, Sink& sink) {
  if (tensor.weight == nullptr) return stream_bytes(tensor.constant, sink);
  const std::vector<Slice> slices = rank_slices(tensor, rank, tensor_parallel);
  switch (tensor.weight->outputs) {
    case model::OutputAxis::columns:
      return stream_slices(source, slices, tensor, sink);
    case model::OutputAxis::none:
      return stream_slices(source, {&slices.back(), 1}, tensor, sink);
    case model::OutputAxis::rows:
      break;
  }
  int64_t elements = 0;
  for (const Slice& slice : slices) {
    stream_slices(source, {&slice, 1}, tensor, sink);
    elements += slice.rows * slice.columns;
  }
  stream_zeros((tensor.elements() - elements) * static_cast<int64_t>(dtype_size(tensor.dtype)),
               sink);
}

}  // namespace plimsoll::shard
