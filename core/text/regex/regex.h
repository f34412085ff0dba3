// Regular expressions as Oniguruma's Ruby syntax has them (what tokenizer.json is written for), run
// by PCRE2 with limits.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// A pattern that cannot be used; the message quotes it.
class RegexError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Translates a pattern to PCRE2's syntax. Throws RegexError for a construct without a counterpart
/// there.
std::string to_pcre2(std::string_view pattern);

class Regex {
 public:
  /// Throws RegexError.
  explicit Regex(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Calls `found(begin, end)` for each match, as Oniguruma's find_iter does: an empty match right
  /// after the last match is skipped. `text` is valid UTF-8. Throws TextError when a match costs
  /// more than the limits allow.
  template <typename Found>
  void for_each_match(std::string_view text, Found&& found) const {
    Search search(*this, text);
    size_t begin = 0;
    size_t end = 0;
    while (search.next(begin, end)) found(begin, end);
  }

 private:
  struct Code;
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    bool next(size_t& begin, size_t& end);

   private:
    bool match(size_t& begin, size_t& end);
    void spend();
    size_t after(size_t at) const;

    const Regex& regex_;
    std::string_view text_;
    size_t from_ = 0;
    size_t last_end_ = std::string_view::npos;
    unsigned calls_ = 0;
    /// Deadline in seconds of this thread's processor time; 0 before the first look at the clock.
    double deadline_ = 0;
  };

  std::unique_ptr<Code> code_;
};

}  // namespace plimsoll::text
