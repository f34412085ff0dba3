// A line whose every part is answered, and what is made of its answers before they are written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch/digest.h"
#include "batch/line_answers.h"
#include "batch/prompt_builder.h"
#include "batch/request_line.h"
#include "engine/request.h"

namespace plimsoll::batch {

struct FinishedLine {
  LineHead head;
  Digest identity;  // of the line's text
  RequestFields fields;
  std::string last_role;     // chat: role of the last message
  std::string last_content;  // chat with echo: the text that the answer continues
  std::vector<Prompt> prompts;
  std::vector<engine::RequestOutput> outputs;  // one per part of each prompt, in order
  LineAnswers answers = {};                    // the outputs' parts; none: texts stay as they are
  int64_t dropped_tokens = 0;
};

/// Reads the parts of a line's answers by the model's formats, and checks their contents by the
/// line's grammar (null: none). Throws LineError for a request that failed,
/// LineError(invalid_answer).
void read_parts(const text::AnswerFormats& formats, const grammar::CompiledGrammar* grammar,
                FinishedLine& line);

}  // namespace plimsoll::batch
