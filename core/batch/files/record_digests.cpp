#include "batch/files/record_digests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "batch/files/file_lines.h"
#include "files/digest.h"
#include "files/names.h"

namespace plimsoll::batch {
namespace {

// A call of the system for so many records costs little beside records of a token.
constexpr int kWriteRecords = 8;
constexpr size_t kWriteBytes = size_t{1} << 20;
// A command that takes out more pieces than that is no longer read by anybody.
constexpr size_t kNamedPieces = 20;

std::optional<RecordDigest> parse(std::string_view line) {
  RecordDigest record;
  const char* const end = line.data() + line.size();
  const auto [space, bad_offset] = std::from_chars(line.data(), end, record.offset);
  if (bad_offset != std::errc() || end - space != 17 || *space != ' ') return std::nullopt;
  const auto [behind, bad_digest] = std::from_chars(space + 1, end, record.xxh3, 16);
  return bad_digest == std::errc() && behind == end ? std::optional(record) : std::nullopt;
}

std::string text_of(const RecordDigest& record) {
  return fmt::format("{} {:016x}\n", record.offset, record.xxh3);
}

}  // namespace

RecordDigest digest_record(uint64_t offset, std::string_view text) {
  return {offset, files::xxh3(text)};
}

// ---- the file ----

files::OutputFile& RecordDigests::file() {
  if (!file_) file_ = files::OutputFile::open_owned(path_);
  return *file_;
}

RecordDigestList RecordDigests::empty_list() const {
  return RecordDigestList(files::folder_of(path_));
}

RecordDigestList RecordDigests::read() {
  RecordDigestList records = empty_list();
  if (!files::exists(path_)) return records;
  FileLines lines(file(), 0);
  std::string text;
  Extent extent;
  std::optional<uint64_t> broken;
  for (uint64_t number = 1; lines.next(text, extent); ++number) {
    const std::optional<RecordDigest> record = parse(text);
    if (record && broken) {
      fail(ExitCode::foreign_output,
           "{}, line {}: is no digest of a record; remove the file, and the same command goes on "
           "without a look at whether the finished lines are whole",
           path_, *broken);
    }
    if (record) records.push_back(*record);
    if (!record && !broken) broken = number;
  }
  return records;
}

void RecordDigests::replace(const RecordDigestList& records) {
  if (has_just(records)) return;
  if (files::exists(path_)) file().truncate(0);
  for (uint64_t i = 0; i < records.size(); ++i) {
    coming_ += text_of(records[i]);
    if (coming_.size() >= kWriteBytes) flush();
  }
  flush();
}

bool RecordDigests::has_just(const RecordDigestList& records) {
  if (!files::exists(path_)) return records.empty();
  FileLines lines(file(), 0);
  std::string text;
  Extent extent;
  uint64_t same = 0;
  while (same < records.size() && lines.next(text, extent) && parse(text) == records[same]) ++same;
  return same == records.size() && lines.at() == file().size();
}

void RecordDigests::add(const RecordDigest& record) {
  coming_ += text_of(record);
  if (++coming_records_ >= kWriteRecords) flush();
}

void RecordDigests::flush() {
  if (coming_.empty()) return;
  file().append(coming_);
  coming_.clear();
  coming_records_ = 0;
  unsynced_ = true;
}

void RecordDigests::sync() {
  flush();
  if (unsynced_) file().sync();
  unsynced_ = false;
}

void RecordDigests::remove() {
  coming_.clear();
  coming_records_ = 0;
  file_.reset();
  unsynced_ = false;
  files::remove_file(path_);
}

// ---- the check ----

DigestCheck::DigestCheck(RecordDigestList known, const std::string& folder)
    : records_(std::move(known)), known_(records_.size()), places_(folder) {
  for (uint64_t i = 0; i < known_; ++i) end_ = std::max(end_, records_[i].offset + 1);
}

// Records follow each other as their digests do, but where lines were taken out or were moved.
bool DigestCheck::is_known(uint64_t xxh3) {
  if (next_ >= known_ || records_[next_].xxh3 != xxh3) {
    for (uint64_t i = places_.size() == 0 ? 0 : known_; i < known_; ++i) {
      (void)places_.insert({.high = records_[i].xxh3}, i + 1);
    }
    const uint64_t place = places_.find({.high = xxh3});
    if (place == 0) return false;
    next_ = place - 1;
  }
  ++next_;
  return true;
}

void DigestCheck::take(const RecordDigest& record, uint64_t line) {
  if (record.offset < end_) {
    take_copy(record, line);
  } else {
    records_.push_back(record);
  }
}

void DigestCheck::take_copy(const RecordDigest& record, uint64_t line) {
  if (known_ > 0 && !is_known(record.xxh3)) note_damage(record.offset, line);
}

void DigestCheck::note_damage(uint64_t offset, uint64_t line) {
  if (damaged_.empty()) first_damage_ = offset;
  if (!damaged_.empty() && damaged_.back().second + 1 == line) {
    damaged_.back().second = line;
  } else {
    damaged_.emplace_back(line, line);
  }
}

void DigestCheck::refuse_damage(const std::string& file, RecordDigests& digests) const {
  if (damaged_.empty()) return;
  digests.replace(records_);
  std::vector<std::string> pieces;
  for (const auto& [first, last] : damaged_) {
    if (pieces.size() == kNamedPieces) break;
    pieces.push_back(first == last ? std::to_string(first) : fmt::format("{},{}", first, last));
  }
  const auto [first, last] = damaged_.front();
  const bool one = damaged_.size() == 1 && first == last;
  fail(
      ExitCode::foreign_output,
      "{}, line {} at byte {}: does not have the bytes that the run wrote there{}; take the "
      "damaged "
      "{} out (sed -i '{}d'), and the same command answers {} anew, or start anew with --overwrite",
      file, first, first_damage_, one ? "" : ", nor have others", one ? "line" : "lines",
      fmt::join(pieces, "d;"), one ? "it" : "them");
}

}  // namespace plimsoll::batch
