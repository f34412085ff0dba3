// Tokenizers as metadata of GGUF files.
#pragma once

#include <string>

#include "base/json.h"

namespace plimsoll::testing {

/// Pairs [key, type, value] of a tokenizer.json, by the rules of the golden results: `kind` "gpt2",
/// "llama" or "t5".
Json tokenizer_pairs(const Json& tokenizer, const std::string& kind, const std::string& pre);

}  // namespace plimsoll::testing
