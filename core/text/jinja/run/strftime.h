// strftime_now
#pragma once

#include <ctime>
#include <string>

namespace plimsoll::text::jinja {

/// datetime.strftime of a time without zone. Throws Failure for widths past three digits.
std::string format_time(const std::string& format, std::tm now);

}  // namespace plimsoll::text::jinja
