// Values of a call's elements as JSON, by the schemas of the request's tools.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace plimsoll::text {

/// The schema of a function's parameters; null: the request has none.
const OrderedJson* function_schema(const OrderedJson& tools, std::string_view function);
/// The schema of one of them; null: the request has none.
const OrderedJson* parameter_schema(const OrderedJson& tools, std::string_view function,
                                    std::string_view parameter);

/// A type by its schema, as vLLM reads it: the first that is not null.
struct ValueType {
  std::string name;  // lower case; empty: the schema names none
  bool nullable = false;
};
/// The type that a schema names; `schema` may be null or of any kind.
ValueType type_of(const OrderedJson* schema);

/// A value as JSON. A value that is not of its type stays a string; one of no named type is one
/// too, unless it `guesses`: then it is JSON or Python where it can be.
std::string json_of_value(std::string_view value, const ValueType& type, bool guesses);

}  // namespace plimsoll::text
