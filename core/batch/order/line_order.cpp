#include "batch/order/line_order.h"

#include <utility>

#include "base/error.h"
#include "batch/digest.h"

namespace plimsoll::batch {

void LineIndex::add(const SurveyedLine& line, bool is_done) {
  order.texts.push_back(line.text);
  if (is_done) return;
  order.lines.push_back({line.place, line.same_id, line.usual});
  prompts.add_line(line.request);
}

void LineIndex::arrange(std::span<const uint32_t> numbers) {
  std::vector<OrderedLine> lines;
  lines.reserve(numbers.size());
  for (const uint32_t number : numbers) lines.push_back(order.lines[number]);
  order.lines = std::move(lines);
}

LineReader::Got OrderedReader::next(Line& line, Envelope& usual) {
  if (at_end()) return LineReader::Got::end;
  const OrderedLine& wanted = order_.lines[next_++];
  line = read_again(input_, wanted.place);
  if (digest(line.text).low != order_.texts[line.ordinal - slice_.first]) {
    fail(ExitCode::input_unusable, "{}, line {}: was changed while the run read it", input_.name(),
         line.number);
  }
  usual = wanted.usual;
  return LineReader::Got::line;
}

}  // namespace plimsoll::batch
