// What a run counts: its lines by their outcome, their tokens, and what their answers held.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "batch/finished_line.h"

namespace plimsoll::batch {

/// Calls of tools in answers.
struct ToolCounts {
  uint64_t lines = 0;       // in whose answers calls were looked for, or forced
  uint64_t calls = 0;       // that were read
  uint64_t untried = 0;     // lines with tools in whose answers no calls are known
  uint64_t unread = 0;      // answers with a call that could not be read, and stayed text
  uint64_t unread_cut = 0;  // of `unread`: cut at max_tokens, or at the context's end

  /// `reads_calls`: a format of calls is known.
  void add(const FinishedLine& line, bool reads_calls);
};

/// Lines that ask for a form of their answers (a schema, a grammar, a call).
struct StructuredCounts {
  uint64_t lines = 0;
  uint64_t refused = 0;  // lines whose form has no grammar
  uint64_t answers = 0;  // that followed a grammar, whole or cut
  uint64_t cut = 0;      // of `answers`: at max_tokens, or at the context's end
};

enum class Ending : uint8_t { complete, stopped, time_limit, stalled };

/// Number of lines by their outcome, and of their tokens.
struct RunCounts {
  uint64_t lines = 0;             // read and within the slice
  std::optional<uint64_t> total;  // of the slice, where known
  uint64_t resumed = 0;  // lines of `ok` and `failed` that earlier processes of the run finished
  uint64_t ok = 0;
  uint64_t failed = 0;
  uint64_t abandoned = 0;  // read, not finished when the run was stopped
  std::map<std::string, uint64_t> failed_by_code;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t dropped_tokens = 0;                     // cut from long prompts
  std::map<std::string, uint64_t> unknown_fields;  // by name: lines that had it
  ToolCounts tools;                                // of the lines that this process answered
  StructuredCounts structured;                     // likewise
  Ending ending = Ending::complete;

  /// Counts an answered line's tokens, calls and forms; `reads_calls`: a format of calls is known.
  void add(const FinishedLine& line, bool reads_calls);
};

}  // namespace plimsoll::batch
