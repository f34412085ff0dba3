// The fields of a request that offer tools and say whether they must be called.
#pragma once

#include "base/json.h"
#include "batch/fields/request_fields.h"

namespace plimsoll::batch {

/// Checks tools and tool_choice of a body. A call that is forced becomes the answer's form: the
/// parameters of the named function, or an array of {"name": ..., "parameters": ...} of any of
/// them. `has_form`: the body says itself what form the answer has. Throws LineError(bad_field).
void read_tools(const OrderedJson& body, RequestFields& fields, bool has_form);

/// Reads the field tool_choice. Throws LineError(bad_field).
void set_tool_choice(const FieldValue& value, RequestFields& fields);

}  // namespace plimsoll::batch
