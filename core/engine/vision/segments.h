// Rows of an image encoder in segments that see each other both ways, as a batch over a cache in
// scratch: attention over segments is that of sequences without the causal mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "memory/arena.h"

namespace plimsoll::engine {

class Segments {
 public:
  static constexpr int64_t kBlockRows = 16;  // of a cache block

  /// Segments of these lengths, one after the other. Takes its arrays, and the plan of attention,
  /// from memory of the host.
  Segments(std::span<const int64_t> lengths, backend::Segmentation segmentation,
           const model::AttentionSpec& attention, const backend::Footprint& footprint,
           memory::Arena& arrays);
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// Sets the beginning of the host's memory, and of its copy on the device.
  void place(const std::byte* host_base, std::byte* device_base) {
    batch_.host_base = host_base;
    batch_.device_base = device_base;
  }
  [[nodiscard]] const backend::BatchMeta& batch() const { return batch_; }
  /// Blocks of one layer's cache.
  [[nodiscard]] int64_t blocks() const { return blocks_; }

 private:
  backend::BatchMeta batch_;
  std::span<const int32_t> table_;  // batch_.block_tables points at it
  int64_t blocks_ = 0;
};

}  // namespace plimsoll::engine
