#include "batch/input_scan.h"

#include <algorithm>
#include <utility>

#include "base/long_strings.h"
#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/request_line.h"
#include "text/unicode/unicode.h"

namespace plimsoll::batch {

Slice part_of(uint64_t lines, uint64_t index, uint64_t parts) {
  // The first `larger` parts have one line more. No products, so nothing can overflow.
  const uint64_t size = lines / parts;
  const uint64_t larger = lines % parts;
  return {index * size + std::min(index, larger), size + (index < larger ? 1 : 0)};
}

std::string_view shortened_name(std::string_view name) {
  constexpr size_t kMost = 64;
  return name.substr(0, name.size() <= kMost ? kMost : text::previous_character(name, kMost + 1));
}

UnknownField on_unknown(UnknownFields policy) {
  if (policy == UnknownFields::warn) return [](std::string_view, std::string_view) {};
  return [](std::string_view name, std::string_view reason) {
    const std::string shown(shortened_name(name));
    throw LineError(code::bad_field, shown + ": " + std::string(reason), shown);
  };
}

namespace {

constexpr size_t kLooked = 8;                      // lines
constexpr size_t kLookedBytes = size_t{64} << 10;  // of each

// Kind of a line in the passes that look for other formats.
enum class Looks : uint8_t { ours, foreign, another_service };

Looks looks_of(std::string&& text) {
  try {
    const OrderedJson json = parse_json_from<OrderedJson>(std::move(text));
    if (json.is_object() && is_other_service(json)) return Looks::another_service;
    return json.is_object() || json.is_string() ? Looks::ours : Looks::foreign;
  } catch (const JsonError&) {
    return Looks::foreign;
  }
}

// The format that the first lines of a file look like, none of which is a request; null: none that
// is known.
const char* other_format(const std::vector<std::string>& lines) {
  const auto begins = [&](size_t line, const char* with) {
    const size_t at = lines[line].find_first_not_of(" \t");
    return at != std::string::npos && std::string_view(lines[line]).substr(at).starts_with(with);
  };
  const auto any_begins = [&](const char* with) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (begins(i, with)) return true;
    }
    return false;
  };
  if (begins(0, "[")) return kJsonArray;
  if (lines.size() < 2) return nullptr;
  if (any_begins("{") || any_begins("\"") || any_begins("[")) return nullptr;
  const auto is_binary = [](const std::string& line) {
    return line.find('\0') != std::string::npos;
  };
  if (std::ranges::any_of(lines, is_binary)) return "binary data, not JSONL";
  const auto all_have = [&](const char* separators) {
    return std::ranges::all_of(lines, [&](const std::string& line) {
      return line.find_first_of(separators) != std::string::npos;
    });
  };
  if (all_have("\t")) {
    return "a table of values between tabs; make each row an object with a prompt: mlr --itsv "
           "--ojsonl cat FILE";
  }
  if (all_have(",\t")) {
    return "a table of separated values; make each row an object with a prompt: mlr --icsv "
           "--ojsonl cat FILE";
  }
  return "plain text; make each line a JSON string: jq -R . FILE";
}

}  // namespace

void refuse_other_formats(files::InputFile& input, size_t max_line_bytes) {
  LineReader reader(input, max_line_bytes);
  std::vector<std::string> lines;
  Line line;
  while (lines.size() < kLooked) {
    const LineReader::Got got = reader.next(line, -1);
    if (got == LineReader::Got::end) break;
    if (got == LineReader::Got::nothing_yet) continue;
    if (line.too_long) return;
    lines.push_back(line.text.substr(0, kLookedBytes));
    const Looks looks = looks_of(std::move(line.text));
    if (looks == Looks::ours) return;
    if (looks == Looks::another_service) {
      fail(ExitCode::input_unusable, "{}: is {}", input.name(), kOtherService);
    }
  }
  if (lines.empty()) return;
  const char* format = other_format(lines);
  if (format) fail(ExitCode::input_unusable, "{}: is {}", input.name(), format);
}

namespace {

constexpr size_t kNamedBad = 3;
constexpr size_t kRemembered = size_t{1} << 20;

class Scan {
 public:
  Scan(files::InputFile& input, const ScanOptions& options) : input_(input), options_(options) {}

  InputScan run() {
    LineReader reader(input_, options_.max_line_bytes);
    Line line;
    while (true) {
      const LineReader::Got got = reader.next(line, -1);
      if (got == LineReader::Got::end) return std::move(result_);
      if (got == LineReader::Got::nothing_yet) continue;
      ++result_.lines;
      const bool all = options_.duplicate_ids == DuplicateIds::refuse;
      if (all || reader.bytes_read() <= options_.checked_bytes) check(line);
    }
  }

 private:
  void check(Line& line) {
    ++result_.checked;
    LineHead head;
    try {
      OrderedJson body = read_envelope(line, usual_, head);
      take_id(head);
      (void)read_request(head, std::move(body), options_.defaults, options_.limits,
                         on_unknown(options_.unknown_fields));
    } catch (const LineError& error) {
      // The line gets its record when the run comes to it.
      ids_.take_failed(head);
      if (++result_.bad <= kNamedBad) result_.first_bad.push_back(named(line, error));
      if (result_.bad <= kRemembered) result_.bad_lines.push_back(line.number);
    }
    usual_ = head.envelope;
  }

  void take_id(const LineHead& head) {
    const uint64_t before = ids_.take(head).before;
    if (before == 0) return;
    if (options_.duplicate_ids == DuplicateIds::refuse) {
      fail(ExitCode::input_unusable,
           "{}, line {}: id \"{}\" is that of line {} too; ids must differ under --strict",
           input_.name(), head.number, *head.id, before);
    }
    throw LineError(code::duplicate_id, "the id is that of line " + std::to_string(before));
  }

  static std::string named(const Line& line, const LineError& error) {
    const std::string place = "line " + std::to_string(line.number);
    const std::string text = error.what();
    return text.starts_with(place) ? text : place + ": " + text;
  }

  files::InputFile& input_;
  const ScanOptions& options_;
  IdRegister ids_;
  Envelope usual_ = Envelope::plain;
  InputScan result_;
};

}  // namespace

InputScan scan_input(files::InputFile& input, const ScanOptions& options) {
  return Scan(input, options).run();
}

}  // namespace plimsoll::batch
