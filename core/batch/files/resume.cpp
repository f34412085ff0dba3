#include "batch/files/resume.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "batch/digest.h"
#include "batch/files/in_order.h"
#include "batch/line_error.h"
#include "batch/request_line.h"

namespace plimsoll::batch {
namespace {

/// What is kept of a record until its line claims it, in 16 bytes.
class Entry {
 public:
  enum Flag : uint64_t { from_errors = 1, failed = 2, matched = 4 };

  Entry() = default;
  /// `code`: of a failure, in the order in which codes were first seen.
  Entry(const Extent& extent, uint64_t code, uint64_t flags)
      : offset_(extent.offset), packed_(extent.bytes << kBytesAt | code << kCodeAt | flags) {}
  [[nodiscard]] bool is(Flag flag) const { return (packed_ & flag) != 0; }
  [[nodiscard]] Extent extent() const { return {offset_, packed_ >> kBytesAt}; }
  [[nodiscard]] uint64_t code() const { return packed_ >> kCodeAt & (kMostCodes - 1); }
  [[nodiscard]] Entry with(Flag flag) const { return {extent(), code(), (packed_ & 7) | flag}; }

  static constexpr uint64_t kMostCodes = 1024;

 private:
  static constexpr int kCodeAt = 3;
  static constexpr int kBytesAt = kCodeAt + 10;

  uint64_t offset_ = 0;
  uint64_t packed_ = 0;
};

/// The records of the journals by key; a later one of a key takes the place of those before it.
/// Keys that are ids stand in the register of ids, until a line takes the id.
class Found {
 public:
  Found(Journal& output, Journal* errors, IdRegister& ids)
      : output_(output),
        errors_(errors),
        ids_(ids),
        entries_(files::folder_of(output.part()), kEntryBytes),
        by_line_(files::folder_of(output.part()), kByLineBytes) {}

  /// Reads both journals. Returns how many bytes of torn tails were cut.
  uint64_t take_all() {
    uint64_t dropped = 0;
    for (Journal* journal : {errors_, &output_}) {
      if (journal == nullptr) continue;
      dropped += journal->recover(
          [&](const Extent& extent, const Record& record) { take(*journal, extent, record); });
    }
    return dropped;
  }

  /// The number (from 1) of the failure that names this line; 0: there is none.
  [[nodiscard]] uint64_t of_line(uint64_t line) const {
    return by_line_.size() == 0 ? 0 : by_line_.find(key_of_line(line));
  }
  [[nodiscard]] Entry at(uint64_t number) const { return entries_[number - 1]; }
  [[nodiscard]] uint64_t size() const { return entries_.size(); }
  [[nodiscard]] const std::string& code_of(const Entry& entry) const {
    return codes_[entry.code()];
  }
  [[nodiscard]] Journal& journal_of(const Entry& entry) const {
    return entry.is(Entry::from_errors) ? *errors_ : output_;
  }

  /// Notes that a line has claimed this record; 0 is none.
  void match(uint64_t number) {
    if (number == 0) return;
    const Entry entry = at(number);
    if (!entry.is(Entry::matched)) entries_.set(number - 1, entry.with(Entry::matched));
  }

  /// Throws for a record that no line has claimed.
  void check_all_matched(const std::string& input) const {
    for (uint64_t number = 1; number <= size(); ++number) {
      const Entry entry = at(number);
      if (entry.is(Entry::matched)) continue;
      fail(ExitCode::foreign_output,
           "{}, byte {}: is the record of a line that {} does not have; input and output do not "
           "belong together",
           journal_of(entry).part(), entry.extent().offset, input);
    }
  }

 private:
  static constexpr size_t kEntryBytes = size_t{16} << 20;
  static constexpr size_t kByLineBytes = size_t{16} << 20;

  void take(const Journal& journal, const Extent& extent, const Record& record) {
    const uint64_t code = record.failed ? number_of(record.code, journal, extent) : 0;
    Entry entry(extent, code, 0);
    if (&journal == errors_) entry = entry.with(Entry::from_errors);
    if (record.failed) entry = entry.with(Entry::failed);
    const uint64_t number = size() + 1;
    const uint64_t before = record.line ? by_line_.insert(key_of(record), number)
                                        : ids_.add_record(key_of(record), number);
    if (before == 0) {
      entries_.push_back(entry);
    } else if (at(before).is(Entry::failed) || !record.failed) {  // an answer stays
      entries_.set(before - 1, entry);
    }
  }

  uint64_t number_of(const std::string& code, const Journal& journal, const Extent& extent) {
    const auto known = std::ranges::find(codes_, code);
    const auto number = static_cast<uint64_t>(known - codes_.begin());
    if (known != codes_.end()) return number;
    if (number == Entry::kMostCodes) {
      fail(ExitCode::foreign_output,
           "{}, byte {}: has the {}th code of an error; no run has so many", journal.part(),
           extent.offset, number + 1);
    }
    codes_.push_back(code);
    return number;
  }

  Journal& output_;
  Journal* errors_;
  IdRegister& ids_;
  files::PagedArray<Entry> entries_;
  DigestTable by_line_;
  std::vector<std::string> codes_;
};

/// A line of the input, and what can be read from it without the lines before it.
struct ReadLine {
  Line line;
  LineHead head;
  uint64_t text = 0;  // low half of its digest
  bool is_sound = false;
};

using ReadLines = std::vector<ReadLine>;

// Lines that are read together, so many or so long.
constexpr size_t kTogether = 1024;
constexpr size_t kBytesTogether = size_t{1} << 20;

/// Returns the bytes of the block; 0: the input has ended.
size_t read_block(LineReader& reader, ReadLines& block) {
  size_t bytes = 0;
  while (block.size() < kTogether && bytes < kBytesTogether) {
    ReadLine& read = block.emplace_back();
    const LineReader::Got got = reader.next(read.line, -1);
    if (got == LineReader::Got::line) bytes += read.line.text.size() + 1;
    if (got != LineReader::Got::line) block.pop_back();
    if (got == LineReader::Got::end) break;
  }
  return bytes;
}

void read_envelopes(ReadLines& block, bool with_texts) {
  for (ReadLine& read : block) {
    if (with_texts) read.text = digest(read.line.text).low;
    Line line = read.line;
    try {
      (void)read_envelope(line, Envelope::plain, read.head);
      read.is_sound = true;
      std::string().swap(read.line.text);
    } catch (const LineError&) {
      // fail_again() reads it with the envelope of the lines before it.
    }
  }
}

/// Goes over an input as a run does, without its work.
class Matcher {
 public:
  Matcher(Found& found, IdRegister& ids, const ResumeOptions& options)
      : found_(found), ids_(ids), options_(options) {}

  void take(ReadLine& read) {
    Line& line = read.line;
    uint64_t by_id = 0;  // a line that fails in its envelope is known by its number alone
    if (read.is_sound) {
      by_id = ids_.take(read.head).record;
    } else {
      fail_again(line, read.head);
      ids_.take_failed(read.head);
    }
    usual_ = read.head.envelope;
    if (line.ordinal < options_.slice.first) return;
    const uint64_t slot = line.ordinal - options_.slice.first;
    if (slot >= options_.slice.count) return;
    ++done.lines;
    done.batch.push_back(usual_ == Envelope::batch);
    const uint64_t by_line = found_.of_line(line.number);
    found_.match(by_line);
    found_.match(by_id);
    const files::PagedArray<uint64_t>* texts = options_.texts;
    if (texts && slot < texts->size() && read.text != (*texts)[slot]) return;
    // A failure that was tried again, and the answer.
    const bool answered = by_id != 0 && (by_line == 0 || !found_.at(by_id).is(Entry::failed));
    const uint64_t number = answered ? by_id : by_line;
    if (number == 0) return;
    const Entry entry = found_.at(number);
    if (entry.is(Entry::failed) && options_.failed == Failed::retry) return;
    note(slot, entry);
  }

  void note(uint64_t slot, const Entry& entry) {
    const bool failed = entry.is(Entry::failed);
    found_.journal_of(entry).adopt(slot, entry.extent());
    if (slot >= done.slots.size()) done.slots.resize(slot + 1);
    done.slots[slot] = failed ? DoneLines::State::failed : DoneLines::State::ok;
    ++(failed ? done.failed : done.ok);
    if (failed) ++done.failed_by_code[found_.code_of(entry)];
  }

  DoneLines done;

 private:
  // The envelope of a line that cannot be parsed is that of the lines before it.
  void fail_again(Line& line, LineHead& head) const {
    head = {};
    try {
      (void)read_envelope(line, usual_, head);
    } catch (const LineError&) {
      // Its record says why.
    }
  }

  Found& found_;
  IdRegister& ids_;
  const ResumeOptions& options_;
  Envelope usual_ = Envelope::plain;
};

}  // namespace

DoneLines recover_lines(Journal& output, Journal* errors, files::InputFile& input,
                        const ResumeOptions& options, IdRegister& ids) {
  Found found(output, errors, ids);
  const uint64_t dropped = found.take_all();
  Matcher matcher(found, ids, options);
  LineReader reader(input, options.max_line_bytes);
  bool is_cut = false;  // packed data
  matcher.done.most_bytes = work_in_order<ReadLines>(
      [&](ReadLines& block) -> size_t {
        try {
          return is_cut ? 0 : read_block(reader, block);
        } catch (const Error&) {
          // The lines before the place where packed data was cut off are lines all the same.
          if (!input.is_packed()) throw;
          is_cut = true;
          block.pop_back();
          return block.empty() ? 0 : kBytesTogether;  // at most
        }
      },
      [&](ReadLines& block) { read_envelopes(block, options.texts != nullptr); },
      [&](ReadLines& block) {
        for (ReadLine& read : block) matcher.take(read);
      });
  input.rewind();
  found.check_all_matched(input.name());
  matcher.done.dropped_bytes = dropped;
  return std::move(matcher.done);
}

DoneLines recover_records(Journal& output, Journal* errors) {
  const ResumeOptions options;
  IdRegister ids(files::folder_of(output.part()));
  Found found(output, errors, ids);
  Matcher matcher(found, ids, options);
  matcher.done.dropped_bytes = found.take_all();
  for (uint64_t number = 1; number <= found.size(); ++number) {
    matcher.note(matcher.done.lines++, found.at(number));
  }
  return std::move(matcher.done);
}

}  // namespace plimsoll::batch
