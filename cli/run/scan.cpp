#include "cli/run/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "cli/run/launch.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

void tell(const RunOptions& options, const batch::InputScan& found) {
  if (options.quiet || found.bad == 0) return;
  for (const std::string& bad : found.first_bad) say(bad);
  const char* which = found.checked < found.lines ? "the first " : "";
  say(fmt::format("{} of {}{} lines cannot be answered; each gets a record that says why",
                  found.bad, which, found.checked));
}

// Scans the input for lines that cannot be answered. nullopt for packed data that is cut off: its
// lines are answered before the cut is an error.
std::optional<batch::InputScan> look(const RunOptions& options, files::InputFile& input) {
  batch::refuse_other_formats(input, options.max_line_bytes);
  input.rewind();
  for (size_t i = 1; i < options.inputs.size(); ++i) {
    files::InputFile later = files::InputFile::open(options.inputs[i]);
    batch::refuse_other_formats(later, options.max_line_bytes);
  }
  const bool strict = options.unknown_fields == batch::UnknownFields::refuse;
  batch::ScanOptions scan{
      .max_line_bytes = options.max_line_bytes,
      .unknown_fields = options.unknown_fields,
      .duplicate_ids = strict ? batch::DuplicateIds::refuse : batch::DuplicateIds::fail_line,
      .defaults = default_fields(options, {}),
      // Ids are checked when the vocabulary is known.
      .limits = {.vocab_size = std::numeric_limits<int32_t>::max(),
                 .max_logprobs = options.max_logprobs}};
  std::optional<batch::InputScan> found;
  try {
    found = batch::scan_input(input, scan);
  } catch (const Error&) {
    if (!input.is_packed() || strict || options.part) throw;
  }
  input.rewind();
  return found;
}

// The part, without what --skip and --limit leave out.
batch::Slice slice_of(const RunOptions& options, const std::optional<uint64_t>& lines,
                      const std::string& name) {
  batch::Slice slice;
  if (options.part) {
    if (!lines) fail(ExitCode::usage, "--part: {} is not a regular file", name);
    slice = batch::part_of(*lines, options.part->first, options.part->second);
  }
  const uint64_t skipped = std::min(options.skip, slice.count);
  slice.first += skipped;
  if (slice.count != UINT64_MAX) slice.count -= skipped;
  if (options.limit) slice.count = std::min(slice.count, *options.limit);
  return slice;
}

}  // namespace

ScannedInput scan(const RunOptions& options, files::InputFile& input) {
  ScannedInput scanned;
  if (input.is_regular()) {
    if (auto found = look(options, input)) {
      tell(options, *found);
      scanned.all_lines = found->lines;
      scanned.bad_lines = std::move(found->bad_lines);
    }
  }
  scanned.slice = slice_of(options, scanned.all_lines, input.name());
  if (scanned.all_lines) {
    const uint64_t behind = *scanned.all_lines - std::min(*scanned.all_lines, scanned.slice.first);
    scanned.lines = std::min(behind, scanned.slice.count);
  }
  return scanned;
}

}  // namespace plimsoll::cli
