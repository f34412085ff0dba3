// Scan of the whole input before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "batch/input_scan.h"
#include "cli/run/options.h"
#include "files/input_file.h"

namespace plimsoll::cli {

struct ScannedInput {
  std::optional<uint64_t> all_lines;  // number of lines of a regular input
  batch::Slice slice;                 // by --part, --skip, --limit
  std::optional<uint64_t> lines;      // number of lines in the slice
  std::vector<uint64_t> bad_lines;    // numbers of the first invalid lines, which are told
};

/// Counts the lines of a regular input, resolves the slice, prints notes on lines that are no
/// requests, and refuses an input that is not JSONL at all, with the cure, and ids that occur twice
/// under --strict. Throws Error(input_unusable, usage).
ScannedInput scan(const RunOptions& options, files::InputFile& input);

}  // namespace plimsoll::cli
