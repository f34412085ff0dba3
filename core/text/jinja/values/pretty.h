// Python's pprint.pformat at 80 columns.
#pragma once

#include <string>

#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

std::string pretty(Runtime& runtime, const Value& value);

}  // namespace plimsoll::text::jinja
