// Marks that keep special-token text in the contents of a conversation from becoming control
// tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace plimsoll::text {

/// A rendered conversation, and the ranges of it that are content: plain text, whatever it looks
/// like.
struct MarkedText {
  std::string text;
  std::vector<PlainSpan> plain;  // for Tokenizer::encode
};

/// Puts characters around special-token text before a template is rendered and takes them out
/// afterwards. Templates move, join and trim content; what they compare or count of it is changed
/// only where it holds such text.
class ContentMarks {
 public:
  /// Takes two of Unicode's noncharacters that the conversation does not use. Throws TextError when
  /// it uses them all.
  explicit ContentMarks(const OrderedJson& messages);

  /// Marks the content (text, or the texts of its parts) of messages of users and tools. Returns
  /// the number of special texts in it.
  size_t mark(const Tokenizer& tokenizer, OrderedJson& messages) const;
  [[nodiscard]] MarkedText take_out(std::string_view rendered) const;

 private:
  size_t mark_text(const Tokenizer& tokenizer, OrderedJson& text) const;

  std::string open_;
  std::string close_;
};

}  // namespace plimsoll::text
