#include "batch/files/existing_output.h"

#include <filesystem>

#include "base/error.h"
#include "batch/files/same_run.h"

namespace plimsoll::batch {
namespace {

void check_bytes(const std::string& path, uint64_t then) {
  const uint64_t now = bytes_of(path);
  if (now == then) return;
  fail(ExitCode::foreign_output,
       "{}: had {} bytes when its run ended and has {} now; move it away and give the command "
       "again, or start anew with --overwrite",
       path, then, now);
}

/// True where the journals hold records; failed lines may be all of them.
bool has_records(const std::string& output, const std::string& errors) {
  return bytes_of(output + ".part") > 0 || (!errors.empty() && bytes_of(errors + ".part") > 0);
}

}  // namespace

uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

void refuse_unknown_output(const std::string& path) {
  if (files::is_stream(path) || !files::exists(path)) return;
  if (files::is_folder(path)) {
    fail(ExitCode::output_unwritable, "{}: is a folder; the output is a file", path);
  }
  if (files::exists(manifest_path(path))) return;
  fail(ExitCode::foreign_output,
       "{}: is there already; choose another name, or replace it with --overwrite", path);
}

void refuse_unrecorded_lines(const std::string& output) {
  const std::string part = output + ".part";
  if (files::exists(manifest_path(output)) || bytes_of(part) == 0) return;
  fail(ExitCode::foreign_output,
       "{}: holds finished lines, but {} is missing, which says of which run; keep it elsewhere, "
       "or start anew with --overwrite",
       part, manifest_path(output));
}

void refuse_finished(const std::string& output, const files::InputFile& input) {
  if (input.is_regular() || !files::exists(output)) return;
  fail(ExitCode::foreign_output,
       "{}: is there already, and {} may hold anything; choose another name, or replace it with "
       "--overwrite",
       output, input.name());
}

void refuse_unfinished(const std::string& output, const files::InputFile& input) {
  if (input.is_regular()) return;
  fail(ExitCode::foreign_output,
       "{}.part: holds lines of a run that did not end, and {} cannot be read again from its "
       "beginning; plimsoll run --publish {} keeps them, --overwrite starts anew",
       output, input.name(), output);
}

bool is_published(const Manifest& run) {
  return run.state == RunState::complete || run.state == RunState::partial;
}

void check_published(const RunFilesOptions& options, const Manifest& run) {
  check_bytes(options.output, run.output_bytes);
  if (!options.errors.empty()) check_bytes(options.errors, run.errors_bytes);
}

void refuse_difference(const std::string& output, const Manifest& run, const std::string& differs,
                       Failed failed) {
  if (differs.empty()) return;
  fail(ExitCode::foreign_output,
       "{}: belongs to another run ({}); {}, choose another name, or start anew with --overwrite",
       output, differs, cure_of(differs, failed, run, texts_path(output)));
}

void refuse_stream(const std::string& output, const std::string& errors,
                   const files::InputFile& input) {
  refuse_finished(output, input);
  if (has_records(output, errors)) refuse_unfinished(output, input);
}

void refuse_other_run(const RunFilesOptions& options) {
  const std::string& output = options.output;
  const auto run = read_manifest(manifest_path(output));
  const bool there = files::exists(output);
  if (!run || (!there && !has_records(output, options.errors))) return;
  const Failed failed = options.resume.failed;
  refuse_difference(output, *run,
                    difference_from_run(*run, options.job, failed, texts_path(output)), failed);
  if (there && is_published(*run)) check_published(options, *run);
}

}  // namespace plimsoll::batch
