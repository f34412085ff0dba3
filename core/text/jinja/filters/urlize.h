// The urlize filter: links around URLs and mail addresses.
#pragma once

#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

Value urlize(Runtime& runtime, const Value& subject, const Args& args);

}  // namespace plimsoll::text::jinja
