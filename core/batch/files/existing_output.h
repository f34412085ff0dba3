// What stands where a run will write: refusals that a run and its dry run share, which change
// nothing.
#pragma once

#include <cstdint>
#include <string>

#include "batch/files/manifest.h"
#include "batch/files/run_files.h"
#include "files/input_file.h"

namespace plimsoll::batch {

/// Bytes of a file; 0 where it is missing.
uint64_t bytes_of(const std::string& path);

/// Refuses an output that exists and has no record, before anything else is looked at. Throws
/// Error(foreign_output).
void refuse_unknown_output(const std::string& path);

/// Refuses a journal with lines of a run that has no record. Throws Error(foreign_output).
void refuse_unrecorded_lines(const std::string& output);

/// Refuses a finished output where the input cannot be read again. Throws Error(foreign_output).
void refuse_finished(const std::string& output, const files::InputFile& input);

/// Refuses to go on from a journal where the input cannot be read again. Throws
/// Error(foreign_output).
void refuse_unfinished(const std::string& output, const files::InputFile& input);

/// Refuses an input that cannot be read again, where the output is there or a journal, that of
/// `errors` too unless it is empty, holds records. Throws Error(foreign_output).
void refuse_stream(const std::string& output, const std::string& errors,
                   const files::InputFile& input);

/// True for a run whose output has its name, with all lines or without some.
bool is_published(const Manifest& run);

/// Refuses published outputs that are not as their run left them. Throws Error(foreign_output).
void check_published(const RunFilesOptions& options, const Manifest& run);

/// Refuses a command that `differs` from the run whose record lies beside the output; empty: it
/// does not. Throws Error(foreign_output).
void refuse_difference(const std::string& output, const Manifest& run, const std::string& differs,
                       Failed failed);

/// Refuses an output that holds lines of another run than the job, or was changed since its run
/// ended, and changes nothing. Throws Error(foreign_output) naming what differs.
void refuse_other_run(const RunFilesOptions& options);

}  // namespace plimsoll::batch
