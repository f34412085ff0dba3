// Paragraphs for a terminal.
#pragma once

#include <string>

namespace plimsoll {

/// Breaks a paragraph at its spaces into lines of at most `columns`, each after `indent` spaces and
/// with a line end; a word that is longer stays whole.
std::string wrapped_text(const std::string& text, int columns, int indent);

/// Breaks a paragraph as wrapped_text does, after a word: the first line begins with `head` in
/// place of its indent. A head that leaves no space before the text gets a line of its own.
std::string wrapped_after(const std::string& head, const std::string& text, int columns,
                          int indent);

}  // namespace plimsoll
