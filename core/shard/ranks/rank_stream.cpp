#include "shard/ranks/rank_stream.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/copy_rows.h"
#include "checkpoint/mapped_file.h"
#include "shard/quantized/implied_values.h"
#include "shard/quantized/repack.h"
#include "shard/ranks/repeated.h"

namespace plimsoll::shard {
namespace {

// Bytes of the memory map that are passed at a time, so that they stay in the processor's cache for
// the digest.
constexpr size_t kPassed = size_t{1} << 20;

// Rows that the rank's tensor holds just as the checkpoint stores them.
bool is_straight(const checkpoint::TensorEntry& from, const Slice& slice, DType dtype) {
  const auto elements = static_cast<int64_t>(from.bytes / dtype_size(from.dtype));
  const int64_t rows = from.shape.empty() ? 1 : from.shape.front();
  if (slice.part->mapping != model::Mapping::none) return false;
  return from.dtype == dtype && !slice.part->transposed && !slice.repeat.any() &&
         rows * slice.columns == elements;
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

// Rows [first, first + rows) of a slice.
void copy_rows(const checkpoint::TensorEntry& from, const Slice& slice, int64_t first, int64_t rows,
               const ShardTensor& tensor, std::byte* to, int64_t stride) {
  const checkpoint::Block block{
      .row = slice.row + first, .rows = rows, .column = slice.column, .columns = slice.columns};
  const bool straight = !slice.part->transposed && !slice.repeat.any();
  if (straight) prefault_rows(from, block.row, rows);
  const checkpoint::GuardedRead guard(*from.file);
  if (tensor.weight->repack == model::Repack::awq_words) {
    repack_awq_words(from, block, to, stride);
  } else if (tensor.weight->repack == model::Repack::awq_zeros) {
    repack_awq_zeros(from, slice.repeat, block, to, stride);
  } else if (slice.repeat.any()) {
    copy_repeated(from, slice, block, tensor.unit(), to, stride);
  } else {
    checkpoint::copy_block(from, slice.part->transposed, block, tensor.unit(), to, stride);
  }
  guard.finish();
  if (model::maps_each(slice.part->mapping)) {  // float32, alone in its tensor
    checkpoint::map_values(from, slice.part->mapping, to,
                           static_cast<size_t>(rows * slice.columns));
  }
}

// Slices that lie beside each other in the rank's tensor [rows, columns].
void stream_slices(const Source& source, std::span<const Slice> slices, const ShardTensor& tensor,
                   Sink& sink) {
  if (slices.size() == 1) {
    const checkpoint::TensorEntry& from = source.tensor(*slices.front().part);
    if (!slices.front().part->is_changed() && is_straight(from, slices.front(), tensor.unit())) {
      return pass_rows(from, slices.front(), sink);
    }
  }
  const int64_t columns = slices.size() == 1 ? slices.front().columns : tensor.columns();
  const DType unit = tensor.unit();
  const auto row_bytes = static_cast<size_t>(columns) * dtype_size(unit);
  for (int64_t done = 0; done < slices.front().rows;) {
    const std::span<std::byte> room = sink.room(row_bytes);
    const int64_t rows =
        std::min(slices.front().rows - done, static_cast<int64_t>(room.size() / row_bytes));
    for (const Slice& slice : slices) {
      const checkpoint::TensorEntry& from = source.tensor(*slice.part);
      const int64_t first = slices.size() == 1 ? 0 : slice.to_column;
      std::byte* const to = room.data() + static_cast<size_t>(first) * dtype_size(unit);
      copy_rows(from, slice, done, rows, tensor, to, columns);
      if (slice.part->is_changed()) {  // of vectors and whole rows alone, which lie together
        checkpoint::change_values(*slice.part, to, unit, rows, columns);
      }
    }
    sink.commit(static_cast<size_t>(rows) * row_bytes);
    done += rows;
  }
}

void stream_told(const ShardTensor& tensor, const Slice& slice, Sink& sink) {
  const auto bytes = static_cast<size_t>(slice.rows) * dtype_size(tensor.dtype);
  fill_implied_values(*slice.part, tensor.dtype, slice.row, slice.rows, sink.room(bytes).data());
  sink.commit(bytes);
}

// Matrix by matrix: parts beside each other, or the last of those that are copies.
void stream_matrices(const Source& source, std::span<const Slice> slices, const ShardTensor& tensor,
                     Sink& sink) {
  const size_t in_matrix = slices.size() / static_cast<size_t>(tensor.weight->matrices());
  for (; !slices.empty(); slices = slices.subspan(in_matrix)) {
    const std::span<const Slice> matrix = slices.first(in_matrix);
    if (tensor.weight->outputs == model::OutputAxis::columns) {
      stream_slices(source, matrix, tensor, sink);
    } else if (matrix.back().part->is_told()) {
      stream_told(tensor, matrix.back(), sink);
    } else {
      stream_slices(source, matrix.last(1), tensor, sink);
    }
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
  if (tensor.weight->outputs != model::OutputAxis::rows) {
    return stream_matrices(source, slices, tensor, sink);
  }
  int64_t units = 0;
  for (const Slice& slice : slices) {
    stream_slices(source, {&slice, 1}, tensor, sink);
    units += slice.rows * slice.columns;
  }
  stream_zeros(tensor.bytes() - units * static_cast<int64_t>(dtype_size(tensor.unit())), sink);
}

}  // namespace plimsoll::shard
