// Stand-ins for functions that need xgrammar. The fuzzers' readers of lines are linked with them
// and never call them.
#include <stdexcept>

#include "grammar/compiler.h"

namespace plimsoll::grammar {

std::string CompiledGrammar::refuse(std::string_view) const {
  throw std::logic_error("fuzzers compile no grammars");
}

bool CompiledGrammar::takes_empty_text() const {
  throw std::logic_error("fuzzers compile no grammars");
}

std::shared_ptr<const CompiledGrammar> Compiler::compile(const Constraint&) {
  throw std::logic_error("fuzzers compile no grammars");
}

}  // namespace plimsoll::grammar
