#include "shard/rank_stream.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/copy_rows.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::shard {
namespace {

// Of the map at a time: it stays in the processor's cache for the digest.
constexpr size_t kPassed = size_t{1} << 20;

// Rows that the rank's tensor holds just as the checkpoint stores them.
bool is_straight(const checkpoint::TensorEntry& from, const Slice& slice, DType dtype) {
  const auto elements = static_cast<int64_t>(from.bytes / dtype_size(from.dtype));
  const int64_t rows = from.shape.empty() ? 1 : from.shape.front();
  return from.dtype == dtype && !slice.part->transposed && rows * slice.columns == elements;
}

void pass_rows(const checkpoint::TensorEntry& from, const Slice& slice, Sink& sink) {
  const auto row_bytes = static_cast<size_t>(slice.columns) * dtype_size(from.dtype);
  std::span<const std::byte> left(from.data + static_cast<size_t>(slice.row) * row_bytes,
                                  static_cast<size_t>(slice.rows) * row_bytes);
  while (!left.empty()) {
    const auto now = left.first(std::min(left.size(), kPassed));
    from.file->prefault(now.data(), now.size());
    const checkpoint::GuardedRead guard(*from.file);
    sink.pass(now);
    guard.finish();
    left = left.subspan(now.size());
  }
}

// The rows of a block, whole.
void prefault_rows(const checkpoint::TensorEntry& from, int64_t row, int64_t rows) {
  if (from.shape.empty()) return;
  const size_t row_bytes = from.bytes / static_cast<size_t>(from.shape.front());
  from.file->prefault(from.data + static_cast<size_t>(row) * row_bytes,
                      static_cast<size_t>(rows) * row_bytes);
}

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
  if (slices.size() == 1) {
    const checkpoint::TensorEntry& from = source.tensor(*slices.front().part);
    if (is_straight(from, slices.front(), tensor.dtype)) {
      return pass_rows(from, slices.front(), sink);
    }
  }
  const int64_t columns = slices.size() == 1 ? slices.front().columns : tensor.columns();
  const auto row_bytes = static_cast<size_t>(columns) * dtype_size(tensor.dtype);
  for (int64_t done = 0; done < slices.front().rows;) {
    const std::span<std::byte> room = sink.room(row_bytes);
    const int64_t rows =
        std::min(slices.front().rows - done, static_cast<int64_t>(room.size() / row_bytes));
    for (const Slice& slice : slices) {
      const checkpoint::TensorEntry& from = source.tensor(*slice.part);
      if (!slice.part->transposed) prefault_rows(from, slice.row + done, rows);
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

void Sink::pass(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> to = room(1);
    const size_t now = std::min(to.size(), bytes.size());
    std::memcpy(to.data(), bytes.data(), now);
    commit(now);
    bytes = bytes.subspan(now);
  }
}

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
