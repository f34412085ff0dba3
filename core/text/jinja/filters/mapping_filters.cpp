// map, select and reject: filters by way of other filters and tests.
#include <memory>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

using Transform = std::function<Value(const Value&)>;

// The arguments behind the first `count` positional ones.
Args rest_of(const Args& args, size_t count) {
  Args rest;
  rest.keywords = args.keywords;
  if (args.positional.size() > count) {
    rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(count),
                           args.positional.end());
  }
  return rest;
}

const std::string& name_of(Runtime& runtime, const Value& name, std::string_view what) {
  if (name.is_undefined()) fail_undefined(runtime, name);
  if (!name.is_string()) raise("No ", what, " named ", repr(runtime, name), ".");
  return name.text();
}

Transform prepare_map(Runtime& runtime, const Args& args) {
  const auto keyword = [&](std::string_view name) -> const Value* {
    for (const auto& [key, value] : args.keywords) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  if (args.positional.empty() && keyword("attribute") != nullptr) {
    for (const auto& [key, value] : args.keywords) {
      if (key != "attribute" && key != "default") raise("Unexpected keyword argument '", key, "'");
    }
    const Value path = *keyword("attribute");
    const Value fallback = keyword("default") != nullptr ? *keyword("default") : Value::none();
    return [&runtime, path, fallback](const Value& item) {
      Value value = get_path(runtime, item, path);
      return value.is_undefined() && !fallback.is_none() ? fallback : value;
    };
  }
  if (args.positional.empty()) raise("map requires a filter argument");
  const std::string& name = name_of(runtime, args.positional[0], "filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) raise("No filter named '", name, "'.");
  return [&runtime, filter, rest = rest_of(args, 1)](const Value& item) {
    runtime.charge(1);
    return filter->apply(runtime, item, rest);
  };
}

using Predicate = std::function<bool(const Value&)>;

enum class Look : uint8_t { item, attribute };

Predicate prepare_select(Runtime& runtime, const Args& args, Look look) {
  const size_t off = look == Look::attribute ? 1 : 0;
  if (args.positional.size() < off) raise("Missing parameter for attribute name");
  const Value path = off > 0 ? args.positional[0] : Value::none();
  if (args.positional.size() == off) {
    return [&runtime, path](const Value& item) { return truthy(get_path(runtime, item, path)); };
  }
  const std::string& name = name_of(runtime, args.positional[off], "test");
  const Test* test = find_test(name);
  if (test == nullptr) raise("No test named '", name, "'.");
  return [&runtime, path, test, rest = rest_of(args, off + 1)](const Value& item) {
    runtime.charge(1);
    return test->holds(runtime, get_path(runtime, item, path), rest);
  };
}

Value map(Runtime& runtime, const Value& subject, const Args& args) {
  const auto next = [&runtime, subject, args, transform = Transform(),
                     cursor = std::optional<Cursor>()]() mutable -> std::optional<Value> {
    if (!transform) {
      if (!truthy(subject)) return std::nullopt;
      transform = prepare_map(runtime, args);
      cursor.emplace(runtime, subject);
    }
    Value item;
    return cursor->next(item) ? std::optional(transform(item)) : std::nullopt;
  };
  return make_iterator(subject, next);
}

Value select_if(Runtime& runtime, const Value& subject, const Args& args, Look look, bool wanted) {
  const auto next = [&runtime, subject, args, look, wanted, predicate = Predicate(),
                     cursor = std::optional<Cursor>()]() mutable -> std::optional<Value> {
    if (!predicate) {
      if (!truthy(subject)) return std::nullopt;
      predicate = prepare_select(runtime, args, look);
      cursor.emplace(runtime, subject);
    }
    for (Value item; cursor->next(item);) {
      if (predicate(item) == wanted) return item;
    }
    return std::nullopt;
  };
  return make_iterator(subject, next);
}

Value select(Runtime& runtime, const Value& subject, const Args& args) {
  return select_if(runtime, subject, args, Look::item, true);
}
Value reject(Runtime& runtime, const Value& subject, const Args& args) {
  return select_if(runtime, subject, args, Look::item, false);
}
Value selectattr(Runtime& runtime, const Value& subject, const Args& args) {
  return select_if(runtime, subject, args, Look::attribute, true);
}
Value rejectattr(Runtime& runtime, const Value& subject, const Args& args) {
  return select_if(runtime, subject, args, Look::attribute, false);
}

constexpr NamedFilter kFilters[] = {{"map", map},
                                    {"reject", reject},
                                    {"rejectattr", rejectattr},
                                    {"select", select},
                                    {"selectattr", selectattr}};

}  // namespace

std::span<const NamedFilter> mapping_filters() {
  return kFilters;
}

}  // namespace plimsoll::text::jinja
