// Which lines of an input are done, by the records in the journals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "batch/files/journal.h"
#include "batch/id_register.h"
#include "batch/input_scan.h"
#include "files/paged_array.h"

namespace plimsoll::batch {

/// Slots of a slice that earlier processes of the run have finished.
struct DoneLines {
  enum class State : uint8_t { open, ok, failed };
  std::vector<State> slots;  // up to the last line that is done
  /// True at the slot of a line whose envelope is the batch form. Where that is known, so are the
  /// ids of these lines.
  std::vector<bool> batch;
  uint64_t ok = 0;
  uint64_t failed = 0;
  std::map<std::string, uint64_t> failed_by_code;
  uint64_t lines = 0;          // of the slice; without an input, number of records
  uint64_t dropped_bytes = 0;  // of a torn last record
  size_t most_bytes = 0;  // of the input that were in memory at a time, while it was read again

  [[nodiscard]] State at(uint64_t slot) const {
    return slot < slots.size() ? slots[slot] : State::open;
  }
};

enum class Failed : uint8_t { keep, retry };

struct ResumeOptions {
  size_t max_line_bytes = 0;
  Slice slice;
  Failed failed = Failed::keep;
  /// The digest (low half) of each line by slot, when its record was made: a line whose text has
  /// changed since is not done. Null: the input is unchanged.
  const files::PagedArray<uint64_t>* texts = nullptr;
};

/// Matches the records of both journals (`errors` may be null) with the lines of a regular input,
/// whose ids are taken in `ids`, which is empty before. Throws Error(foreign_output) when a record
/// belongs to no line.
DoneLines recover_lines(Journal& output, Journal* errors, files::InputFile& input,
                        const ResumeOptions& options, IdRegister& ids);
/// Counts every record as a line, in order of completion, for a run without an input.
DoneLines recover_records(Journal& output, Journal* errors);

}  // namespace plimsoll::batch
