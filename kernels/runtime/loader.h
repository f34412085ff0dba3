// Loads weights to the device: several threads read rows into a ring of pinned buffers, from which
// they are copied straight to their final place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"
#include "kernels/runtime/device.h"

namespace plimsoll::kernels {

class Loader {
 public:
  /// `ring` is pinned memory of a few pieces per thread of the pool; `device` is the destination.
  Loader(std::span<std::byte> ring, size_t piece_bytes, backend::ThreadPool& pool, int device);

  /// Copies `rows` rows of `row_bytes` to `to`. All has been read when it returns; copies may still
  /// be under way. Throws what the reader throws.
  void load(void* to, int64_t rows, size_t row_bytes, const backend::RowReader& read);
  /// Returns when all copies have arrived.
  void finish();

 private:
  struct Piece {
    std::byte* memory = nullptr;
    Event copied;  // the last copy out of it
  };
  Piece& take_piece();
  void give_back(Piece& piece);

  size_t piece_bytes_;
  backend::ThreadPool& pool_;
  int device_;
  Stream stream_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::mutex mutex_;
  std::deque<Piece*> free_;  // least recently freed first
};

}  // namespace plimsoll::kernels
