#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "fuzz/targets.h"
#include "grammar/grammar.h"

namespace plimsoll::fuzz {

void regex(std::string_view bytes) {
  try {
    if (grammar::ebnf_of_regex(bytes).empty()) throw std::logic_error("a grammar without rules");
  } catch (const Error&) {
  }
}

// The first line is the schema, the rest an answer.
void schema(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  try {
    const grammar::JsonSchema schema(bytes.substr(0, end));
    (void)schema.refuse(bytes.substr(std::min(end + 1, bytes.size())));
    if (schema.ebnf({}).empty()) throw std::logic_error("a grammar without rules");
  } catch (const Error&) {
  }
}

}  // namespace plimsoll::fuzz
