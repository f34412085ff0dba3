// Reading of a run's prompts, whether it is launched or only planned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/json.h"
#include "batch/chat_prompt.h"
#include "batch/images/image_loader.h"
#include "batch/prompt_survey.h"
#include "checkpoint/checkpoint.h"
#include "cli/environment.h"
#include "cli/run/options.h"
#include "grammar/compiler.h"
#include "model/config.h"
#include "text/answer/suffixed.h"
#include "text/tokenizer.h"

namespace plimsoll::cli {

/// Tokenizer, templates and defaults of a model's folder, or of the flags in its place
/// (--tokenizer, --chat-template, --generation-config).
struct PromptSetup {
  std::optional<text::Tokenizer> tokenizer;  // none with --skip-tokenizer-init
  batch::ChatOptions chat;
  text::AnswerFormats formats;  // of answers, by flags or the chat template
  std::shared_ptr<const text::SuffixedFormats> suffixed;  // holds `formats`; null: they are static
  model::GenerationConfig generation;
  std::shared_ptr<grammar::Compiler> grammars;  // null before make_grammars, or with no tokenizer
};

/// Reads the setup; `config` is the folder's config.json. Throws Error(checkpoint_unusable).
PromptSetup read_prompt_setup(const RunOptions& options, const Environment& environment,
                              const std::filesystem::path& folder, const Json& config);

/// Gives the setup its compiler of grammars, for a vocabulary of so many tokens. The setup stays
/// where it is from now on.
void make_grammars(PromptSetup& setup, int64_t vocabulary, int threads);

/// Options for turning prompts into tokens, in a context of `context` tokens. `setup` must outlive
/// the result.
batch::PromptOptions prompt_options(const RunOptions& options, const PromptSetup& setup,
                                    int64_t context, std::shared_ptr<batch::ImageLoader> images);

/// Options of a survey of prompts that finds what `run` would answer; slice and bounds are the
/// caller's. `setup` must outlive the result.
batch::SurveyOptions survey_options(const RunOptions& options, const PromptSetup& setup,
                                    int64_t context, int64_t vocabulary,
                                    std::shared_ptr<batch::ImageLoader> images);

}  // namespace plimsoll::cli
