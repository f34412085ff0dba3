// The record beside an output, PATH.run.json: what the run is, so that the same command goes on
// and another one does not; and how far its files are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

namespace plimsoll::batch {

enum class RunState : uint8_t {
  running,     // PATH.part grows
  publishing,  // PATH is about to appear
  complete,    // PATH holds every line
  partial,     // PATH holds what was there when its publication was asked for
};

struct Manifest {
  /// What decides whether two runs are the same one; texts, numbers and objects of them.
  OrderedJson job = OrderedJson::object();
  /// What may differ between lives of one run, and where its input was.
  OrderedJson notes = OrderedJson::object();
  RunState state = RunState::running;
  bool replaces = false;      // --overwrite: a PATH that is there already goes
  uint64_t output_inode = 0;  // of PATH, when publishing
  uint64_t errors_inode = 0;  // of the --errors file, when publishing
  uint64_t ok = 0;            // lines, from publishing on
  uint64_t failed = 0;
  uint64_t missing = 0;  // none: complete, else partial
};

std::string manifest_path(const std::string& output);
/// None when there is no file. Throws Error(foreign_output) for a file that is no such record.
std::optional<Manifest> read_manifest(const std::string& path);
/// Whole or not at all. Throws Error(output_unwritable).
void write_manifest(const std::string& path, const Manifest& manifest);

/// The first key that differs, with both values: "seed: 1 then, 2 now"; empty when all are equal.
std::string difference(const OrderedJson& then, const OrderedJson& now);

}  // namespace plimsoll::batch
