// Filters that sort, group and pick extremes.
#include <algorithm>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// Python's sorted(): stable, also when reversed.
void sort_keyed(Runtime& runtime, std::vector<Keyed>& rows, bool reversed) {
  runtime.charge(rows.size());
  std::ranges::stable_sort(rows, [&](const Keyed& a, const Keyed& b) {
    return reversed ? less(runtime, b.key, a.key) : less(runtime, a.key, b.key);
  });
}

std::vector<Value> items_of(std::vector<Keyed>& rows) {
  std::vector<Value> items;
  items.reserve(rows.size());
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return items;
}

// The value at `attribute`; strings "a,b" name several.
Value multi_key(Runtime& runtime, const Value& item, const Value& attribute, bool case_sensitive) {
  std::vector<Value> parts;
  if (attribute.is_string()) {
    std::string_view rest = attribute.text();
    while (true) {
      const size_t comma = rest.find(',');
      const Value path = Value::string(std::string(rest.substr(0, comma)));
      parts.push_back(fold_key(runtime, get_path(runtime, item, path), case_sensitive));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    parts.push_back(fold_key(runtime, get_path(runtime, item, attribute), case_sensitive));
  }
  return Value::list(std::move(parts));
}

Value sort(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy(1);
  const Value attribute = bound.get(2, Value::none());
  std::vector<Keyed> rows;
  for (Value& item : to_list(runtime, subject)) {
    Value key = multi_key(runtime, item, attribute, case_sensitive);
    rows.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(runtime, rows, bound.truthy(0));
  return Value::list(items_of(rows));
}

Value dictsort(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool case_sensitive = bound.truthy(0);
  const std::string by = bound.has(1) ? str(runtime, bound[1]) : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!subject.is(Kind::dict)) raise("'", type_name(subject), "' object has no attribute 'items'");
  std::vector<Keyed> rows;
  for (const auto& [key, value] : subject.as_dict().entries()) {
    rows.push_back(
        {fold_key(runtime, by == "key" ? key : value, case_sensitive), Value::tuple({key, value})});
  }
  sort_keyed(runtime, rows, bound.truthy(2));
  return Value::list(items_of(rows));
}

Value group(Value grouper, std::vector<Value> members) {
  auto* pair = new Sequence({std::move(grouper), Value::list(std::move(members))}, Kind::tuple);
  pair->is_group = true;
  return {Kind::tuple, pair};
}

Value groupby(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.truthy(2);
  const auto value_of = [&](const Value& item) {
    Value value = get_path(runtime, item, bound[0]);
    return value.is_undefined() && bound.given(1) ? bound[1] : value;
  };
  std::vector<Keyed> rows;
  for (Value& item : to_list(runtime, subject)) {
    Value key = fold_key(runtime, value_of(item), case_sensitive);
    rows.push_back({std::move(key), std::move(item)});
  }
  sort_keyed(runtime, rows, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < rows.size();) {
    const Value key = rows[begin].key;
    std::vector<Value> members;
    size_t end = begin;
    for (; end < rows.size() && equals(runtime, rows[end].key, key); ++end)
      members.push_back(rows[end].item);
    if (end == begin) members.push_back(rows[end++].item);  // a key unequal to itself (NaN)
    Value grouper = case_sensitive ? key : value_of(members[0]);
    groups.push_back(group(std::move(grouper), std::move(members)));
    begin = end;
  }
  return Value::list(std::move(groups));
}

Value unique(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy(0);
  const Value attribute = bound.get(1, Value::none());
  auto [seen, dict] = new_dict();
  const auto next = [&runtime, subject, case_sensitive, attribute, seen = seen, dict = dict,
                     cursor = std::optional<Cursor>()]() mutable -> std::optional<Value> {
    if (!cursor) cursor.emplace(runtime, subject);
    for (Value item; cursor->next(item);) {
      const Value key = fold_key(runtime, get_path(runtime, item, attribute), case_sensitive);
      if (dict->find(runtime, key) != nullptr) continue;
      dict->set(runtime, key, Value::none());
      return item;
    }
    return std::nullopt;
  };
  return make_iterator(subject, next);
}

Value extreme(Runtime& runtime, const Value& subject, const Args& args, bool largest) {
  const Bound bound(largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = bound.truthy(0);
  const Value attribute = bound.get(1, Value::none());
  Cursor cursor(runtime, subject);
  Keyed best;
  for (Value item; cursor.next(item);) {
    Value key = fold_key(runtime, get_path(runtime, item, attribute), case_sensitive);
    const bool better =
        best.item.is(Kind::missing) || (largest ? compare(runtime, Op::greater, key, best.key)
                                                : compare(runtime, Op::less, key, best.key));
    if (better) best = {std::move(key), item};
  }
  return best.item.is(Kind::missing) ? undefined_hint("No aggregated item, sequence was empty.")
                                     : best.item;
}
Value maximum(Runtime& runtime, const Value& subject, const Args& args) {
  return extreme(runtime, subject, args, true);
}
Value minimum(Runtime& runtime, const Value& subject, const Args& args) {
  return extreme(runtime, subject, args, false);
}

constexpr NamedFilter kFilters[] = {{"dictsort", dictsort}, {"groupby", groupby},
                                    {"max", maximum},       {"min", minimum},
                                    {"sort", sort},         {"unique", unique}};

}  // namespace

std::span<const NamedFilter> order_filters() {
  return kFilters;
}

Value fold_key(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  runtime.charge_characters(value.text().size());
  return Value::string_like(value, to_lower(value.text()));
}

}  // namespace plimsoll::text::jinja
