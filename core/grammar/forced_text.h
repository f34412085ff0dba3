// The whitespace of an answer, for the text that its grammar forces (Matcher::forced_text).
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::grammar {

/// How a JSON text sets its whitespace: reads the text as it is written, and tells what it put at
/// the place before. Where it has not been yet it goes by its outer brackets, indented further;
/// else a space stands behind commas and colons, and nothing elsewhere. Of another text it learns
/// what is of no use, and does no harm.
class WhitespaceHabit {
 public:
  /// Takes the next bytes of the text.
  void read(std::string_view bytes);
  /// The rest of the whitespace that is likely here before `next`, which is none itself.
  [[nodiscard]] std::string before(char next) const;

 private:
  /// A place for whitespace: behind an opening bracket, comma or colon, else before a byte.
  struct Place {
    char mark = 0;        // that byte; 0: whitespace is not expected there
    bool behind = false;  // behind it, or before
    int depth = 0;        // of brackets
    auto operator<=>(const Place&) const = default;
  };

  void read(char byte);
  [[nodiscard]] Place place_before(char next) const;
  /// What the places that are like one which is new let expect of it; none: nothing.
  [[nodiscard]] std::optional<std::string> like_others(const Place& place) const;

  std::map<Place, std::string> seen_;
  std::string run_;  // of whitespace, before the next byte
  char last_ = 0;    // byte before that
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte of the string
};

}  // namespace plimsoll::grammar
