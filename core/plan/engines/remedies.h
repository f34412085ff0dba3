// Changes of a launch that the engines' tables name.
#pragma once

#include "engines/engine.h"

namespace plimsoll::plan {

/// The launch with a remedy's words.
engines::Question with_words(engines::Question question, std::string_view words);

}  // namespace plimsoll::plan
