#include "batch/files/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "batch/files/in_order.h"
#include "files/input_file.h"

namespace plimsoll::batch {
namespace {

using namespace std::chrono_literals;

constexpr size_t kScanBytes = size_t{1} << 20;
constexpr uint64_t kSyncBytes = uint64_t{1} << 20;
constexpr auto kSyncInterval = 1s;
// Copied, synced and given back at once.
constexpr uint64_t kMoveBytes = uint64_t{16} << 20;
// Bytes of the index in memory: lines end nearly in their order, a million of them in it.
constexpr size_t kIndexBytes = size_t{16} << 20;

// Lines that are read back together, so many or so long.
constexpr size_t kBlockLines = 1024;

/// A line of a file, and the record that it is, if it is one.
struct StoredLine {
  std::string text;
  Extent extent;
  RecordDigest digest;
  std::optional<Record> record;
};

/// A record in a file; `line` is its number there, from 1.
struct StoredRecord {
  const Extent& extent;
  const Record& record;
  const RecordDigest& digest;
  std::string_view text;
  uint64_t line;
};

// Returns the bytes of the block; 0: the file has ended.
size_t read_lines(FileLines& lines, std::vector<StoredLine>& block) {
  size_t bytes = 0;
  while (block.size() < kBlockLines && bytes < kScanBytes) {
    StoredLine& line = block.emplace_back();
    if (lines.next(line.text, line.extent)) {
      bytes += line.text.size() + 1;
    } else {
      block.pop_back();
      break;
    }
  }
  return bytes;
}

// Goes over whole records; returns where they end. A last line that is none is torn, others are
// damaged. A record that has the bytes of the run is not parsed whole again.
uint64_t walk(const files::OutputFile& file, uint64_t from, DigestCheck& check,
              const std::function<void(const StoredRecord&)>& found) {
  using Lines = std::vector<StoredLine>;
  FileLines lines(file, from);
  const bool has_digests = check.has_digests();
  std::optional<Extent> broken;
  uint64_t number = 0;
  work_in_order<Lines>(
      [&](Lines& block) { return read_lines(lines, block); },
      [has_digests](Lines& block) {
        for (StoredLine& line : block) {
          line.digest = digest_record(line.extent.offset, line.text);
          line.record = has_digests ? read_own_record(line.text) : read_record(line.text);
        }
      },
      [&](Lines& block) {
        for (StoredLine& line : block) {
          if (broken) check.note_damage(broken->offset, number);
          ++number;
          const bool is_parsed = !has_digests || (line.record && check.is_next(line.digest));
          if (!is_parsed) line.record = read_record(line.text);
          broken = line.record ? std::nullopt : std::optional(line.extent);
          if (line.record) found({line.extent, *line.record, line.digest, line.text, number});
        }
      });
  return broken ? broken->offset : lines.at();
}

}  // namespace

Journal::Journal(std::string path, Fsync fsync)
    : path_(std::move(path)),
      packing_(files::packing_for(path_)),
      part_(files::OutputFile::open_owned(path_ + ".part")),
      digests_(part_.path()),
      fsync_(fsync),
      index_(empty_index()),
      end_(part_.size()),
      synced_(end_) {}

Journal::~Journal() {
  if (end_ > 0 || published_) return;
  files::remove_if_possible(part_.path());
  files::remove_if_possible(digests_.path());
}

void Journal::reopen_published() {
  if (is_packed()) {
    reopened_ = true;
    unpack_published();
    return;
  }
  // Owned before it gets the working name, so that no other process can come between.
  files::OutputFile file = files::OutputFile::open_owned(path_);
  file.rename(part_.path(), files::Existing::replace);
  part_ = std::move(file);
  reopened_ = true;
  synced_ = end_ = part_.size();
}

// Makes the working file anew from the published, packed one. The working file may hold a part of
// it from an earlier try, which is dropped.
void Journal::unpack_published() {
  clear();
  files::InputFile packed = files::InputFile::open(path_);
  std::string buffer(kScanBytes, '\0');
  while (const size_t got = packed.read(buffer.data(), buffer.size(), -1).value_or(0)) {
    part_.append(std::string_view(buffer).substr(0, got));
  }
  part_.sync();
  synced_ = end_ = part_.size();
}

void Journal::keep_reopened() {
  if (reopened_ && is_packed()) files::remove_file(path_);
  reopened_ = false;
}

void Journal::give_back() {
  if (!std::exchange(reopened_, false)) return;
  if (is_packed()) {
    clear();
    return;
  }
  digests_.remove();
  part_.rename(path_, files::Existing::refuse);
  published_ = true;
}

// A publish that was interrupted has given back the beginning, which reads as zeros.
uint64_t Journal::first_record() const {
  std::string buffer;
  for (uint64_t at = 0; at < end_; at += buffer.size()) {
    buffer.resize(std::min<uint64_t>(kScanBytes, end_ - at));
    part_.read_at(at, buffer.data(), buffer.size());
    const size_t found = buffer.find_first_not_of('\0');
    if (found != std::string::npos) return at + found;
  }
  return end_;
}

uint64_t Journal::recover(const std::function<void(const Extent&, const Record&)>& found) {
  const uint64_t before = end_;
  const uint64_t first = first_record();
  DigestCheck check(digests_.read(), files::folder_of(path_));
  RecordDigestList digests = digests_.empty_list();
  uint64_t end = 0;
  if (first < before) {
    end = walk(part_, first, check, [&](const StoredRecord& stored) {
      digests.push_back(stored.digest);
      check.take(stored.digest, stored.line);
      found(stored.extent, stored.record);
    });
    check.refuse_damage(part_.path(), digests_);
  }
  end_ = end == first ? 0 : end;  // 0: not one whole record
  const uint64_t dropped = before - std::max(end_, std::min(first, before));
  if (end_ < before) part_.truncate(end_);
  if (is_packed()) files::remove_file(ordered_path());  // nothing was given back for it
  const bool moved = files::exists(ordered_path());
  if (moved) bring_back(found, check, digests);
  part_.sync();
  synced_ = end_;
  if (moved) files::remove_file(ordered_path());
  digests_.replace(digests);
  return dropped;
}

void Journal::bring_back(const std::function<void(const Extent&, const Record&)>& found,
                         DigestCheck& check, RecordDigestList& digests) {
  const files::OutputFile ordered = files::OutputFile::open_owned(ordered_path());
  walk(ordered, 0, check,
       [&](const StoredRecord& stored) { check.take_copy(stored.digest, stored.line); });
  check.refuse_damage(ordered_path(), digests_);
  walk(ordered, 0, check, [&](const StoredRecord& stored) {
    const Extent extent{end_, stored.extent.bytes};
    part_.append(std::string(stored.text) + "\n");
    digests.push_back({extent.offset, stored.digest.xxh3});
    end_ += extent.bytes;
    found(extent, stored.record);
  });
}

void Journal::adopt(uint64_t slot, const Extent& extent) {
  index_.set(slot, extent);
}

void Journal::clear() {
  if (part_.size() > 0) {
    part_.truncate(0);
    part_.sync();  // an empty output is published as it is
  }
  files::remove_file(ordered_path());
  digests_.remove();
  index_ = empty_index();
  synced_ = end_ = 0;
}

void Journal::append(uint64_t slot, std::string_view record) {
  try {
    part_.append(record);
    digests_.add(digest_record(end_, record.substr(0, record.size() - 1)));
  } catch (const Error& error) {
    try {
      part_.truncate(end_);
    } catch (const Error&) {
      // The torn tail is cut when the run goes on.
    }
    fail(error.code(), "{}; all lines before are kept, and the same command goes on from them",
         error.what());
  }
  adopt(slot, {end_, record.size()});
  end_ += record.size();
  const bool due = end_ - synced_ >= kSyncBytes ||
                   std::chrono::steady_clock::now() - synced_at_ >= kSyncInterval;
  if (fsync_ != Fsync::each && (fsync_ != Fsync::interval || !due)) return;
  sync_records();
  digests_.flush();
}

void Journal::sync() {
  sync_records();
  digests_.sync();
}

// Without the digests: a crash that takes some leaves their records unchecked, and takes no record.
void Journal::sync_records() {
  synced_at_ = std::chrono::steady_clock::now();
  if (end_ == synced_) return;
  try {
    part_.sync();
  } catch (const Error& error) {
    fail(error.code(), "{}; the last {} bytes of lines may be lost when the machine goes down now",
         error.what(), end_ - synced_);
  }
  synced_ = end_;
}

uint64_t Journal::records() const {
  uint64_t count = 0;
  for (uint64_t slot = 0; slot < index_.size(); ++slot) count += index_[slot].bytes > 0 ? 1 : 0;
  return count;
}

files::PagedArray<Extent> Journal::empty_index() const {
  return files::PagedArray<Extent>(files::folder_of(path_), kIndexBytes);
}

// ---- publishing ----

bool Journal::is_in_order() const {
  uint64_t at = 0;
  for (uint64_t slot = 0; slot < index_.size(); ++slot) {
    const Extent extent = index_[slot];
    if (extent.bytes == 0) continue;
    if (extent.offset != at) return false;
    at += extent.bytes;
  }
  return at == end_;
}

void Journal::publish(files::Existing existing,
                      const std::function<void(uint64_t)>& about_to_rename) {
  sync();
  if (!is_packed() && is_in_order()) {
    about_to_rename(part_.inode());
    part_.rename(path_, existing);
    published_ = true;
    digests_.remove();
    part_.close();
    return;
  }
  if (existing == files::Existing::refuse) files::check_absent(path_, part_.path());
  files::OutputFile ordered = files::OutputFile::open_owned(ordered_path());
  ordered.truncate(0);
  copy_in_order(ordered);
  about_to_rename(ordered.inode());
  ordered.rename(path_, existing);
  published_ = true;
  ordered.close();
  files::remove_file(part_.path());
  digests_.remove();
  part_.close();
}

// Slots from which on nothing lies before an offset: the journal's head up to there can go.
void Journal::copy_in_order(files::OutputFile& to) {
  files::PagedArray<uint64_t> first_needed(files::folder_of(path_));
  uint64_t needed = end_;
  first_needed.set(index_.size(), needed);
  for (uint64_t slot = index_.size(); slot-- > 0;) {
    const Extent extent = index_[slot];
    if (extent.bytes > 0) needed = std::min(needed, extent.offset);
    first_needed.set(slot, needed);
  }
  const std::unique_ptr<files::Packer> packer = files::Packer::make(packing_);
  const bool punches = !packer && part_.can_punch();
  if (!packer)
    check_space(first_needed, punches);  // packed output takes less, by an unknown amount
  std::string buffer;
  uint64_t moved = 0;
  uint64_t given_back = 0;
  const auto flush = [&] {
    to.append(packer ? packer->pack(buffer) : buffer);
    moved += buffer.size();
    buffer.clear();
  };
  for (uint64_t slot = 0; slot < index_.size(); ++slot) {
    const Extent extent = index_[slot];
    const size_t before = buffer.size();
    buffer.resize(before + extent.bytes);
    part_.read_at(extent.offset, buffer.data() + before, extent.bytes);
    if (buffer.size() >= kScanBytes) flush();
    if (!punches || moved - given_back < kMoveBytes) continue;
    flush();
    to.sync();
    part_.punch_head(first_needed[slot + 1]);
    given_back = moved;
  }
  flush();
  if (packer) to.append(packer->finish());
  to.sync();
}

void Journal::check_space(const files::PagedArray<uint64_t>& first_needed, bool punches) const {
  uint64_t copied = 0;
  uint64_t most = 0;
  for (uint64_t slot = 0; slot < index_.size(); ++slot) {
    copied += index_[slot].bytes;
    const uint64_t given_back = punches ? first_needed[slot] : 0;
    most = std::max(most, copied - std::min(copied, given_back));
  }
  const uint64_t wanted = punches ? std::min(copied, most + 2 * kMoveBytes) : copied;
  const uint64_t free = files::free_bytes_beside(path_);
  if (free >= wanted) return;
  fail(ExitCode::output_unwritable,
       "{}: all lines are in {}, but to put them in order takes {} bytes beside it, and {} are "
       "free; make room, then: plimsoll run --publish {}",
       path_, part_.path(), wanted, free, path_);
}

}  // namespace plimsoll::batch
