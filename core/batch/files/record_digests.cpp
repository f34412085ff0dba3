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

std::vector<RecordDigest> RecordDigests::read() {
  std::vector<RecordDigest> records;
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

void RecordDigests::replace(const std::vector<RecordDigest>& records) {
  if (files::exists(path_)) file().truncate(0);
  for (const RecordDigest& record : records) {
    coming_ += text_of(record);
    if (coming_.size() >= kWriteBytes) flush();
  }
  flush();
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

DigestCheck::DigestCheck(std::vector<RecordDigest> known) : records_(std::move(known)) {
  for (const RecordDigest& record : records_) {
    known_.push_back(record.xxh3);
    end_ = std::max(end_, record.offset + 1);
  }
  std::ranges::sort(known_);
}

void DigestCheck::take(const RecordDigest& record, uint64_t line) {
  if (record.offset < end_) {
    take_copy(record, line);
  } else {
    records_.push_back(record);
  }
}

void DigestCheck::take_copy(const RecordDigest& record, uint64_t line) {
  const bool whole = known_.empty() || std::ranges::binary_search(known_, record.xxh3);
  if (!whole) note_damage(record.offset, line);
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
