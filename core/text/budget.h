// The budget of one text, whatever a tokenizer's file asks for: time in regular expressions, growth
// in normalizers.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::text {

/// The budget of a text, in force on this thread while the object lives; Tokenizer makes one for
/// each text.
class TextBudget {
 public:
  explicit TextBudget(size_t text_bytes);
  TextBudget(const TextBudget&) = delete;
  TextBudget& operator=(const TextBudget&) = delete;
  ~TextBudget();

  /// Throws TextError when a text has grown beyond what any writing system needs.
  static void check_size(size_t bytes);
  /// Throws TextError when regular expressions have run too long since the budget
  /// began.
  static void check_regex_time(std::string_view pattern);

 private:
  size_t text_bytes_;
  /// Deadline in seconds of this thread's processor time; 0 before the first check.
  double regex_deadline_ = 0;
  TextBudget* outer_;
};

}  // namespace plimsoll::text
