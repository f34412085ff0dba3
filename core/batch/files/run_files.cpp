#include "batch/files/run_files.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "batch/files/existing_output.h"
#include "batch/files/same_run.h"

namespace plimsoll::batch {
namespace {

std::unique_ptr<Output> open_output(const std::string& path, Fsync fsync,
                                    std::unique_ptr<Journal>& journal) {
  if (files::is_stream(path)) return std::make_unique<StreamOutput>(path);
  journal = std::make_unique<Journal>(path, fsync);
  return std::make_unique<JournalOutput>(*journal);
}

void finish(Output& output) {
  if (auto* stream = dynamic_cast<StreamOutput*>(&output)) {
    stream->finish();
  } else {
    output.sync();
  }
}

bool is_file(const std::string& path, uint64_t inode) {
  const auto id = files::file_id(path);
  return id && id->inode == inode;
}

}  // namespace

RunFiles::RunFiles(RunFilesOptions options, files::InputFile* input)
    : options_(std::move(options)), ids_(files::scratch_folder_of(options_.output)) {
  if (files::is_stream(options_.output)) {
    output_ = open_output(options_.output, options_.fsync, journal_);
    if (!options_.errors.empty()) {
      if (options_.existing == files::Existing::refuse) refuse_unknown_output(options_.errors);
      errors_ = open_output(options_.errors, options_.fsync, errors_journal_);
      start_anew();
    }
    return;
  }
  const bool anew = options_.existing == files::Existing::replace;
  if (!anew) {
    refuse_unknown_output(options_.output);
    if (input) refuse_finished(options_.output, *input);
    // Looked at before the lock: a finished output may lie in a folder that cannot be written to.
    const auto before = read_manifest(manifest_path(options_.output));
    const bool nothing_open = before && before->state == RunState::complete &&
                              files::exists(options_.output) &&
                              !files::exists(options_.output + ".part");
    if (nothing_open) {
      manifest_ = *before;
      const bool retries = options_.resume.failed == Failed::retry && manifest_.failed > 0;
      if (retries || corrects()) check_texts_names(options_.output);
      check_same_job(difference_to_job());
      look_at_published();
      if (finished_) return;
    }
  }
  check_texts_names(options_.output);
  open_journals(input);
}

void RunFiles::open_journals(files::InputFile* input) {
  output_ = open_output(options_.output, options_.fsync, journal_);
  if (!options_.errors.empty()) {
    errors_ = open_output(options_.errors, options_.fsync, errors_journal_);
  }
  try {
    if (!goes_on()) {
      start_anew();
      return;
    }
    if (finished_) return;
    read_back(input);
  } catch (const Error&) {
    give_back_published();
    throw;
  }
  manifest_.state = RunState::running;
  manifest_.job = options_.job;
  // Answers name the model as in the first life of the run.
  if (manifest_.notes.contains("model")) options_.notes["model"] = manifest_.notes["model"];
  manifest_.notes = options_.notes;
  manifest_.report = nullptr;
  save();
}

// Reads which lines are done.
void RunFiles::read_back(files::InputFile* input) {
  if (input) refuse_unfinished(options_.output, *input);
  const std::optional<files::PagedArray<uint64_t>> texts = texts_of_run(options_.output, manifest_);
  if (!texts) manifest_.texts = 0;
  manifest_.coming_texts = 0;
  ResumeOptions resume = options_.resume;
  resume.texts = texts ? &*texts : nullptr;
  done_ = input ? recover_lines(*journal_, errors_journal_.get(), *input, resume, ids_)
                : recover_records(*journal_, errors_journal_.get());
  journal_->keep_reopened();
  if (errors_journal_) errors_journal_->keep_reopened();
}

// Under the lock: whether there is something to go on from.
bool RunFiles::goes_on() {
  if (options_.existing == files::Existing::replace) return false;
  const auto found = read_manifest(manifest_path(options_.output));
  const bool there = files::exists(options_.output);
  if (!found) {
    if (there) refuse_unknown_output(options_.output);
    refuse_unrecorded_lines(options_.output);
    return false;
  }
  manifest_ = *found;
  const std::string differs = difference_to_job();
  known_ = differs.empty();
  const bool has_failures = errors_journal_ && !errors_journal_->empty();
  if (!there && journal_->empty() && !has_failures) return false;
  check_same_job(differs);
  if (!there) {
    take_back_errors();
    return true;
  }
  const bool renamed =
      manifest_.state == RunState::publishing && is_file(options_.output, manifest_.output_inode);
  if (renamed) {
    // The last life ended between the new name and the end.
    journal_->clear();
    recover_published();
  }
  if (is_published(manifest_)) {
    look_at_published();
    if (!finished_) take_back_published();
    return true;
  }
  if (manifest_.replaces) {
    take_back_errors();
    return true;
  }
  fail(ExitCode::foreign_output,
       "{}: is there although the run that writes it has not ended; move it away, and the same "
       "command goes on from {}",
       options_.output, journal_->part());
}

std::string RunFiles::difference_to_job() const {
  return difference_from_run(manifest_, options_.job, options_.resume.failed,
                             texts_path(options_.output));
}

void RunFiles::check_same_job(const std::string& differs) const {
  refuse_difference(options_.output, manifest_, differs, options_.resume.failed);
}

// The outputs must be as their run left them; do they have all that is asked for?
void RunFiles::look_at_published() {
  check_published(options_, manifest_);
  finished_ = is_whole();
}

// The input is another than that of the run, whose lines are known by their texts.
bool RunFiles::corrects() const {
  const OrderedJson then = manifest_.job.value("input", OrderedJson());
  return options_.resume.failed == Failed::retry &&
         then != options_.job.value("input", OrderedJson());
}

bool RunFiles::is_whole() const {
  if (manifest_.state != RunState::complete) return false;
  if (corrects() || (options_.resume.failed == Failed::retry && manifest_.failed > 0)) return false;
  if (!options_.job.contains("lines")) return true;
  return slice_of(options_.job).count <= slice_of(manifest_.job).count;
}

void RunFiles::recover_published() {
  adopt_coming_texts();
  manifest_.state = manifest_.missing == 0 ? RunState::complete : RunState::partial;
  manifest_.output_bytes = bytes_of(options_.output);
  manifest_.errors_bytes = options_.errors.empty() ? 0 : bytes_of(options_.errors);
  save();
}

void RunFiles::take_back_published() {
  if (!journal_->empty() && !journal_->is_packed()) {
    fail(ExitCode::foreign_output, "{}: lies beside the published {}; move it away",
         journal_->part(), options_.output);
  }
  journal_->reopen_published();
  was_published_ = true;
  take_back_errors();
}

// A command that is refused leaves published outputs as they were.
void RunFiles::give_back_published() noexcept {
  try {
    if (errors_journal_) errors_journal_->give_back();
    journal_->give_back();
  } catch (const Error&) {
    // The lines are in PATH.part, from which the run goes on.
  }
}

// Takes back the file of errors that was published, where this run published it. The file got its
// name before the output did; its journal, if one is left, holds nothing else.
void RunFiles::take_back_errors() {
  if (errors_journal_ && is_file(options_.errors, manifest_.errors_inode)) {
    errors_journal_->reopen_published();
  }
}

void RunFiles::start_anew() {
  const bool replaces = options_.existing == files::Existing::replace;
  for (Journal* journal : {journal_.get(), errors_journal_.get()}) {
    if (journal == nullptr) continue;
    if (!replaces && !journal->empty()) {
      fail(ExitCode::foreign_output,
           "{}: holds the finished lines of another run; keep it elsewhere, or start anew with "
           "--overwrite",
           journal->part());
    }
    journal->clear();
  }
  if (!replaces && errors_journal_ && files::exists(options_.errors)) {
    fail(ExitCode::foreign_output,
         "{}: is there already; choose another name, or replace it with --overwrite",
         options_.errors);
  }
  if (journal_ && !replaces && manifest_.job.empty() &&
      files::exists(texts_path(options_.output))) {
    fail(ExitCode::foreign_output,
         "{}: is there already, without a run that it belongs to; move it away, or start anew with "
         "--overwrite",
         texts_path(options_.output));
  }
  manifest_ = {};
  manifest_.job = options_.job;
  manifest_.notes = options_.notes;
  manifest_.replaces = replaces;
  if (!journal_) return;
  remove_texts();  // first: a file of texts without a record that names it is taken for foreign
  save();
}

RunFiles::~RunFiles() {
  if (!journal_ || !journal_->empty() || finished_) return;
  const bool started = manifest_.state == RunState::running;
  const bool errors_empty = !errors_journal_ || errors_journal_->empty();
  if (started && errors_empty) files::remove_if_possible(manifest_path(options_.output));
}

std::optional<uint64_t> RunFiles::records() const {
  if (!journal_ || (errors_ && !errors_journal_)) return std::nullopt;
  return journal_->records() + (errors_journal_ ? errors_journal_->records() : 0);
}

const std::string& RunFiles::kept_at() const {
  return journal_ ? journal_->part() : options_.output;
}

void RunFiles::publish(uint64_t ok, uint64_t failed, uint64_t missing) {
  manifest_.ok = ok;
  manifest_.failed = failed;
  manifest_.missing = missing;
  if (journal_) write_coming_texts();
  manifest_.state = RunState::publishing;
  const files::Existing existing =
      manifest_.replaces ? files::Existing::replace : files::Existing::refuse;
  if (errors_journal_) {
    errors_journal_->publish(existing, [&](uint64_t inode) {
      manifest_.errors_inode = inode;
      if (journal_) save();
    });
  } else if (errors_) {
    finish(*errors_);
  }
  if (!journal_) {
    finish(*output_);
    return;
  }
  journal_->publish(existing, [&](uint64_t inode) {
    manifest_.output_inode = inode;
    save();
  });
  recover_published();
}

// The texts of this life lie beside those of the life before until the output has its name: a life
// that goes on from here compares its input with the texts that the journal's answers are to.
void RunFiles::write_coming_texts() {
  manifest_.coming_texts = keeps_texts() && texts_ ? texts_->size() : 0;
  if (manifest_.coming_texts > 0) write_texts(coming_texts_path(options_.output), *texts_);
}

// A part without failures is compared too when lines of another part are corrected in the input
// that they share.
bool RunFiles::keeps_texts() const {
  return manifest_.failed > 0 || is_part(manifest_.job);
}

void RunFiles::adopt_coming_texts() {
  if (!keeps_texts()) manifest_.texts = 0;
  const std::string coming = coming_texts_path(options_.output);
  if (manifest_.coming_texts > 0) {
    // A life may have ended behind this.
    if (files::exists(coming)) files::rename_file(coming, texts_path(options_.output));
    manifest_.texts = std::exchange(manifest_.coming_texts, 0);
  }
  if (manifest_.texts == 0) remove_texts();
}

void RunFiles::remove_texts() const {
  files::remove_file(texts_path(options_.output));
  files::remove_file(coming_texts_path(options_.output));
}

void RunFiles::note_report(std::string_view report) {
  if (!journal_ || manifest_.state == RunState::running) return;
  manifest_.report = parse_json<OrderedJson>(report);
  save();
}

void RunFiles::keep() {
  if (errors_) finish(*errors_);
  finish(*output_);
}

}  // namespace plimsoll::batch
