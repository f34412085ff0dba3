// A quick pass over a regular input file before the run: how many lines, which ids occur twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "files/input_file.h"

namespace plimsoll::batch {

/// Lines [first, first + count) of an input, by ordinal: 0-based, blank lines not counted.
struct Slice {
  uint64_t first = 0;
  uint64_t count = UINT64_MAX;
};

/// Part `index` of `parts`: contiguous, sizes differ by at most one, all parts joined are the
/// whole.
Slice part_of(uint64_t lines, uint64_t index, uint64_t parts);

/// Throws Error(input_unusable) with the cure when the first lines show that the whole file is
/// something else: a JSON array, one object over many lines, a table, plain text.
void refuse_other_formats(files::InputFile& input, size_t max_line_bytes);

/// Lines that are not blank.
uint64_t count_lines(files::InputFile& input, size_t max_line_bytes);

/// Throws Error(input_unusable) naming both lines of the first id that occurs twice.
void refuse_duplicate_ids(files::InputFile& input, size_t max_line_bytes);

}  // namespace plimsoll::batch
