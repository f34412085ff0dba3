// PCRE2 for the few filters that Python writes with regular expressions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll::text::jinja {

class Regex {
 public:
  /// `pattern` is ours and must compile. UTF-8, Unicode classes.
  explicit Regex(const char* pattern, bool ignore_case = false);
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex();
  /// Begin and end of the first match at or behind `from`.
  [[nodiscard]] std::optional<std::pair<size_t, size_t>> find(std::string_view text,
                                                              size_t from = 0) const;

 private:
  void* code_;
};

}  // namespace plimsoll::text::jinja
