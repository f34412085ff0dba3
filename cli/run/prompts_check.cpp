#include "cli/run/prompts_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/counted.h"
#include "base/error.h"
#include "batch/grammar_survey.h"
#include "batch/prompt_survey.h"
#include "cli/run/order.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

// Tokenized in well under a second.
constexpr uint64_t kLookedAt = uint64_t{1} << 20;

}  // namespace

void tell_unsuitable_prompts(const RunOptions& options, const Launch& launch,
                             files::InputFile& input, const ScannedInput& scanned) {
  if (options.quiet || !scanned.lines) return;
  const int64_t asked = options.launch.args.max_model_len;
  batch::SurveyOptions wanted =
      run_survey(options, launch, asked > 0 ? asked : launch.resolved.spec.max_position, scanned);
  wanted.most_bytes = kLookedAt;
  wanted.prompts.grammars = nullptr;  // compile_grammars tells of those
  uint64_t unsuitable = 0;
  std::string first;
  wanted.each = [&](const batch::SurveyedLine& line) {
    if (line.fault.empty() || std::ranges::binary_search(scanned.bad_lines, line.place.number))
      return;
    if (unsuitable++ == 0) first = fmt::format("line {} first: {}", line.place.number, line.fault);
  };
  const batch::PromptSurvey found = batch::survey_prompts(input, wanted);
  input.rewind();
  if (found.over_context > 0) {
    const bool may_be_cut = options.long_prompt == batch::LongPrompt::error;
    say(
        fmt::format("{} of the first {} prompts are longer than the context of {} tokens (line {} "
                    "first, the longest {}); they fail{}",
                    found.over_context, found.lines, wanted.prompts.max_model_len,
                    found.first_over_context, found.longest_over_context,
                    may_be_cut ? ", unless --long-prompt says otherwise"
                               : ", because --long-prompt cannot shorten them"));
  }
  if (unsuitable > 0) {
    say(fmt::format("{}{} of the first {} cannot be answered by this launch ({})", unsuitable,
                    scanned.bad_lines.empty() ? "" : " more",
                    counted(static_cast<uint64_t>(found.lines), "line"), first));
  }
}

void compile_grammars(const RunOptions& options, const Launch& launch, files::InputFile& input,
                      const ScannedInput& scanned, const batch::DoneLines& done) {
  const auto& compiler = launch.prompts.grammars;
  if (!compiler) return;
  batch::GrammarSurveyOptions wanted{.defaults = default_fields(options, launch.prompts.generation),
                                     .limits = {.vocab_size = launch.resolved.spec.vocab_size,
                                                .max_logprobs = options.max_logprobs},
                                     .max_line_bytes = options.max_line_bytes,
                                     .slice = scanned.slice,
                                     .done = &done};
  if (wanted.defaults.constraint) {
    try {
      (void)compiler->compile(*wanted.defaults.constraint);
    } catch (const Error& error) {
      fail(ExitCode::usage, "--structured-outputs: {}", error.what());
    }
  }
  if (!scanned.lines) return;
  const batch::GrammarSurvey found = batch::survey_grammars(input, wanted, *compiler);
  input.rewind();
  if (options.quiet || found.refused_lines == 0) return;
  say(fmt::format("{} of {} with a schema or grammar cannot be answered (line {} first: {})",
                  found.refused_lines, counted(found.lines, "line"), found.first_refused,
                  found.first_reason));
}

}  // namespace plimsoll::cli
