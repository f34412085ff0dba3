#include "cli/run/scan.h"

#include <algorithm>

#include "base/error.h"
#include "batch/input_scan.h"

namespace plimsoll::cli {

void scan(const RunOptions& options, files::InputFile& input, batch::RunnerOptions& runner) {
  if (input.is_regular()) {
    batch::refuse_other_formats(input, options.max_line_bytes);
    input.rewind();
    if (options.unknown_fields == batch::UnknownFields::refuse) {
      batch::refuse_duplicate_ids(input, options.max_line_bytes);
      input.rewind();
    }
    runner.total_lines = batch::count_lines(input, options.max_line_bytes);
    input.rewind();
  }
  if (options.part) {
    if (!runner.total_lines) {
      fail(ExitCode::usage, "--part: {} is not a regular file", input.name());
    }
    runner.slice = batch::part_of(*runner.total_lines, options.part->first, options.part->second);
  }
  const uint64_t skipped = std::min(options.skip, runner.slice.count);
  runner.slice.first += skipped;
  if (runner.slice.count != UINT64_MAX) runner.slice.count -= skipped;
  if (options.limit) runner.slice.count = std::min(runner.slice.count, *options.limit);
  if (runner.total_lines) {
    const uint64_t behind = *runner.total_lines - std::min(*runner.total_lines, runner.slice.first);
    runner.total_lines = std::min(behind, runner.slice.count);
  }
}

}  // namespace plimsoll::cli
