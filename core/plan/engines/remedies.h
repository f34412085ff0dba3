// Changes of a launch that the engines' tables name.
#pragma once

#include "engines/engine.h"

namespace plimsoll::plan {

/// Adds a remedy's words to a launch.
void add_words(const engines::Remedy& remedy, engines::Question& question);

}  // namespace plimsoll::plan
