// The working file of an output: records in order of completion, each in one write. It is the only
// checkpoint: a line is done when the journal has its record. PATH.part.xxh3 beside it tells
// whether a record was damaged since.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/files/file_lines.h"
#include "batch/files/record.h"
#include "batch/files/record_digests.h"
#include "files/output_file.h"
#include "files/packing.h"
#include "files/paged_array.h"

namespace plimsoll::batch {

/// When records are synced to the disk: each one; once a second or every MiB; at the end alone.
enum class Fsync : uint8_t { each, interval, end };

class Journal {
 public:
  /// Opens or makes PATH.part under a lock that this process keeps. Throws Error(locked,
  /// output_unwritable).
  Journal(std::string path, Fsync fsync);
  /// Removes the file when it is empty.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Takes PATH, a finished output, for the journal where there is no PATH.part.
  void reopen_published();
  /// Ends what reopen_published() began: from now on PATH is not there. Before it, where PATH is
  /// packed, it is there beside PATH.part.
  void keep_reopened();
  /// Undoes reopen_published() where keep_reopened() has not ended it and nothing was written
  /// since.
  void give_back();

  /// Calls `found` for every record, in order. Bytes behind the last whole record are cut and
  /// counted; what an interrupted publish has moved away is brought back. Throws
  /// Error(foreign_output) for anything else that is no record, with line and byte, and for records
  /// that have other bytes than were written, with their lines; then nothing is cut or moved.
  uint64_t recover(const std::function<void(const Extent&, const Record&)>& found);
  /// Notes where the record of a slot lies that recover() has found.
  void adopt(uint64_t slot, const Extent& extent);
  /// Removes all records.
  void clear();

  /// Appends the record of a slot. When it cannot be written, no part of it stays.
  void append(uint64_t slot, std::string_view record);
  void sync();

  /// True when PATH is packed with gzip or zstd, by its name; PATH.part never is.
  [[nodiscard]] bool is_packed() const { return packing_ != files::Packing::none; }
  [[nodiscard]] bool empty() const { return end_ == 0; }
  [[nodiscard]] uint64_t records() const;
  [[nodiscard]] const std::string& part() const { return part_.path(); }

  /// Makes PATH of the records, ordered by slot, and removes PATH.part. Moving gives the journal's
  /// space back on the way where the file system can; where space is missing, throws
  /// Error(output_unwritable) with the number before anything is written. `about_to_rename` is
  /// called with the inode that PATH will have.
  void publish(files::Existing existing, const std::function<void(uint64_t)>& about_to_rename);

 private:
  [[nodiscard]] std::string ordered_path() const { return path_ + ".ordered.part"; }
  [[nodiscard]] bool is_in_order() const;
  [[nodiscard]] uint64_t first_record() const;
  void bring_back(const std::function<void(const Extent&, const Record&)>& found,
                  DigestCheck& check, RecordDigestList& digests);
  void sync_records();
  void check_space(const files::PagedArray<uint64_t>& first_needed, bool punches) const;
  [[nodiscard]] files::PagedArray<Extent> empty_index() const;
  void copy_in_order(files::OutputFile& to);
  void unpack_published();

  std::string path_;
  files::Packing packing_;
  files::OutputFile part_;
  RecordDigests digests_;
  Fsync fsync_;
  files::PagedArray<Extent> index_;  // by slot; no bytes: nothing
  uint64_t end_ = 0;
  uint64_t synced_ = 0;  // bytes that are safe
  std::chrono::steady_clock::time_point synced_at_ = std::chrono::steady_clock::now();
  bool reopened_ = false;
  bool published_ = false;
};

}  // namespace plimsoll::batch
