// The files that a run makes, from the first record to the published output, over as many processes
// as it takes: PATH.part (journal), PATH.run.json (what the run is), PATH.run.texts (digests of its
// lines) and PATH. --errors has a journal of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "batch/files/manifest.h"
#include "batch/files/output.h"
#include "batch/files/resume.h"

namespace plimsoll::batch {

struct RunFilesOptions {
  std::string output = "-";
  std::string errors;  // empty: failed lines go to the output
  files::Existing existing = files::Existing::refuse;
  Fsync fsync = Fsync::interval;
  OrderedJson job = OrderedJson::object();
  OrderedJson notes = OrderedJson::object();
  ResumeOptions resume;
};

class RunFiles {
 public:
  /// Opens the files, or resumes them, before the long work. Throws Error: foreign_output when they
  /// belong to another run, naming the key that differs, locked, output_unwritable. `input` may be
  /// null where it is gone: then records keep the order of their completion.
  RunFiles(RunFilesOptions options, files::InputFile* input);
  /// Removes the files of a run that has no first record.
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  /// True when this run was completed by an earlier process: nothing is left to do.
  [[nodiscard]] bool finished() const { return finished_; }
  /// Counts of a run that is finished.
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  /// True when an earlier process of this run has left its record, with or without lines.
  [[nodiscard]] bool is_known_run() const { return known_; }
  /// True when the output was published already and has become the journal again.
  [[nodiscard]] bool was_published() const { return was_published_; }
  [[nodiscard]] const DoneLines& done() const { return done_; }
  [[nodiscard]] Output& output() { return *output_; }
  [[nodiscard]] Output* errors() { return errors_.get(); }
  /// Records in the journals; none for streams.
  [[nodiscard]] std::optional<uint64_t> records() const;
  /// The file that holds the lines of a run that stops early, for the message.
  [[nodiscard]] const std::string& kept_at() const;

  /// The register of ids, for a runner. It has those of the lines that were read to resume the run.
  [[nodiscard]] IdRegister& ids() { return ids_; }
  /// The digests (low halves) of all lines by slot, before publish(): kept where some failed, and
  /// by parts of an input.
  void note_texts(files::PagedArray<uint64_t> texts) { texts_ = std::move(texts); }
  /// Stores the JSON object that --report prints in the manifest. Call after publish().
  void note_report(std::string_view report);
  /// Publishes the outputs under their names. `missing`: number of input lines without a record.
  void publish(uint64_t ok, uint64_t failed, uint64_t missing);
  /// Keeps the lines so far safely on disk when a run stops early.
  void keep();

 private:
  void open_journals(files::InputFile* input);
  void read_back(files::InputFile* input);
  void give_back_published() noexcept;
  void start_anew();
  [[nodiscard]] bool goes_on();
  [[nodiscard]] std::string difference_to_job() const;
  void check_same_job(const std::string& differs) const;
  void look_at_published();
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool corrects() const;
  void recover_published();
  void take_back_published();
  void take_back_errors();
  void save() { write_manifest(manifest_path(options_.output), manifest_); }

  [[nodiscard]] bool keeps_texts() const;
  void write_coming_texts();
  void adopt_coming_texts();
  void remove_texts() const;

  RunFilesOptions options_;
  Manifest manifest_;
  DoneLines done_;
  IdRegister ids_;
  std::optional<files::PagedArray<uint64_t>> texts_;  // of this life
  bool finished_ = false;
  bool known_ = false;
  bool was_published_ = false;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Journal> errors_journal_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<Output> errors_;
};

}  // namespace plimsoll::batch
