// The parts of a compiled grammar that only this room's sources see.
#pragma once

#include <xgrammar/compiler.h>

#include <optional>

#include "grammar/compiler.h"

namespace plimsoll::grammar {

struct CompiledGrammar::Parts {
  xgrammar::CompiledGrammar compiled;
  std::optional<JsonSchema> schema;  // by which answers are validated
};

}  // namespace plimsoll::grammar
