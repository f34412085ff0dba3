// Filters that take sequences apart and put them together.
#include <algorithm>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

Value length(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("len", args, {});
  return Value::integer(static_cast<Int>(require_length(runtime, subject)));
}

Value list(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("list", args, {});
  return Value::list(to_list(runtime, subject));
}

Value items(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("items", args, {});
  const auto checked = [&runtime, subject,
                        cursor = std::optional<Cursor>()]() mutable -> std::optional<Value> {
    if (subject.is_undefined()) return std::nullopt;
    if (!subject.is(Kind::dict)) raise("Can only get item pairs from a mapping.");
    if (!cursor) cursor.emplace(runtime, Value(Kind::view, new View(subject, ViewOf::items)));
    Value item;
    return cursor->next(item) ? std::optional(item) : std::nullopt;
  };
  return make_iterator(subject, checked);
}

Value first(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("first", args, {});
  Cursor cursor(runtime, subject);
  Value item;
  return cursor.next(item) ? item : undefined_hint("No first item, sequence was empty.");
}

bool reversible(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is(Kind::dict) || value.is(Kind::view) ||
         value.is(Kind::range) || value.is_undefined();
}

// The item at `index` of a reversible value.
Value item_at(Runtime& runtime, const Value& value, size_t index) {
  if (value.is_sequence() || value.is(Kind::range) || value.is_string()) {
    return *subscript(runtime, value, Value::integer(static_cast<Int>(index)));
  }
  const View keys(value, ViewOf::keys);
  const View& view = value.is(Kind::view) ? value.as_view() : keys;
  const auto& [key, item] = view.dict.as_dict().entries()[index];
  return view.part == ViewOf::keys     ? key
         : view.part == ViewOf::values ? item
                                       : Value::tuple({key, item});
}

Value last(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("last", args, {});
  if (!reversible(subject)) raise("'", type_name(subject), "' object is not reversible");
  const size_t count = *length_of(subject);
  return count > 0 ? item_at(runtime, subject, count - 1)
                   : undefined_hint("No last item, sequence was empty.");
}

Value reverse(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("reverse", args, {});
  if (subject.is_string())
    return slice(runtime, subject, Value::none(), Value::none(), Value::integer(-1));
  if (!reversible(subject)) {
    if (!Cursor::iterable(subject)) raise("argument must be iterable");
    std::vector<Value> all = to_list(runtime, subject);
    std::ranges::reverse(all);
    return Value::list(std::move(all));
  }
  const auto next = [&runtime, subject,
                     left = *length_of(subject)]() mutable -> std::optional<Value> {
    return left > 0 ? std::optional(item_at(runtime, subject, --left)) : std::nullopt;
  };
  return make_iterator(subject, next, subject.is(Kind::list) ? "list_reverseiterator" : "reversed");
}

Value random(Runtime&, const Value&, const Args&) {
  raise("the filter 'random' is refused: a chat template's text must not be random");
}

Value join(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  const std::string separator = bound.has(0) ? str(runtime, bound[0]) : "";
  std::string out;
  Cursor cursor(runtime, subject);
  bool begun = false;
  for (Value item; cursor.next(item);) {
    if (bound.given(1)) item = get_path(runtime, item, bound[1]);
    if (begun) out += separator;
    begun = true;
    if (item.is_string()) {
      out += item.text();
    } else {
      out += str(runtime, item);
    }
    runtime.check_size(static_cast<Int>(out.size()));
  }
  runtime.charge_copy(out.size());
  return Value::string(std::move(out));
}

Value sum(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  Value total = bound.get(1, Value::integer(0));
  if (total.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    if (bound.given(0)) item = get_path(runtime, item, bound[0]);
    total = binary(runtime, Op::add, total, item);
  }
  return total;
}

Value batch(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  const Value count = bound[0];
  const Value fill = bound.get(1, Value::none());
  const auto next = [&runtime, subject, count, fill,
                     cursor = std::optional<Cursor>()]() mutable -> std::optional<Value> {
    if (!cursor) cursor.emplace(runtime, subject);
    std::vector<Value> row;
    Value item;
    // A full row is given when the next item comes, as in jinja2; the comparison is for equality,
    // so that 0 never ends a row.
    while (row.empty() || !equals(runtime, Value::integer(static_cast<Int>(row.size())), count)) {
      if (!cursor->next(item)) break;
      row.push_back(std::move(item));
      runtime.check_elements(static_cast<Int>(row.size()) / 64);
    }
    if (row.empty()) return std::nullopt;
    if (!fill.is_none() && as_index(count) && static_cast<Int>(row.size()) < *as_index(count)) {
      runtime.check_elements(*as_index(count));
      row.resize(static_cast<size_t>(*as_index(count)), fill);
    }
    return Value::list(std::move(row));
  };
  return make_iterator(subject, next);
}

Value slice_into(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  const Int slices = bound.integer(runtime, 0, 0);
  const Value fill = bound.get(1, Value::none());
  struct State {
    std::vector<Value> all;
    Int number = 0;
    bool started = false;
  };
  const auto next = [&runtime, subject, slices, fill,
                     state = State()]() mutable -> std::optional<Value> {
    if (!state.started) {
      state.started = true;
      state.all = to_list(runtime, subject);
      if (slices == 0) raise("integer division or modulo by zero");
    }
    if (state.number >= slices) return std::nullopt;
    const Int count = static_cast<Int>(state.all.size());
    const Int each = count / slices;
    const Int longer = count % slices;
    const Int number = state.number++;
    const Int start = number * each + std::min(number, longer);
    const Int end = start + each + (number < longer ? 1 : 0);
    std::vector<Value> part(state.all.begin() + static_cast<ptrdiff_t>(start),
                            state.all.begin() + static_cast<ptrdiff_t>(end));
    if (!fill.is_none() && number >= longer) part.push_back(fill);
    return Value::list(std::move(part));
  };
  return make_iterator(subject, next);
}

constexpr NamedFilter kFilters[] = {
    {"batch", batch},   {"count", length},    {"first", first},      {"items", items},
    {"join", join},     {"last", last},       {"length", length},    {"list", list},
    {"random", random}, {"reverse", reverse}, {"slice", slice_into}, {"sum", sum},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  return kFilters;
}

}  // namespace plimsoll::text::jinja
