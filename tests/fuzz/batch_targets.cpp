#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/json.h"
#include "batch/files/in_flight.h"
#include "batch/files/journal.h"
#include "batch/files/manifest.h"
#include "batch/files/record.h"
#include "batch/line_error.h"
#include "batch/line_reader.h"
#include "batch/request_line.h"
#include "batch/scratch.h"
#include "fuzz/targets.h"

namespace plimsoll::fuzz {
namespace {

std::vector<std::string> records_of(const std::string& output) {
  batch::Journal journal(output, batch::Fsync::end);
  std::vector<std::string> found;
  journal.recover([&](const batch::Extent& extent, const batch::Record& record) {
    found.push_back(std::to_string(extent.offset) + "+" + std::to_string(extent.bytes) + " " +
                    record.id.value_or("-") + " " + record.code);
  });
  return found;
}

}  // namespace

void json_line(std::string_view bytes) {
  const batch::FieldLimits limits{.vocab_size = 1000};
  batch::Line line;
  batch::Envelope usual = batch::Envelope::plain;
  while (!bytes.empty()) {
    const size_t length = std::min(bytes.find('\n'), bytes.size());
    line.text.assign(bytes, 0, length);
    bytes.remove_prefix(std::min(length + 1, bytes.size()));
    ++line.number;
    batch::LineHead head;
    try {
      OrderedJson body = batch::read_envelope(line, usual, head);
      (void)batch::read_request(head, std::move(body), {}, limits,
                                [](std::string_view, std::string_view) {});
    } catch (const batch::LineError& error) {
      if (std::ranges::find(batch::kErrorCodes, error.code()) == batch::kErrorCodes.end()) {
        throw std::logic_error("an error code that nobody knows");
      }
    }
    usual = head.envelope;
  }
}

void packed_input(std::string_view bytes) {
  constexpr size_t kMost = 1000;
  static const test::Scratch scratch;
  try {
    files::InputFile input = files::InputFile::open(scratch.write("in", std::string(bytes)));
    batch::LineReader reader(input, kMost);
    batch::Line line;
    for (int lines = 0; lines < 10'000; ++lines) {  // a bomb is only long
      if (reader.next(line, -1) != batch::LineReader::Got::line) break;
      if (line.text.size() > kMost) throw std::logic_error("a line longer than may be");
    }
  } catch (const Error&) {
  }
}

void journal(std::string_view bytes) {
  static const test::Scratch scratch;
  scratch.write("out.part", std::string(bytes));
  std::filesystem::remove(scratch.path("out.part.xxh3"));  // of other bytes
  try {
    const std::vector<std::string> first = records_of(scratch.path("out"));
    if (records_of(scratch.path("out")) != first) throw std::logic_error("a record lost or found");
  } catch (const Error&) {
    if (scratch.read("out.part") != bytes) throw std::logic_error("refused, but not left alone");
  }
}

void own_record(std::string_view bytes) {
  (void)batch::read_own_record(bytes);
  try {
    // As a run writes JSON: compact, each key once.
    const std::string text = parse_json<OrderedJson>(bytes).dump();
    const std::optional<batch::Record> whole = batch::read_record(text);
    const std::optional<batch::Record> own = batch::read_own_record(text);
    if (own && (!whole || own->id != whole->id || own->line != whole->line ||
                own->failed != whole->failed || own->code != whole->code)) {
      throw std::logic_error("another record than read_record() finds");
    }
    if (whole && !own) throw std::logic_error("a record that is not recognized at first sight");
  } catch (const JsonError&) {
  }
}

void record_digests(std::string_view bytes) {
  static const test::Scratch scratch;
  const std::string part = "{\"id\":\"a\",\"choices\":[]}\n{\"id\":\"b\",\"choices\":[]}\n";
  scratch.write("out.part", part);
  scratch.write("out.part.xxh3", std::string(bytes));
  const auto answer = [] {
    try {
      if (records_of(scratch.path("out")).size() != 2) throw std::logic_error("a record lost");
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  // A refusal adds digests of records that had none: what was damaged stays so.
  const std::string first = answer();
  if (answer() != first) throw std::logic_error("answered otherwise the second time");
  if (scratch.read("out.part") != part) throw std::logic_error("the journal is changed");
}

void manifest(std::string_view bytes) {
  static const test::Scratch scratch;
  try {
    const std::string path = scratch.write("out.run.json", std::string(bytes));
    const auto first = batch::read_manifest(path);
    batch::write_manifest(path, *first);
    const auto second = batch::read_manifest(path);
    if (!batch::difference(first->job, second->job).empty() || second->state != first->state) {
      throw std::logic_error("not read as it was written");
    }
  } catch (const Error&) {
  }
}

void in_flight(std::string_view bytes) {
  static const test::Scratch scratch;
  scratch.write("out.running", std::string(bytes));
  try {
    batch::InFlight notes(scratch.path("out"));
    for (uint64_t line = 0; line < 20; ++line) {
      if (notes.deaths(line) < 0) throw std::logic_error("fewer deaths than none");
    }
    notes.begin(3);
    notes.mark_crash();
  } catch (const Error&) {
  }
}

}  // namespace plimsoll::fuzz
