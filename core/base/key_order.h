// The order of keys that a Json forgets, of the few objects in which the first key that fits
// counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plimsoll {

/// Puts the order of keys of a config's lists of rules (GPTQ's `dynamic`, AutoRound's
/// `extra_config`, Quark's `layer_quant_config`) beside them. `config` is what the text says.
void keep_key_order(std::string_view text, Json& config);

/// The keys of the object `parent[key]` in the order that was kept, else in that of their names;
/// none where it is no object.
std::vector<std::string> keys_in_order(const Json& parent, const std::string& key);

}  // namespace plimsoll
