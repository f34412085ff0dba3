// What one text may cost, whatever a tokenizer's file asks for: time in regular expressions, growth
// in normalizers.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::text {

/// In force on this thread while it lives; Tokenizer makes one for each text.
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
  double regex_deadline_ =
      0;  // of this thread's processor time in seconds; 0 before the first look
  TextBudget* outer_;
};

}  // namespace plimsoll::text
