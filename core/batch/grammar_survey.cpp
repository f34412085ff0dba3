#include "batch/grammar_survey.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "batch/fields/structured_fields.h"
#include "batch/line_error.h"
#include "batch/line_reader.h"
#include "batch/request_line.h"

namespace plimsoll::batch {
namespace {

bool may_have_grammar(std::string_view line) {
  constexpr std::array<std::string_view, 4> names = {"response_format", "structured_outputs",
                                                     "guided_", "tool_choice"};
  return std::ranges::any_of(
      names, [&](std::string_view name) { return line.find(name) != std::string_view::npos; });
}

/// The constraint of a line; none where the line has none, or cannot be read.
std::optional<grammar::Constraint> constraint_of(Line& line, const GrammarSurveyOptions& options) {
  LineHead head;
  try {
    const OrderedJson body = read_envelope(line, Envelope::plain, head);
    return read_fields(body, head.endpoint, head.envelope, options.defaults, options.limits,
                       [](std::string_view, std::string_view) {})
        .constraint;
  } catch (const LineError&) {
    return std::nullopt;  // the line gets its record when the run comes to it
  }
}

}  // namespace

GrammarSurvey survey_grammars(files::InputFile& input, const GrammarSurveyOptions& options,
                              grammar::Compiler& compiler) {
  GrammarSurvey survey;
  LineReader reader(input, options.max_line_bytes);
  Line line;
  while (true) {
    const LineReader::Got got = reader.next(line, -1);
    if (got == LineReader::Got::end) return survey;
    if (got == LineReader::Got::nothing_yet || line.too_long) continue;
    if (line.ordinal < options.slice.first || !may_have_grammar(line.text)) continue;
    const uint64_t slot = line.ordinal - options.slice.first;
    if (slot >= options.slice.count) return survey;
    if (options.done && options.done->at(slot) != DoneLines::State::open) continue;
    const auto constraint = constraint_of(line, options);
    if (!constraint) continue;
    ++survey.lines;
    try {
      (void)compile_constraint(compiler, *constraint);
    } catch (const LineError& error) {
      if (survey.refused_lines++ > 0) continue;
      survey.first_refused = line.number;
      survey.first_reason = error.what();
    }
  }
}

}  // namespace plimsoll::batch
