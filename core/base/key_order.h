// The order of keys, which Json forgets, for the few objects in which the first matching key
// counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plimsoll {

/// Stores the order of keys of a config's lists of rules (GPTQ's `dynamic`, AutoRound's
/// `extra_config`, Quark's `layer_quant_config`) beside them. `config` is the parsed `text`.
void keep_key_order(std::string_view text, Json& config);

/// The keys of the object `parent[key]` in the stored order, else in the order of their names; none
/// where it is no object.
std::vector<std::string> keys_in_order(const Json& parent, const std::string& key);

}  // namespace plimsoll
