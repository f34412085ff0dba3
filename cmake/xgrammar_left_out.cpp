// Three compilers of xgrammar that plimsoll does not build, which are half of its source: JSON
// schemas (ours is core/grammar), Lark grammars and structural tags. The rest of xgrammar calls
// them from functions that plimsoll never calls.
#include <stdexcept>

#include "json_schema_converter.h"
#include "lark_converter.h"
#include "structural_tag.h"

namespace xgrammar {
namespace {

[[noreturn]] void refuse() {
  throw std::logic_error("this compiler of xgrammar is not built (cmake/xgrammar.cmake)");
}

}  // namespace

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>, bool,
                            std::optional<int>, bool, JSONFormat, std::vector<std::string>) {
  refuse();
}

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  refuse();
}

Result<Grammar, StructuralTagError> StructuralTagToGrammar(const std::string&,
                                                           const std::optional<TokenizerInfo>&) {
  refuse();
}

}  // namespace xgrammar
