#include "cli/run/prompt_setup.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/find_model.h"
#include "checkpoint/gguf/tokenizer.h"
#include "cli/run/launch.h"
#include "text/chat_template.h"

namespace plimsoll::cli {
namespace {

/// The templates of chats, one after the other; those for tools first.
std::string template_texts(const batch::ChatOptions& chat) {
  if (chat.chat_template) return *chat.chat_template;
  std::string texts;
  for (const char* name : {"tool_use", "default"}) {
    const auto found = chat.templates.find(name);
    if (found != chat.templates.end()) texts += found->second;
  }
  return texts;
}

text::AnswerFormats answer_formats(const RunOptions& options, const batch::ChatOptions& chat) {
  const std::string source = template_texts(chat);
  return {options.tool_call_parser == "auto" ? text::tool_format_of_template(source)
                                             : text::find_tool_format(options.tool_call_parser),
          options.reasoning_parser == "auto"
              ? text::reasoning_format_of_template(source)
              : text::find_reasoning_format(options.reasoning_parser)};
}

/// The tokenizer and the templates in a GGUF file's metadata.
void read_gguf_texts(const std::filesystem::path& file, PromptSetup& setup) {
  const auto model = checkpoint::gguf::Model::open(file);
  setup.tokenizer = text::Tokenizer::parse(checkpoint::gguf::tokenizer_json(model), file.string());
  setup.chat.templates = checkpoint::gguf::chat_templates(model);
  setup.chat.special_tokens = checkpoint::gguf::special_tokens(model);
}

void read_texts(const RunOptions& options, const std::filesystem::path& folder,
                PromptSetup& setup) {
  setup.chat.chat_template = options.chat_template;
  if (checkpoint::gguf::is_gguf_path(folder)) return read_gguf_texts(folder, setup);
  try {
    setup.tokenizer = text::Tokenizer::load(folder);
  } catch (const Error& error) {
    fail(error.code(), "{} (--tokenizer DIR names another, --skip-tokenizer-init does without)",
         error.what());
  }
  setup.chat.templates = text::folder_templates(folder);
  setup.chat.special_tokens = text::special_token_texts(folder);
}

model::GenerationConfig read_generation(const RunOptions& options,
                                        const std::filesystem::path& folder, const Json& config) {
  const std::string& named = options.generation_config;
  const bool own = named == "auto" || named == "vllm";
  model::GenerationConfig generation =
      model::read_generation_config(own ? folder : std::filesystem::path(named), config);
  if (named != "vllm") return generation;
  // No sampling values; where a sequence ends is no matter of sampling.
  model::GenerationConfig ends_alone;
  ends_alone.eos_token_ids = std::move(generation.eos_token_ids);
  return ends_alone;
}

}  // namespace

PromptSetup read_prompt_setup(const RunOptions& options, const Environment& environment,
                              const std::filesystem::path& folder, const Json& config) {
  PromptSetup setup;
  setup.generation = read_generation(options, folder, config);
  setup.chat.now = template_time(environment);
  if (options.skip_tokenizer_init) {
    if (options.reasoning_parser == "none") return setup;
    fail(ExitCode::usage,
         "--reasoning-parser: reads text, and --skip-tokenizer-init leaves it out");
  }
  const bool own = options.tokenizer.empty();
  read_texts(options, own ? folder : checkpoint::find_model(options.tokenizer, environment.stores),
             setup);
  setup.formats = answer_formats(options, setup.chat);
  if (text::is_suffixed(setup.formats)) {
    setup.suffixed =
        std::make_shared<text::SuffixedFormats>(setup.formats, text::tag_suffix(*setup.tokenizer));
    setup.formats = setup.suffixed->formats();
  }
  return setup;
}

void make_grammars(PromptSetup& setup, int64_t vocabulary, int threads) {
  if (!setup.tokenizer) return;
  setup.grammars = std::make_shared<grammar::Compiler>(
      *setup.tokenizer, grammar::CompilerOptions{.vocab_size = vocabulary, .threads = threads});
}

batch::PromptOptions prompt_options(const RunOptions& options, const PromptSetup& setup,
                                    int64_t context, std::shared_ptr<batch::ImageLoader> images) {
  batch::PromptOptions prompts;
  prompts.tokenizer = setup.tokenizer ? &*setup.tokenizer : nullptr;
  prompts.max_model_len = context;
  prompts.max_tokens_cap = max_tokens_cap(options, setup.generation);
  prompts.long_prompt = options.long_prompt;
  prompts.split_overlap = options.split_overlap;
  prompts.images = std::move(images);
  prompts.grammars = setup.grammars;
  prompts.formats = setup.formats;
  return prompts;
}

batch::SurveyOptions survey_options(const RunOptions& options, const PromptSetup& setup,
                                    int64_t context, int64_t vocabulary,
                                    std::shared_ptr<batch::ImageLoader> images) {
  batch::SurveyOptions survey;
  survey.prompts = prompt_options(options, setup, context, std::move(images));
  survey.prompts.pixels = batch::PromptOptions::Pixels::counted;
  survey.chat = setup.chat;
  survey.defaults = default_fields(options, setup.generation);
  survey.limits = {.vocab_size = vocabulary, .max_logprobs = options.max_logprobs};
  survey.unknown_fields = options.unknown_fields;
  survey.max_line_bytes = options.max_line_bytes;
  return survey;
}

}  // namespace plimsoll::cli
