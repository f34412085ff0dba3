// Processes ("lives") of one run without an engine: lines are answered in an order of their own,
// and the files are the real ones.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "batch/files/run_files.h"
#include "batch/scratch.h"
#include "files/identity.h"

namespace plimsoll::test {

struct Life {
  uint64_t lines = 20;
  unsigned order = 1;           // seed of the order of completion
  uint64_t stop_after = 1'000;  // new records
  size_t record_bytes = 60;
  bool errors_apart = false;
  batch::RunFilesOptions options = {};
  /// The record of a line and whether it failed; empty: life_record().
  std::function<std::string(uint64_t slot, bool& failed)> record = {};
};

/// Lines of 20: line 4 is no JSON, line 7 has an id that is taken, others have ids or none.
inline std::string life_input(uint64_t lines) {
  std::string text;
  for (uint64_t i = 1; i <= lines; ++i) {
    if (i % 20 == 4) {
      text += "{broken\n";
    } else if (i % 20 == 7) {
      text += "{\"id\":\"a1\",\"prompt\":\"x\"}\n\n";
    } else {
      text += i % 2 == 1 ? "{\"id\":\"a" + std::to_string(i) + "\",\"prompt\":\"x\"}\n" : "\"x\"\n";
    }
  }
  return text;
}

/// The record that line `number` (1-based, among lines that are not blank) gets in every life.
inline std::string life_record(uint64_t slot, bool& failed, size_t bytes) {
  const uint64_t ordinal = slot + 1;
  const uint64_t blanks = slot / 20 + (slot % 20 >= 7 ? 1 : 0);
  const std::string line = std::to_string(ordinal + blanks);
  failed = ordinal % 20 == 4 || ordinal % 20 == 7;
  if (failed) {
    const bool taken = ordinal % 20 == 7;
    return "{\"id\":\"" + (taken ? "a1" : line) +
           "\",\"choices\":[],\"usage\":null,\"error\":{\"code\":\"" +
           (taken ? "duplicate_id" : "bad_json") + "\",\"message\":\"m\",\"line\":" + line + "}}\n";
  }
  std::string record = "{\"id\":\"" + (ordinal % 2 == 1 ? "a" + std::to_string(ordinal) : line) +
                       "\",\"choices\":[\"";
  record.append(bytes > record.size() ? bytes - record.size() : 0, 'y');
  return record + "\"],\"error\":null}\n";
}

inline std::string life_expected(uint64_t lines, size_t bytes, bool answers, bool failures) {
  std::string text;
  for (uint64_t slot = 0; slot < lines; ++slot) {
    bool failed = false;
    const std::string record = life_record(slot, failed, bytes);
    if (failed ? failures : answers) text += record;
  }
  return text;
}

/// Runs one life; returns whether the run was (or had been) complete. Throws what the files throw.
inline bool live(const Scratch& scratch, Life life) {
  batch::RunFilesOptions& options = life.options;
  options.output = scratch.path("out");
  if (life.errors_apart) options.errors = scratch.path("bad");
  files::InputFile input = files::InputFile::open(scratch.path("in"));
  if (options.job.empty()) {
    options.job = {{"input", {{"xxh3", files::digest_of(input)}}},
                   {"max_line_bytes", 1 << 20},
                   {"lines", {{"first", 0}, {"count", UINT64_MAX}}},
                   {"seed", 1}};
  }
  options.notes = {{"inputs", {scratch.path("in")}}, {"errors", options.errors}};
  options.resume.max_line_bytes = 1 << 20;
  batch::RunFiles files(options, &input);
  if (files.finished()) return true;
  std::vector<uint64_t> slots(life.lines);
  std::iota(slots.begin(), slots.end(), 0u);
  std::shuffle(slots.begin(), slots.end(), std::mt19937(life.order));
  uint64_t ok = files.done().ok;
  uint64_t bad = files.done().failed;
  uint64_t left = life.stop_after;
  for (const uint64_t slot : slots) {
    if (files.done().at(slot) != batch::DoneLines::State::open) continue;
    if (left-- == 0) {
      files.keep();
      return false;
    }
    bool failed = false;
    const std::string record =
        life.record ? life.record(slot, failed) : life_record(slot, failed, life.record_bytes);
    files.output().put(slot, failed && files.errors() ? "" : record);
    if (files.errors()) files.errors()->put(slot, failed ? record : "");
    ++(failed ? bad : ok);
  }
  if (ok + bad != life.lines || files.records() != life.lines) throw std::logic_error("audit");
  files.publish(ok, bad, 0);
  return true;
}

}  // namespace plimsoll::test
