// Where output lines go: a file that appears when whole, or a stream in input order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "files/output_file.h"

namespace plimsoll::batch {

/// Lines come by slot: 0, 1, 2 ... in input order, each once, in any order of time.
class Output {
 public:
  virtual ~Output() = default;
  /// The line of a slot with its line end; empty: nothing for this slot here.
  virtual void put(uint64_t slot, std::string line) = 0;
  /// Bytes held back in memory until earlier slots come.
  [[nodiscard]] virtual size_t held_back() const { return 0; }
  /// Every slot has come: the output gets its name.
  virtual void publish() = 0;
  /// Stopping early: what has come is kept safe.
  virtual void keep() = 0;
  /// Where the finished lines of an early stop are, for the message.
  [[nodiscard]] virtual const std::string& kept_at() const = 0;
};

/// Opens the output before the long work: PATH.part under a lock, renamed to PATH in the end; "-",
/// pipes and devices are written in input order as lines come. Throws Error: foreign_output when
/// PATH or PATH.part is there and `existing` is refuse, locked, output_unwritable.
std::unique_ptr<Output> open_output(const std::string& path, files::Existing existing);

}  // namespace plimsoll::batch
