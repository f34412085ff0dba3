#include "kernels/runtime/loader.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/rounding.h"
#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {

Loader::Loader(std::span<std::byte> ring, size_t piece_bytes, backend::ThreadPool& pool, int device)
    : piece_bytes_(piece_bytes), pool_(pool), device_(device) {
  for (size_t at = 0; at + piece_bytes <= ring.size(); at += piece_bytes) {
    pieces_.push_back(std::make_unique<Piece>());
    pieces_.back()->memory = ring.data() + at;
    free_.push_back(pieces_.back().get());
  }
  // A thread holds one piece at a time, so there is always a free one.
  if (std::ssize(pieces_) < pool.threads()) throw std::logic_error("loader: the ring is too small");
}

Loader::Piece& Loader::take_piece() {
  Piece* piece = nullptr;
  {
    const std::lock_guard lock(mutex_);
    piece = free_.front();
    free_.pop_front();
  }
  piece->copied.wait();
  return *piece;
}

void Loader::give_back(Piece& piece) {
  const std::lock_guard lock(mutex_);
  free_.push_back(&piece);
}

void Loader::load(void* to, int64_t rows, size_t row_bytes, const backend::RowReader& read) {
  if (rows == 0 || row_bytes == 0) return;
  if (row_bytes > piece_bytes_) {
    fail(ExitCode::checkpoint_unusable, "a weight has rows of {} bytes, longer than {} bytes",
         row_bytes, piece_bytes_);
  }
  const auto rows_at_once = static_cast<int64_t>(piece_bytes_ / row_bytes);
  const int64_t tasks = divide_up(rows, rows_at_once);
  // Reading is worth waking threads for from two pieces on.
  constexpr int64_t kMuch = std::numeric_limits<int64_t>::max();
  pool_.run(tasks, kMuch, [&](int64_t task, int) {
    check(cudaSetDevice(device_), "cudaSetDevice");
    const int64_t first = task * rows_at_once;
    const int64_t count = std::min(rows_at_once, rows - first);
    Piece& piece = take_piece();
    try {
      read(first, count, piece.memory);
      copy_to_device(static_cast<std::byte*>(to) + static_cast<size_t>(first) * row_bytes,
                     piece.memory, static_cast<size_t>(count) * row_bytes, stream_.get());
      piece.copied.record(stream_.get());
    } catch (...) {
      give_back(piece);
      throw;
    }
    give_back(piece);
  });
}

void Loader::finish() {
  stream_.wait();
}

}  // namespace plimsoll::kernels
