// dict and Undefined.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {
namespace {

constexpr size_t kSmallDict = 8;  // looked through one by one

}  // namespace

Dict::~Dict() {
  Heap::current().live -= static_cast<int64_t>(sizeof(Value) * 2 * entries_.size());
}

std::pair<Value, Dict*> new_dict() {
  auto* dict = new Dict;
  return {Value(Kind::dict, dict), dict};
}

template <typename Same>
const Value* Dict::find_hashed(size_t hash, Same same) const {
  const size_t mask = index_.size() - 1;
  for (size_t at = hash & mask; index_[at] != 0; at = (at + 1) & mask) {
    const auto& entry = entries_[index_[at] - 1];
    if (same(entry.first)) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::find(Runtime& runtime, const Value& key) const {
  if (key.is_string()) return find(std::string_view(key.text()));
  const size_t hash = hash_of(runtime, key);
  const auto same = [&](const Value& other) { return equals(runtime, key, other); };
  if (!index_.empty()) return find_hashed(hash, same);
  for (const auto& [name, value] : entries_) {
    if (same(name)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto same = [&](const Value& other) { return other.is_string() && other.text() == key; };
  if (!index_.empty()) return find_hashed(std::hash<std::string_view>{}(key), same);
  for (const auto& [name, value] : entries_) {
    if (same(name)) return &value;
  }
  return nullptr;
}

void Dict::set(Runtime& runtime, Value key, Value value) {
  depth = std::max(depth, deeper(std::max(depth_of(key), depth_of(value))));
  if (const Value* found = find(runtime, key)) {
    const_cast<Value&>(*found) = std::move(value);
    return;
  }
  Heap::current().grow(sizeof(Value) * 2);
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kSmallDict) return;
  if (index_.size() < entries_.size() * 2) return rebuild_index(runtime);
  size_t at = hash_of(runtime, entries_.back().first) & (index_.size() - 1);
  while (index_[at] != 0) at = (at + 1) & (index_.size() - 1);
  index_[at] = static_cast<uint32_t>(entries_.size());
}

void Dict::rebuild_index(Runtime& runtime) {
  size_t size = 32;
  while (size < entries_.size() * 4) size *= 2;
  index_.assign(size, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t at = hash_of(runtime, entries_[i].first) & (size - 1);
    while (index_[at] != 0) at = (at + 1) & (size - 1);
    index_[at] = static_cast<uint32_t>(i + 1);
  }
}

// ---- undefined ----

namespace {
Value make_undefined(Undefined::Why why, Value of, std::string name) {
  return {Kind::undefined, new Undefined(why, std::move(of), std::move(name))};
}
}  // namespace

std::string Undefined::message(Runtime& runtime) const {
  switch (why) {
    case Why::name:
      return fmt::format("'{}' is undefined", name);
    case Why::hint:
      return name;
    case Why::unsafe:
      return fmt::format("access to attribute '{}' of '{}' object is unsafe.", name,
                         jinja::type_name(of));
    case Why::attribute:
      break;
  }
  const std::string owner = of.is_none() ? "None" : fmt::format("{} object", jinja::type_name(of));
  if (element.is(Kind::missing)) return fmt::format("'{}' has no attribute '{}'", owner, name);
  return fmt::format("{} has no element {}", owner, jinja::repr(runtime, element));
}

Value undefined_name(std::string name) {
  return make_undefined(Undefined::Why::name, {}, std::move(name));
}
Value undefined_hint(std::string hint) {
  return make_undefined(Undefined::Why::hint, {}, std::move(hint));
}
Value undefined_attribute(const Value& of, std::string_view attribute) {
  return make_undefined(Undefined::Why::attribute, of, std::string(attribute));
}
Value undefined_element(const Value& of, const Value& key) {
  if (key.is_string()) return undefined_attribute(of, key.text());
  auto* undefined = new Undefined(Undefined::Why::attribute, of, {});
  undefined->element = key;
  return {Kind::undefined, undefined};
}
Value undefined_unsafe(const Value& of, std::string_view attribute) {
  return make_undefined(Undefined::Why::unsafe, of, std::string(attribute));
}
void fail_undefined(Runtime& runtime, const Value& value) {
  throw Failure(static_cast<const Undefined*>(value.object())->message(runtime));
}

}  // namespace plimsoll::text::jinja
