// Which ids of an input are taken, in few bytes a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch/digest.h"
#include "batch/request_line.h"

namespace plimsoll::batch {

/// Given ids take a slot of a digest table; ids that are only the line's number take a bit.
class IdRegister {
 public:
  /// Takes the line's id. Returns the line (1-based) that has it already, or 0.
  uint64_t take(const LineHead& head);
  /// Takes the id that a failed line gives, since it stands in the output. A line whose id could
  /// not be read takes none: its line number stays free for later lines.
  void take_failed(const LineHead& head) {
    if (!head.id_is_line_number) (void)take(head);
  }

 private:
  [[nodiscard]] bool is_numbered(uint64_t line) const {
    return line < numbered_.size() && numbered_[line];
  }

  DigestTable given_;
  std::vector<bool> numbered_;  // by line: its number is its id
};

}  // namespace plimsoll::batch
