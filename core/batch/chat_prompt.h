// Conversations to text: messages as the reference sees them, template, generation prompt.
#pragma once

#include <ctime>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "batch/fields/request_fields.h"
#include "text/chat_template.h"

namespace plimsoll::batch {

/// Templates of a run and their constants.
struct ChatOptions {
  std::map<std::string, std::string> templates;  // the model's, by name
  std::optional<std::string> chat_template;      // --chat-template: source
  std::map<std::string, std::string> special_tokens;
  std::optional<std::tm> now;  // for strftime_now, the same for every line of a run
  /// Placeholders of images and videos in templates that take text alone.
  std::string image_placeholder, video_placeholder;
};

/// Throws Error(usage) when the source is not a template.
void check_template(const std::string& source);

class ChatRenderer {
 public:
  explicit ChatRenderer(ChatOptions options) : options_(std::move(options)) {}

  /// The text of the conversation as the chosen template has it. Throws
  /// LineError(template_error), and LineError(bad_field) for content that is not text.
  std::string render(OrderedJson messages, const RequestFields& fields);

 private:
  struct Compiled {
    std::string source;
    text::ChatTemplate compiled;
    bool takes_parts;  // reads message content as a list of parts
  };
  const Compiled& choose(const RequestFields& fields);
  const Compiled& compile(const std::string& source);

  ChatOptions options_;
  std::list<Compiled> cache_;  // most recently used first
};

}  // namespace plimsoll::batch
