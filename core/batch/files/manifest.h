// The record beside an output, PATH.run.json: what the run is, so that the same command resumes it
// and another command is refused; and the state of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "batch/input_scan.h"
#include "files/paged_array.h"

namespace plimsoll::batch {

enum class RunState : uint8_t {
  running,     // PATH.part grows
  publishing,  // PATH is about to appear
  complete,    // PATH holds every line
  partial,     // PATH holds what was there when its publication was asked for
};

struct Manifest {
  /// The settings that decide whether two commands are one run: texts, numbers and objects of them.
  OrderedJson job = OrderedJson::object();
  /// Settings that may differ between lives of one run, and the place of its input.
  OrderedJson notes = OrderedJson::object();
  RunState state = RunState::running;
  bool replaces = false;      // --overwrite: an existing PATH is replaced
  uint64_t output_inode = 0;  // of PATH, when publishing
  uint64_t errors_inode = 0;  // of the --errors file, when publishing
  uint64_t ok = 0;            // lines, from publishing on
  uint64_t failed = 0;
  uint64_t missing = 0;       // none: complete, else partial
  uint64_t output_bytes = 0;  // of PATH, once it is published
  uint64_t errors_bytes = 0;  // of the --errors file
  /// The report (--report) of the life that ended the run; null before.
  OrderedJson report;
  uint64_t texts = 0;         // lines in PATH.run.texts; 0: there is no such file
  uint64_t coming_texts = 0;  // lines in PATH.run.texts.part, which takes its place once PATH has
                              // its name; 0: nothing does
};

/// A job's "lines": the slice, and how many lines its input has, where that is known.
OrderedJson lines_json(const Slice& slice, std::optional<uint64_t> all_lines);
/// The slice of a job, without what lies behind the input's end where that is known. Throws
/// Json::exception.
Slice slice_of(const OrderedJson& job);
/// True where a job's slice is known not to be its whole input.
bool is_part(const OrderedJson& job);

std::string manifest_path(const std::string& output);
/// Reads the file; nullopt when there is none. Throws Error(foreign_output) for a file that is no
/// such record.
std::optional<Manifest> read_manifest(const std::string& path);
/// Writes the file whole or not at all. Throws Error(output_unwritable).
void write_manifest(const std::string& path, const Manifest& manifest);

/// PATH.run.texts: the digest (low half) of every line by slot, 8 bytes each, kept where lines
/// failed, and by parts of an input. On the next run corrected lines differ from it, unchanged ones
/// do not.
std::string texts_path(const std::string& output);
/// PATH.run.texts.part: the texts that take their place once PATH has its name.
std::string coming_texts_path(const std::string& output);
/// Throws Error(output_unwritable) where something that is no file, or a file that this process may
/// not open, has one of these names. For a run's start: the files are written at its end.
void check_texts_names(const std::string& output);
bool has_texts(const std::string& path, uint64_t lines);
/// The texts of a run that is gone on with; none where it has none, or has ended and lost them.
/// Throws Error(foreign_output) for another file of that name, and where a run that has not ended
/// lacks its texts.
std::optional<files::PagedArray<uint64_t>> texts_of_run(const std::string& output,
                                                        const Manifest& manifest);
/// Writes the file anew, and syncs it. Throws Error(output_unwritable).
void write_texts(const std::string& path, const files::PagedArray<uint64_t>& texts);

/// The first key that differs, with both values: "seed: 1 then, 2 now"; empty when all are equal.
/// A key that is null in one and lacks in the other differs: another version wrote it.
std::string difference(const OrderedJson& then, const OrderedJson& now);

}  // namespace plimsoll::batch
