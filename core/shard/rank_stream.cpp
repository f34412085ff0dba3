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

void stream_slice(const checkpoint::TensorEntry& from, const Slice& slice, DType dtype,
                  Sink& sink) {
  const auto row_bytes = static_cast<size_t>(slice.columns) * dtype_size(dtype);
  for (int64_t done = 0; done < slice.rows;) {
    const std::span<std::byte> room = sink.room(row_bytes);
    const int64_t rows = std::min(slice.rows - done, static_cast<int64_t>(room.size() / row_bytes));
    const checkpoint::GuardedRead guard(*from.file);
    checkpoint::copy_block(
        from, slice.part->transposed,
        {.row = slice.row + done, .rows = rows, .column = slice.column, .columns = slice.columns},
        dtype, room.data());
    guard.finish();
    sink.commit(static_cast<size_t>(rows) * row_bytes);
    done += rows;
  }
}

}  // namespace

void stream_tensor(const Source& source, const ShardTensor& tensor, int64_t rank,
                   int64_t tensor_parallel, Sink& sink) {
  if (tensor.weight == nullptr) return stream_bytes(tensor.constant, sink);
  int64_t elements = 0;
  for (const Slice& slice : rank_slices(tensor, rank, tensor_parallel)) {
    stream_slice(source.tensor(*slice.part), slice, tensor.dtype, sink);
    elements += slice.rows * slice.columns;
  }
  stream_zeros((tensor.elements() - elements) * static_cast<int64_t>(dtype_size(tensor.dtype)),
               sink);
}

}  // namespace plimsoll::shard
