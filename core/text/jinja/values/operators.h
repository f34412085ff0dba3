// Python's operators, conversions and iteration on template values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {

class Runtime;

enum class Op : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  negate,
  plus,
};

bool truthy(const Value& value);
bool equals(Runtime& runtime, const Value& left, const Value& right);
/// Any comparison or membership operator. Throws Failure where Python raises TypeError.
bool compare(Runtime& runtime, Op op, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);
Value binary(Runtime& runtime, Op op, const Value& left, const Value& right);
Value unary(Runtime& runtime, Op op, const Value& operand);
/// Sort order: Python's `left < right`.
bool less(Runtime& runtime, const Value& left, const Value& right);

/// Python's str(); `repr` with quotes.
std::string str(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value, int depth = 0);
void append_repr(Runtime& runtime, std::string& out, const Value& value, int depth);
std::string quote(std::string_view text);
std::string int_to_string(Int value);
/// The shortest text that reads back, as Python prints it.
std::string float_to_string(double value);
/// Python's int() and float() of texts; std::nullopt where they raise ValueError.
std::optional<Int> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);
/// Python's int(float). Throws Failure for infinities and what does not fit.
Int float_to_int(double value);

/// len(), or std::nullopt where Python raises TypeError.
std::optional<size_t> length_of(const Value& value);
size_t require_length(Runtime& runtime, const Value& value);
/// obj[key] without attributes; std::nullopt where Python raises TypeError or LookupError.
std::optional<Value> subscript(Runtime& runtime, const Value& object, const Value& key);
/// obj[start:stop:step]; missing parts are none.
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step);
Value range_item(const Range& range, Int index);
/// The value as an index: ints and booleans.
std::optional<Int> as_index(const Value& value);

/// Goes once through an iterable.
class Cursor {
 public:
  /// Throws Failure when Python's iter() would.
  Cursor(Runtime& runtime, Value source);
  bool next(Value& item);
  static bool iterable(const Value& value);

 private:
  Runtime& runtime_;
  Value source_;
  size_t at_ = 0;
};

/// list(value)
std::vector<Value> to_list(Runtime& runtime, const Value& value);

}  // namespace plimsoll::text::jinja
