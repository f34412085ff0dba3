// Rows of an image encoder in segments that see each other both ways, as a batch over a cache in
// scratch: attention over segments is that of sequences without the causal mask.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace plimsoll::engine {

class Segments {
 public:
  /// Segments of these lengths, one behind the other. Takes its arrays and the cache of one layer
  /// from the backend's scratch.
  Segments(std::span<const int64_t> lengths, const model::AttentionSpec& attention, DType dtype,
           backend::Backend& backend);
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  [[nodiscard]] const backend::BatchMeta& batch() const { return batch_; }
  [[nodiscard]] const backend::KvLayer& cache() const { return cache_; }

 private:
  backend::BatchMeta batch_;
  backend::KvLayer cache_;
  std::span<const int32_t> table_;  // batch_.block_tables points at it
};

}  // namespace plimsoll::engine
