#include "batch/files/resume.h"

#include <fmt/format.h>

#include "base/error.h"
#include "batch/digest.h"
#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/request_line.h"

namespace plimsoll::batch {
namespace {

/// The records of the journals by key; a later one of a key takes the place of those before it.
class Found {
 public:
  struct Entry {
    Journal* journal = nullptr;
    Extent extent;
    bool failed = false;
    bool matched = false;
    std::string code;
  };

  void take(Journal& journal, const Extent& extent, const Record& record) {
    Entry entry{&journal, extent, record.failed, false, record.code};
    const uint64_t before = by_key_.insert(key_of(record), entries_.size() + 1);
    if (before == 0) {
      entries_.push_back(std::move(entry));
    } else if (entries_[before - 1].failed || !entry.failed) {  // an answer stays
      entries_[before - 1] = std::move(entry);
    }
  }

  /// Returns how many bytes of torn tails were cut.
  uint64_t take_all(Journal& output, Journal* errors) {
    uint64_t dropped = 0;
    for (Journal* journal : {errors, &output}) {
      if (journal == nullptr) continue;
      dropped += journal->recover(
          [&](const Extent& extent, const Record& record) { take(*journal, extent, record); });
    }
    return dropped;
  }

  Entry* find(const Digest& key) {
    const uint64_t place = by_key_.find(key);
    return place == 0 ? nullptr : &entries_[place - 1];
  }

  void for_each(const std::function<void(const Entry&)>& take) const {
    for (const Entry& entry : entries_) take(entry);
  }

  /// Throws for a record that no line has claimed.
  void check_all_matched(const std::string& input) const {
    for (const Entry& entry : entries_) {
      if (entry.matched) continue;
      fail(ExitCode::foreign_output,
           "{}, byte {}: is the record of a line that {} does not have; input and output do not "
           "belong together",
           entry.journal->part(), entry.extent.offset, input);
    }
  }

 private:
  std::vector<Entry> entries_;
  DigestTable by_key_;
};

/// Goes over an input as a run does, without its work.
class Matcher {
 public:
  Matcher(Found& found, const ResumeOptions& options) : found_(found), options_(options) {}

  void take(Line& line) {
    const uint64_t text = digest(line.text).low;  // before the envelope takes it apart
    LineHead head;
    bool taken = true;  // a line that fails in its envelope is known by its number alone
    try {
      (void)read_envelope(line, usual_, head);
      taken = ids_.take(head) != 0;
    } catch (const LineError&) {
      ids_.take_failed(head);
    }
    usual_ = head.envelope;
    if (line.ordinal < options_.slice.first) return;
    const uint64_t slot = line.ordinal - options_.slice.first;
    if (slot >= options_.slice.count) return;
    ++done.lines;
    Found::Entry* by_line = found_.find(key_of_line(line.number));
    Found::Entry* by_id = head.id && !taken ? found_.find(key_of_id(*head.id)) : nullptr;
    if (by_line) by_line->matched = true;
    if (by_id) by_id->matched = true;
    if (slot < options_.texts.size() && text != options_.texts[slot]) return;
    // A failure that was tried again, and the answer.
    const Found::Entry* entry = by_id && (!by_line || !by_id->failed) ? by_id : by_line;
    if (entry == nullptr || (entry->failed && options_.failed == Failed::retry)) return;
    note(slot, *entry);
  }

  void note(uint64_t slot, const Found::Entry& entry) {
    entry.journal->adopt(slot, entry.extent);
    if (slot >= done.slots.size()) done.slots.resize(slot + 1);
    done.slots[slot] = entry.failed ? DoneLines::State::failed : DoneLines::State::ok;
    ++(entry.failed ? done.failed : done.ok);
    if (entry.failed) ++done.failed_by_code[entry.code];
  }

  DoneLines done;

 private:
  Found& found_;
  const ResumeOptions& options_;
  IdRegister ids_;
  Envelope usual_ = Envelope::plain;
};

}  // namespace

DoneLines recover_lines(Journal& output, Journal* errors, files::InputFile& input,
                        const ResumeOptions& options) {
  Found found;
  const uint64_t dropped = found.take_all(output, errors);
  Matcher matcher(found, options);
  LineReader reader(input, options.max_line_bytes);
  Line line;
  try {
    while (true) {
      const LineReader::Got got = reader.next(line, -1);
      if (got == LineReader::Got::end) break;
      if (got == LineReader::Got::line) matcher.take(line);
    }
  } catch (const Error&) {
    // The lines before the place where packed data was cut off are lines all the same.
    if (!input.is_packed()) throw;
  }
  input.rewind();
  found.check_all_matched(input.name());
  matcher.done.dropped_bytes = dropped;
  return std::move(matcher.done);
}

DoneLines recover_records(Journal& output, Journal* errors) {
  Found found;
  const ResumeOptions options;
  Matcher matcher(found, options);
  matcher.done.dropped_bytes = found.take_all(output, errors);
  found.for_each([&](const Found::Entry& entry) { matcher.note(matcher.done.lines++, entry); });
  return std::move(matcher.done);
}

}  // namespace plimsoll::batch
