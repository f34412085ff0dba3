#include "text/jinja/filters/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cassert>

namespace plimsoll::text::jinja {

Regex::Regex(const char* pattern, bool ignore_case) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | (ignore_case ? PCRE2_CASELESS : 0);
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, options,
                        &error, &offset, nullptr);
  assert(code_ != nullptr);
}

Regex::~Regex() {
  pcre2_code_free(static_cast<pcre2_code*>(code_));
}

std::optional<std::pair<size_t, size_t>> Regex::find(std::string_view text, size_t from) const {
  auto* match = pcre2_match_data_create_from_pattern(static_cast<pcre2_code*>(code_), nullptr);
  const int found =
      pcre2_match(static_cast<pcre2_code*>(code_), reinterpret_cast<PCRE2_SPTR>(text.data()),
                  text.size(), from, PCRE2_NO_UTF_CHECK, match, nullptr);
  std::optional<std::pair<size_t, size_t>> span;
  if (found >= 0) {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
    span.emplace(ends[0], ends[1]);
  }
  pcre2_match_data_free(match);
  return span;
}

}  // namespace plimsoll::text::jinja
