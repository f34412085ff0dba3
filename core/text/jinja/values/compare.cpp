// Truth, equality, order and membership.
#include <algorithm>
#include <cmath>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

// -1, 0, 1 or 2 when unordered (NaN).
int compare_numbers(const Value& left, const Value& right) {
  const auto order = [](const auto& a, const auto& b) { return a < b ? -1 : a > b; };
  if (!left.is(Kind::floating) && !right.is(Kind::floating))
    return order(left.as_int(), right.as_int());
  const double a = left.as_double();
  const double b = right.as_double();
  return std::isnan(a) || std::isnan(b) ? 2 : order(a, b);
}

bool same_object(const Value& left, const Value& right) {
  return left.kind() >= Kind::string && left.kind() == right.kind() &&
         left.object() == right.object();
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  runtime.charge(left.entries().size() + 1);
  return std::ranges::all_of(left.entries(), [&](const auto& entry) {
    const Value* other = right.find(runtime, entry.first);
    return other != nullptr && equals(runtime, entry.second, *other);
  });
}

[[noreturn]] void fail_order(Op op, const Value& left, const Value& right) {
  const char* sign = op == Op::less         ? "<"
                     : op == Op::less_equal ? "<="
                     : op == Op::greater    ? ">"
                                            : ">=";
  raise("'", sign, "' not supported between instances of '", type_name(left), "' and '",
        type_name(right), "'");
}

bool holds(Op op, int order) {
  switch (op) {
    case Op::less:
      return order == -1;
    case Op::less_equal:
      return order == -1 || order == 0;
    case Op::greater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

bool ordered(Runtime& runtime, Op op, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(runtime, left);
  if (right.is_undefined()) fail_undefined(runtime, right);
  if (left.is_number() && right.is_number()) return holds(op, compare_numbers(left, right));
  if (left.is_string() && right.is_string()) {
    runtime.charge_scan(std::min(left.text().size(), right.text().size()));
    const int order = left.text().compare(right.text());  // UTF-8 sorts by code point
    return holds(op, order < 0 ? -1 : order > 0);
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const auto& a = left.items();
    const auto& b = right.items();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!same_object(a[i], b[i]) && !equals(runtime, a[i], b[i])) {
        return ordered(runtime, op, a[i], b[i]);
      }
    }
    return holds(op, a.size() < b.size() ? -1 : a.size() > b.size());
  }
  fail_order(op, left, right);
}

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
      return value.as_bool();
    case Kind::integer:
      return value.as_int() != 0;
    case Kind::floating:
      return value.as_double() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::iterator:
    case Kind::object:
      return true;
    default:
      return length_of(value) != 0U;
  }
}

bool equals(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::missing:
    case Kind::none:
      return true;
    case Kind::undefined:
      return true;
    case Kind::string:
      if (left.text().size() != right.text().size()) return false;
      runtime.charge_copy(left.text().size());
      return left.text() == right.text();
    case Kind::list:
    case Kind::tuple: {
      const auto& a = left.items();
      const auto& b = right.items();
      if (a.size() != b.size()) return false;
      runtime.charge(a.size() + 1);
      return std::ranges::equal(a, b, [&](const Value& x, const Value& y) {
        return same_object(x, y) || equals(runtime, x, y);
      });
    }
    case Kind::dict:
      return equal_dicts(runtime, left.as_dict(), right.as_dict());
    default:
      return left.object() == right.object();
  }
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.charge(1);
  return ordered(runtime, Op::less, left, right);
}

bool compare(Runtime& runtime, Op op, const Value& left, const Value& right) {
  switch (op) {
    case Op::equal:
      return equals(runtime, left, right);
    case Op::not_equal:
      return !equals(runtime, left, right);
    case Op::in:
      return contains(runtime, right, left);
    case Op::not_in:
      return !contains(runtime, right, left);
    default:
      return ordered(runtime, op, left, right);
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) {
        raise("'in <string>' requires string as left operand, not ", type_name(item));
      }
      runtime.charge_scan(container.text().size());
      return find_bytes(container.text(), item.text()) != std::string::npos;
    case Kind::dict:
      return container.as_dict().find(runtime, item) != nullptr;
    case Kind::view:
      if (container.as_view().part == ViewOf::keys) {
        return container.as_view().dict.as_dict().find(runtime, item) != nullptr;
      }
      break;
    default:
      break;
  }
  if (!Cursor::iterable(container))
    raise("argument of type '", type_name(container), "' is not iterable");
  Cursor cursor(runtime, container);
  Value candidate;
  while (cursor.next(candidate)) {
    if (same_object(candidate, item) || equals(runtime, candidate, item)) return true;
  }
  return false;
}

}  // namespace plimsoll::text::jinja
