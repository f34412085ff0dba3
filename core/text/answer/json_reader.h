// JSON within the text of an answer: where a value ends, and the value as Python's json.dumps
// spells it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/answer/text_reader.h"

namespace plimsoll::text {

/// A text as a JSON string, in quotes, other characters than ASCII as they are. Bytes that are not
/// UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

/// Reads JSON values (RFC 8259, at most 64 levels deep) out of a longer text.
class JsonReader : public TextReader {
 public:
  JsonReader(std::string_view text, size_t at) : TextReader(text, at, " \t\r\n") {}

  /// The next value, with ", " and ": " between its parts and numbers as they stand; none where no
  /// value comes, and then the reader may stand anywhere behind its old place.
  std::optional<std::string> value();
  /// The members of the next object: decoded keys, and values as value() gives them.
  using Members = std::vector<std::pair<std::string, std::string>>;
  std::optional<Members> object();
  /// The next string, decoded.
  std::optional<std::string> string();

 private:
  bool write_value(std::string& out, int depth);
  bool write_object(std::string& out, int depth);
  bool write_array(std::string& out, int depth);
  bool write_string(std::string& out);
  bool write_number(std::string& out);
  bool skip_digits();
  /// The next string with its quotes and escapes; empty where none comes.
  std::string_view quoted();
};

/// A text that is one JSON value, with blanks around it, as JsonReader::value() gives it.
std::optional<std::string> json_of(std::string_view text);

}  // namespace plimsoll::text
