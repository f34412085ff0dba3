#include "text/jinja/run/strftime.h"

#include <string_view>

#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {
namespace {

// One directive such as %d or glibc's %-d, through the C library.
std::string directive(std::string_view text, const std::tm& now) {
  switch (text.back()) {
    case 'f':
      return "000000";
    case 'z':
    case 'Z':
      return {};
    case '%':
      return "%";
    default:
      break;
  }
  char buffer[1100];
  const size_t size = std::strftime(buffer, sizeof(buffer), std::string(text).c_str(), &now);
  return {buffer, size};
}

}  // namespace

std::string format_time(const std::string& format, std::tm now) {
  timegm(&now);  // fills in the weekday and the day of the year
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const size_t letter = format.find_first_not_of("-_0^#123456789EO", at + 1);
    if (letter == std::string::npos) {
      out.append(format, at);
      break;
    }
    if (letter - at > 5) raise("the width of a time format is too large");
    out += directive(std::string_view(format).substr(at, letter - at + 1), now);
    at = letter;
  }
  return out;
}

}  // namespace plimsoll::text::jinja
