// Which ids of an input are taken, in few bytes a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch/digest.h"
#include "batch/request_line.h"
#include "files/paged_array.h"

namespace plimsoll::batch {

/// Given ids take a slot of a digest table; ids that are only the line's number take a bit. Lines
/// come in the input's order, and may come once more in it.
class IdRegister {
 public:
  /// `folder`, `most_bytes`: see DigestTable.
  explicit IdRegister(const std::string& folder = {}, size_t most_bytes = DigestTable::kInMemory)
      : ids_(folder, most_bytes), takers_(folder) {}

  /// Notes the number (from 1) of the record that an id has, before a line takes the id. Returns
  /// the record that it has already, or 0.
  uint64_t add_record(const Digest& id, uint64_t record);

  struct Taken {
    uint64_t before = 0;  // the line (1-based) that has the id already, or 0
    uint64_t record = 0;  // the id's record, for the line that takes the id; 0: none
  };
  /// Takes the line's id, unless a line before it has it.
  Taken take(const LineHead& head);
  /// Takes the id that a failed line gives, since it stands in the output. A line whose id could
  /// not be read takes none: its line number stays free for later lines.
  void take_failed(const LineHead& head) {
    if (!head.id_is_line_number) (void)take(head);
  }

 private:
  [[nodiscard]] bool is_numbered(uint64_t line) const {
    return line < numbered_.size() && numbered_[line];
  }

  DigestTable ids_;                     // their lines, or their records
  files::PagedArray<uint64_t> takers_;  // by record: the line that has taken its id, or 0
  std::vector<bool> numbered_;          // by line: its number is its id
};

}  // namespace plimsoll::batch
