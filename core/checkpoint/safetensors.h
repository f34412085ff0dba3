// The header of a safetensors file, checked as hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/mapped_file.h"

namespace plimsoll::checkpoint {

/// A tensor's entry in the header; offsets from the start of the data.
struct HeaderEntry {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  size_t data_start = 0;             // in the file
  std::vector<HeaderEntry> entries;  // sorted by offsets, which tile the data to the file's end
};

/// Reads and checks a file's header: known dtypes, shapes that fit their byte ranges, ranges
/// without gap or overlap up to the end of the file, no name twice. Throws
/// Error(checkpoint_unusable) naming file and tensor.
Header read_header(const MappedFile& file);

}  // namespace plimsoll::checkpoint
