// Chat templates: a Jinja interpreter that can reach nothing but the conversation, with budgets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"

namespace plimsoll::text {

struct TemplateBudget {
  uint64_t max_steps = 1'000'000;       // evaluated nodes and loop turns
  size_t max_depth = 64;                // macro calls and nested evaluation
  size_t max_output = size_t{4} << 20;  // bytes, also of each intermediate string
};

/// Variables that a template sees. Absent tools and documents are none in the template, as in
/// transformers; kwargs come first.
struct ChatInput {
  OrderedJson messages;                        // array of objects
  std::optional<OrderedJson> tools;            // array
  std::optional<OrderedJson> documents;        // array
  OrderedJson kwargs = OrderedJson::object();  // further variables
  bool add_generation_prompt = false;
  std::map<std::string, std::string> special_tokens;  // bos_token, eos_token, ...
  std::optional<std::tm> now;  // for strftime_now; the local clock when absent
};

/// The template refused the conversation (raise_exception), is malformed, or went over its budget.
/// Costs one line.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ChatTemplate {
 public:
  /// Throws TemplateError with line number on malformed source.
  static ChatTemplate parse(const std::string& source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Renders the text as jinja2 does with transformers' settings: trim_blocks, lstrip_blocks, loop
  /// controls, the generation block, tojson without HTML escapes. Thread-safe.
  [[nodiscard]] std::string render(const ChatInput& input, TemplateBudget budget = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The templates that a model folder offers: name ("default", "tool_use", "rag") to source.
/// chat_template.jinja, then additional_chat_templates/*.jinja, chat_template.json, then
/// tokenizer_config.json's `chat_template` (string or list of {name, template}), as transformers
/// reads them. Throws Error(checkpoint_unusable) for unreadable files.
std::map<std::string, std::string> folder_templates(const std::filesystem::path& folder);

/// Chooses a template as transformers does: the one named `wanted`; else "tool_use" when there are
/// tools; else "default". Throws Error(usage) naming the templates that there are.
const std::string& choose_template(const std::map<std::string, std::string>& templates,
                                   const std::string& wanted, bool has_tools);

}  // namespace plimsoll::text
