#include "batch/input_scan.h"

#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/request_line.h"

namespace plimsoll::batch {

Slice part_of(uint64_t lines, uint64_t index, uint64_t parts) {
  // The first `larger` parts have one line more. No products, so nothing can overflow.
  const uint64_t size = lines / parts;
  const uint64_t larger = lines % parts;
  return {index * size + std::min(index, larger), size + (index < larger ? 1 : 0)};
}

uint64_t count_lines(files::InputFile& input, size_t max_line_bytes) {
  LineReader reader(input, max_line_bytes);
  Line line;
  uint64_t count = 0;
  while (true) {
    const LineReader::Got got = reader.next(line, -1);
    if (got == LineReader::Got::end) return count;
    if (got == LineReader::Got::line) ++count;
  }
}

void refuse_duplicate_ids(files::InputFile& input, size_t max_line_bytes) {
  LineReader reader(input, max_line_bytes);
  IdRegister ids;
  Line line;
  Envelope usual = Envelope::plain;
  while (true) {
    const LineReader::Got got = reader.next(line, -1);
    if (got == LineReader::Got::end) return;
    if (got == LineReader::Got::nothing_yet) continue;
    LineHead head;
    try {
      read_envelope(line, usual, head);
    } catch (const LineError&) {
      // It gets its own record when the run comes to it.
    }
    usual = head.envelope;
    if (const uint64_t before = ids.take(head)) {
      fail(ExitCode::input_unusable,
           "{}, line {}: id \"{}\" is that of line {} too; ids must differ under --strict",
           input.name(), line.number, *head.id, before);
    }
  }
}

}  // namespace plimsoll::batch
