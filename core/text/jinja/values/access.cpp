// Lengths, subscripts, slices and iteration.
#include <algorithm>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

std::string char_at(const String& text, size_t index) {
  const size_t begin = byte_offset(text, index);
  size_t end = begin;
  next_character(text.text, end);
  return text.text.substr(begin, end - begin);
}

Value view_item(const View& view, const std::pair<Value, Value>& entry) {
  switch (view.part) {
    case ViewOf::keys:
      return entry.first;
    case ViewOf::values:
      return entry.second;
    case ViewOf::items:
      break;
  }
  return Value::tuple({entry.first, entry.second});
}

// The elements start, start + step, ... of a sequence; count is never more than its length.
struct Picked {
  Int start, stop, step;
  Int count;
};

std::optional<Int> slice_part(const Value& value) {
  if (value.is_none() || value.is(Kind::missing)) return std::nullopt;
  if (const auto index = as_index(value)) return index;
  raise("slice indices must be integers or None or have an __index__ method");
}

Picked pick(Int length, const Value& start, const Value& stop, const Value& step) {
  const Int by = slice_part(step).value_or(1);
  if (by == 0) raise("slice step cannot be zero");
  const auto bound = [&](std::optional<Int> part, Int fallback) {
    if (!part) return fallback;
    Int at = *part;
    at = std::clamp<Int>(at, -length - 1, length);
    if (at < 0) at += length;
    return by > 0 ? std::clamp<Int>(at, 0, length) : std::clamp<Int>(at, -1, length - 1);
  };
  const Int from = bound(slice_part(start), by > 0 ? 0 : length - 1);
  const Int to = bound(slice_part(stop), by > 0 ? length : -1);
  const Int distance = by > 0 ? to - from : from - to;
  if (distance <= 0) return {from, to, by, 0};
  const Int stride = by > 0 ? by : (by < -length - 1 ? length + 1 : -by);
  return {from, to, by, (distance - 1) / stride + 1};
}

Value slice_string(Runtime& runtime, const Value& value, const Picked& picked) {
  const String& text = value.as_string();
  runtime.charge_scan(text.text.size());
  if (picked.count == 0) return Value::string_like(value, {});
  const auto first = static_cast<size_t>(picked.start);
  const auto count = static_cast<size_t>(picked.count);
  if (picked.step == 1) {
    const size_t begin = byte_offset(text, first);
    const size_t end = byte_offset(text, first + count);
    runtime.charge_copy(end - begin);
    return Value::string_like(value, text.text.substr(begin, end - begin));
  }
  runtime.charge_characters(text.text.size());
  std::vector<size_t> starts;  // byte offsets of the code points
  for (size_t at = 0; at < text.text.size(); next_character(text.text, at)) starts.push_back(at);
  starts.push_back(text.text.size());
  std::string out;
  Int at = picked.start;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = starts[static_cast<size_t>(at)];
    out.append(text.text, begin, starts[static_cast<size_t>(at) + 1] - begin);
    if (i + 1 < count) at += picked.step;
  }
  return Value::string_like(value, std::move(out));
}

}  // namespace

std::optional<size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      return value.as_string().length();
    case Kind::list:
    case Kind::tuple:
      return value.items().size();
    case Kind::dict:
      return value.as_dict().entries().size();
    case Kind::view:
      return value.as_view().dict.as_dict().entries().size();
    case Kind::range:
      return static_cast<size_t>(value.as_range().length);
    case Kind::undefined:
      return 0;
    default:
      return std::nullopt;
  }
}

size_t require_length(Runtime& runtime, const Value& value) {
  if (value.is_string()) runtime.charge_copy(value.text().size());
  if (const auto length = length_of(value)) return *length;
  raise("object of type '", type_name(value), "' has no len()");
}

Value range_item(const Range& range, Int index) {
  Int offset = 0;
  Int item = 0;
  if (__builtin_mul_overflow(index, range.step, &offset) ||
      __builtin_add_overflow(range.start, offset, &item)) {
    raise("an integer is too large (more than 127 bits)");
  }
  return Value::integer(item);
}

std::optional<Value> subscript(Runtime& runtime, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::undefined:
      fail_undefined(runtime, object);
    case Kind::dict: {
      const Kind kind = key.kind();
      if (kind == Kind::list || kind == Kind::dict) return std::nullopt;
      const Value* found = object.as_dict().find(runtime, key);
      return found != nullptr ? std::optional(*found) : std::nullopt;
    }
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      break;
    default:
      return std::nullopt;
  }
  const auto index = as_index(key);
  if (!index) return std::nullopt;
  const Int length = static_cast<Int>(*length_of(object));
  const Int at = *index < 0 ? *index + length : *index;
  if (at < 0 || at >= length) return std::nullopt;
  if (object.is(Kind::range)) return range_item(object.as_range(), at);
  if (!object.is_string()) return object.items()[static_cast<size_t>(at)];
  if (!object.as_string().ascii()) runtime.charge_scan(object.text().size());
  return Value::string_like(object, char_at(object.as_string(), static_cast<size_t>(at)));
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.is_undefined()) fail_undefined(runtime, object);
  if (object.is(Kind::dict)) raise("unhashable type: 'slice'");
  if (!object.is_string() && !object.is_sequence() && !object.is(Kind::range)) {
    raise("'", type_name(object), "' object is not subscriptable");
  }
  const Picked picked = pick(static_cast<Int>(*length_of(object)), start, stop, step);
  if (object.is_string()) return slice_string(runtime, object, picked);
  if (object.is(Kind::range)) {
    const Range& range = object.as_range();
    const auto at = [&](Int index) { return range_item(range, index).as_int(); };
    Int step_between = 0;
    if (__builtin_mul_overflow(range.step, picked.step, &step_between))
      raise("the step of a range is too large");
    return {Kind::range, new Range(at(picked.start), at(picked.stop), step_between, picked.count)};
  }
  runtime.check_elements(picked.count);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(picked.count));
  Int at = picked.start;
  for (Int i = 0; i < picked.count; ++i) {
    items.push_back(object.items()[static_cast<size_t>(at)]);
    if (i + 1 < picked.count) at += picked.step;
  }
  return object.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

// ---- iteration ----

bool Cursor::iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::undefined:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Runtime& runtime, Value source) : runtime_(runtime), source_(std::move(source)) {
  if (!iterable(source_)) raise("'", type_name(source_), "' object is not iterable");
}

bool Cursor::next(Value& item) {
  runtime_.charge(1);
  switch (source_.kind()) {
    case Kind::list:
    case Kind::tuple:
      if (at_ >= source_.items().size()) return false;
      item = source_.items()[at_++];
      return true;
    case Kind::string: {
      const std::string& text = source_.text();
      if (at_ >= text.size()) return false;
      const size_t begin = at_;
      next_character(text, at_);
      item = Value::string(text.substr(begin, at_ - begin));
      return true;
    }
    case Kind::dict: {
      const auto& entries = source_.as_dict().entries();
      if (at_ >= entries.size()) return false;
      item = entries[at_++].first;
      return true;
    }
    case Kind::view: {
      const auto& entries = source_.as_view().dict.as_dict().entries();
      if (at_ >= entries.size()) return false;
      item = view_item(source_.as_view(), entries[at_++]);
      return true;
    }
    case Kind::range:
      if (static_cast<Int>(at_) >= source_.as_range().length) return false;
      item = range_item(source_.as_range(), static_cast<Int>(at_++));
      return true;
    case Kind::iterator: {
      auto produced = source_.as_iterator().next();
      if (produced) item = std::move(*produced);
      return produced.has_value();
    }
    default:
      return false;
  }
}

std::vector<Value> to_list(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) {
    runtime.check_elements(static_cast<Int>(value.items().size()));
    return value.items();
  }
  std::vector<Value> items;
  Cursor cursor(runtime, value);
  for (Value item; cursor.next(item);) {
    items.push_back(std::move(item));
    if (items.size() % 4096 == 0) runtime.check_elements(static_cast<Int>(items.size()));
  }
  return items;
}

}  // namespace plimsoll::text::jinja
