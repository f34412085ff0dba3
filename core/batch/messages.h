// The messages of a chat, before a template sees them.
#pragma once

#include "base/json.h"
#include "batch/fields/request_fields.h"

namespace plimsoll::batch {

/// Checks roles, keys and contents. `unknown` is called for unknown keys and roles, because a
/// misspelt one would be answered as an empty message. Throws LineError(bad_field).
void check_messages(const OrderedJson& messages, const UnknownField& unknown);

}  // namespace plimsoll::batch
