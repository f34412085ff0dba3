#include "batch/finished_line.h"

#include "batch/fields/structured_fields.h"
#include "batch/line_error.h"

namespace plimsoll::batch {

void read_parts(const text::AnswerFormats& formats, const grammar::CompiledGrammar* grammar,
                FinishedLine& line) {
  for (const engine::RequestOutput& output : line.outputs) {
    if (output.failure) throw LineError(output.failure->code, output.failure->message);
  }
  line.answers = read_answers(line.head, line.fields, formats, line.prompts, line.outputs);
  for (size_t i = 0; grammar != nullptr && i < line.outputs.size(); ++i) {
    check_answers(*grammar, line.fields, line.outputs[i],
                  line.answers.empty() ? std::vector<text::ToolAnswer>() : line.answers[i]);
  }
  take_calls(line.fields, line.answers);
}

}  // namespace plimsoll::batch
