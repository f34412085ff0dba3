#include "cli/run/prompts_check.h"

#include <fmt/format.h>

#include "batch/prompt_survey.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

// Tokenized in well under a second.
constexpr uint64_t kLookedAt = uint64_t{1} << 20;

batch::SurveyOptions survey_options(const RunOptions& options, const Environment& environment,
                                    const Launch& launch, const ScannedInput& scanned) {
  const int64_t asked = options.launch.args.max_model_len;
  batch::SurveyOptions survey;
  survey.prompts = {.tokenizer = launch.tokenizer ? &*launch.tokenizer : nullptr,
                    .max_model_len = asked > 0 ? asked : launch.spec.max_position,
                    .max_tokens_cap = max_tokens_cap(options, launch.generation),
                    .long_prompt = options.long_prompt,
                    .split_overlap = options.split_overlap,
                    .pictures = std::make_shared<batch::PictureLoader>(launch.pictures),
                    .pixels = batch::PromptOptions::Pixels::counted};
  survey.chat = launch.chat;
  survey.chat.now = template_time(environment);
  survey.defaults = default_fields(options, launch.generation);
  survey.limits = {.vocab_size = launch.spec.vocab_size, .max_logprobs = options.max_logprobs};
  survey.unknown_fields = options.unknown_fields;
  survey.max_line_bytes = options.max_line_bytes;
  survey.slice = scanned.slice;
  survey.most_bytes = kLookedAt;
  return survey;
}

}  // namespace

void tell_unsuitable_prompts(const RunOptions& options, const Environment& environment,
                             const Launch& launch, files::InputFile& input,
                             const ScannedInput& scanned) {
  if (options.quiet || !scanned.lines) return;
  const batch::SurveyOptions wanted = survey_options(options, environment, launch, scanned);
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
  if (found.bad_lines > static_cast<int64_t>(scanned.bad)) {
    say(fmt::format("{} of the first {} lines do not suit the model (line {} first: {})",
                    found.bad_lines, found.lines, found.first_bad_line, found.first_bad_reason));
  }
}

}  // namespace plimsoll::cli
