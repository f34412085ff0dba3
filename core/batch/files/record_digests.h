// Digests of a journal's records, in PATH.part.xxh3 beside PATH.part: a record whose bytes are no
// longer those that a run wrote is found when the run goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch/digest.h"
#include "files/output_file.h"
#include "files/paged_array.h"

namespace plimsoll::batch {

/// A record's first byte in its journal, and the XXH3 (64 bits) of its text without the line end.
struct RecordDigest {
  uint64_t offset = 0;
  uint64_t xxh3 = 0;
  bool operator==(const RecordDigest&) const = default;
};

RecordDigest digest_record(uint64_t offset, std::string_view text);

using RecordDigestList = files::PagedArray<RecordDigest>;

/// The file: a line "OFFSET XXH3" for each record, in decimal and in 16 hexadecimal digits, written
/// after the record. A crash may take the last lines of it, and with them the check of the records
/// that they are of, never a record.
class RecordDigests {
 public:
  /// Digests of the records of the journal PATH.part; nothing is opened before it is needed.
  explicit RecordDigests(const std::string& journal) : path_(journal + ".xxh3") {}

  /// What is there; nothing of a journal that was begun without digests. Throws
  /// Error(foreign_output) where a line is none of ours and such lines follow.
  [[nodiscard]] RecordDigestList read();
  /// These in place of what is there, which is not written again where it is the same.
  void replace(const RecordDigestList& records);
  /// An empty list whose temporary file is beside the journal.
  [[nodiscard]] RecordDigestList empty_list() const;
  /// Adds a record: the file has it once there are eight of them, or after flush().
  void add(const RecordDigest& record);
  void flush();
  void sync();
  /// The file goes: with its journal, or where that has none to keep.
  void remove();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  files::OutputFile& file();
  bool has_just(const RecordDigestList& records);

  std::string path_;
  std::optional<files::OutputFile> file_;
  std::string coming_;  // not yet in the file
  int coming_records_ = 0;
  bool unsynced_ = false;
};

/// Holds records that are read back against their digests.
class DigestCheck {
 public:
  /// `folder`: of temporary files.
  DigestCheck(RecordDigestList known, const std::string& folder);

  [[nodiscard]] bool has_digests() const { return known_ > 0; }
  /// True when the next record that has a digest is this one: its bytes are those of the run.
  [[nodiscard]] bool is_next(const RecordDigest& record) const {
    return next_ < known_ && records_[next_].xxh3 == record.xxh3;
  }
  /// A record of a journal; `line` is its number in the file, from 1. One behind the last that has
  /// a digest counts as whole: a crash has taken its digest.
  void take(const RecordDigest& record, uint64_t line);
  /// A record that was copied from the journal when all of it had digests.
  void take_copy(const RecordDigest& record, uint64_t line);
  /// A line at a byte of the file that is not what the run wrote there.
  void note_damage(uint64_t offset, uint64_t line);
  /// Throws Error(foreign_output) that names the damaged lines of the file and how to take them
  /// out. Before that `digests` gets those of records that had none: once lines are taken out,
  /// their offsets no longer say that a crash has taken their digests.
  void refuse_damage(const std::string& file, RecordDigests& digests) const;

 private:
  bool is_known(uint64_t xxh3);

  RecordDigestList records_;  // known, and behind them those without
  uint64_t known_ = 0;        // of `records_`
  uint64_t next_ = 0;         // the known one behind the last that was found
  DigestTable places_;        // of the known by XXH3, from 1; empty before it is needed
  uint64_t end_ = 0;          // of the offsets that have digests
  std::vector<std::pair<uint64_t, uint64_t>> damaged_;  // first and last line
  uint64_t first_damage_ = 0;                           // its byte in the file
};

}  // namespace plimsoll::batch
