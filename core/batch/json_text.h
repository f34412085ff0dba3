// JSON written straight to text: keys in the order given, numbers in the shortest form that reads
// back the same, always valid UTF-8, whatever the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::batch {

class JsonText {
 public:
  JsonText& begin_object() { return open('{'); }
  JsonText& end_object() { return close('}'); }
  JsonText& begin_array() { return open('['); }
  JsonText& end_array() { return close(']'); }
  /// The next value's key, within an object.
  JsonText& key(std::string_view name);
  JsonText& string(std::string_view text);
  JsonText& integer(int64_t value);
  JsonText& unsigned_integer(uint64_t value);
  /// Writes a number; NaN and infinities become null.
  JsonText& number(float value);
  JsonText& number(double value);
  JsonText& boolean(bool value);
  JsonText& null();

  [[nodiscard]] const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool comma_ = false;  // a value stands before this place
};

}  // namespace plimsoll::batch
