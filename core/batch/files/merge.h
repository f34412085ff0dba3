// `run --merge`: the outputs of all parts of one run, joined.
#pragma once

#include <string>
#include <vector>

#include "batch/files/run_files.h"

namespace plimsoll::batch {

struct MergeOptions {
  std::vector<std::string> parts;  // outputs, in any order
  std::string output = "-";
  std::string errors;  // where the parts have their failed lines apart
  files::Existing existing = files::Existing::refuse;
};

struct Merged {
  uint64_t ok = 0;
  uint64_t failed = 0;
  bool was_there = false;  // the same parts were joined before
};

/// Writes what the run without --part would have written, and its record. Throws Error:
/// stopped_resumable where a part has not ended, foreign_output where parts are of different runs,
/// one is missing or there twice, or an output is not what its record says; all before `output` has
/// its name.
Merged merge_parts(const MergeOptions& options);

}  // namespace plimsoll::batch
