// The header of one GGUF file, checked as hostile input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ggml/types.h"
#include "checkpoint/gguf/values.h"

namespace plimsoll::checkpoint::gguf {

/// A name from a GGUF file as messages show it: bounded, everything but printable ASCII escaped.
std::string shown_name(std::string_view name);

/// A tensor of the table.
struct Tensor {
  std::string name;
  std::vector<int64_t> ne;  // 1 to 4 sizes, each at least 1; the first runs fastest
  const GgmlTypeInfo* type = nullptr;
  uint64_t offset = 0;  // from the start of the file, within it
  uint64_t bytes = 0;
  const MappedFile* file = nullptr;

  /// Values of all rows; at most 2^63 - 1.
  [[nodiscard]] int64_t elements() const;
  [[nodiscard]] const std::byte* data() const { return file->data() + offset; }
};

struct Header {
  uint32_t version = 0;         // 2 or 3
  std::vector<Pair> pairs;      // in the file's order; no key twice
  std::vector<Tensor> tensors;  // in the file's order; no name twice, no two overlap
  int64_t alignment = 32;
  uint64_t data_start = 0;  // in bytes from the start of the file
};

/// True when the file begins with GGUF's magic.
bool is_gguf(const MappedFile& file);

/// Reads and checks a header. Needs memory in proportion to it, but not to its arrays. Throws
/// Error(checkpoint_unusable) naming the file, and the key or tensor with what was found.
Header read_header(const MappedFile& file);

/// The value of a key; null where there is none.
const Value* find_value(const std::vector<Pair>& pairs, std::string_view key);

}  // namespace plimsoll::checkpoint::gguf
