// The fields of a request that say of what form its answer is.
#pragma once

#include <memory>
#include <vector>

#include "base/json.h"
#include "batch/fields/request_fields.h"
#include "grammar/compiler.h"
#include "text/answer/tool_calls.h"

namespace plimsoll::batch {

/// Reads response_format, structured_outputs and the older guided_* of a body into
/// fields.constraint, which stays as it is where none of them is given. Returns true where the body
/// asks for a form of the answer. Throws LineError(bad_field).
bool read_constraint(const OrderedJson& body, RequestFields& fields);

/// True where JSON is the value of structured_outputs, not a schema: it has one of its keys.
bool is_structured_outputs(const OrderedJson& json);

/// The constraint's grammar. Throws LineError(bad_field) for one that cannot be compiled.
std::shared_ptr<const grammar::CompiledGrammar> compile_constraint(
    grammar::Compiler& compiler, const grammar::Constraint& constraint);

/// Checks answers that ended by themselves: that there is one behind the reasoning, and by its
/// schema; `read`: their parts, whose contents are checked, or none. Throws
/// LineError(invalid_answer). Not checked are texts that were cut at a stop string, or have one
/// (include_stop_str_in_output).
void check_answers(const grammar::CompiledGrammar& grammar, const RequestFields& fields,
                   const engine::RequestOutput& output,
                   const std::vector<text::ToolAnswer>& read = {});

}  // namespace plimsoll::batch
