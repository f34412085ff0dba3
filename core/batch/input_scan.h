// A quick pass over a regular input file before the run: how many lines, which are no requests,
// which ids occur twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/fields/request_fields.h"
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

/// Treatment of a line with an unknown request field.
enum class UnknownFields : uint8_t { warn, refuse };
/// An unknown field's name in messages: its first characters, 64 bytes at most.
std::string_view shortened_name(std::string_view name);
/// Refuses the line, or says nothing, for passes over the input before the run.
UnknownField on_unknown(UnknownFields policy);
/// Treatment of an id that occurs twice: the later line fails, or the whole input.
enum class DuplicateIds : uint8_t { fail_line, refuse };

struct ScanOptions {
  size_t max_line_bytes = size_t{16} << 20;
  /// Lines are read as requests up to here, and only counted behind it.
  uint64_t checked_bytes = uint64_t{16} << 20;
  UnknownFields unknown_fields = UnknownFields::warn;
  DuplicateIds duplicate_ids = DuplicateIds::fail_line;
  RequestFields defaults = {};
  FieldLimits limits = {};
};

struct InputScan {
  uint64_t lines = 0;  // not blank
  uint64_t checked = 0;
  uint64_t bad = 0;                    // of these; what hangs on the model is not looked at
  std::vector<std::string> first_bad;  // what is wrong with the first of them
  std::vector<uint64_t> bad_lines;     // numbers of the first million of them, in order
};

/// Goes over a regular input to its end, without a model. Throws Error(input_unusable) naming both
/// lines of the first id that occurs twice where these are refused.
InputScan scan_input(files::InputFile& input, const ScanOptions& options);

}  // namespace plimsoll::batch
