// Error for one text that is at fault.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace plimsoll::text {

/// A text that cannot be encoded or decoded: it is no UTF-8, costs more than a text may, or needs a
/// token that the vocabulary lacks. Costs its line, not the run.
class TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void refuse_text(fmt::format_string<Args...> format, Args&&... args) {
  throw TextError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace plimsoll::text
