// Python's json.dumps, as the tojson filter calls it.
#pragma once

#include <string>

#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

Value to_json(Runtime& runtime, const Value& subject, const Args& args);

}  // namespace plimsoll::text::jinja
