// The bytes of a rank's tensor, computed from the checkpoint block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shard/layout.h"
#include "shard/source.h"

namespace plimsoll::shard {

/// Destination of a tensor's bytes, in order.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Memory for at least `least` bytes; commit() takes the first ones of it.
  virtual std::span<std::byte> room(size_t least) = 0;
  virtual void commit(size_t count) = 0;
  /// Passes bytes on unchanged, by room() and commit().
  void pass(std::span<const std::byte> bytes);
};

/// Writes the bytes of a rank's `tensor` to `sink`. Thread-safe for different sinks. Throws
/// Error(checkpoint_unusable) when the checkpoint cannot be read any more.
void stream_tensor(const Source& source, const ShardTensor& tensor, int64_t rank,
                   int64_t tensor_parallel, Sink& sink);

}  // namespace plimsoll::shard
