// Lines of an output, read back: whose they are, and whether they are answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "batch/digest.h"

namespace plimsoll::batch {

/// Id, line and error of an output line. Failures that name their line are known by it, because
/// their id may be missing or taken; everything else by its id.
struct Record {
  std::optional<std::string> id;
  std::optional<uint64_t> line;
  bool failed = false;
  std::string code;  // of a failure
};

/// Reads an output line (given without its line end); none when it is no whole record of ours.
std::optional<Record> read_record(std::string_view text);
/// Reads an output line that is known to have the bytes that a run wrote, many times as fast,
/// because answers are not looked into. None: it is not recognized at first sight, and
/// read_record() decides.
std::optional<Record> read_own_record(std::string_view text);

/// Key under which a record is found again: by line number, or by id.
Digest key_of_line(uint64_t line);
Digest key_of_id(std::string_view id);
Digest key_of(const Record& record);

}  // namespace plimsoll::batch
