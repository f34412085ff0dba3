#include "text/jinja/values/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr int kMaxNesting = 400;  // containers inside containers
constexpr int kMaxGeneratorChain = 100;

size_t bytes_of(const std::string& text) {
  return sizeof(String) + text.size();
}
size_t bytes_of(const std::vector<Value>& items) {
  return sizeof(Sequence) + items.size() * sizeof(Value);
}

// Objects whose last reference went while another is being destroyed: a loop instead of recursion.
thread_local Object* dead = nullptr;
thread_local bool burying = false;

}  // namespace

Heap& Heap::current() {
  thread_local Heap heap;
  return heap;
}

void Heap::grow(size_t bytes) {
  if (live > limit - static_cast<int64_t>(bytes)) {
    throw Failure("the template's values take more memory than its budget allows");
  }
  live += static_cast<int64_t>(bytes);
}

Value::Value(Kind kind, Object* object) : kind_(kind), object_(object) {
  if (object->references_ >= 0) ++object->references_;
}

void Value::copy_from(const Value& other) {
  switch (kind_) {
    case Kind::missing:
    case Kind::none:
      break;
    case Kind::boolean:
      boolean_ = other.boolean_;
      break;
    case Kind::integer:
      integer_ = other.integer_;
      break;
    case Kind::floating:
      number_ = other.number_;
      break;
    default:
      object_ = other.object_;
      if (object_->references_ >= 0) ++object_->references_;
  }
}

void Value::move_from(Value& other) noexcept {
  if (counted()) {
    object_ = other.object_;
    other.kind_ = Kind::missing;
  } else {
    copy_from(other);
  }
}

Value& Value::operator=(Value&& other) noexcept {
  if (this == &other) return *this;
  Object* before = counted() ? object_ : nullptr;
  kind_ = other.kind_;
  move_from(other);
  if (before != nullptr) release(before);
  return *this;
}

void Value::release(Object* object) noexcept {
  if (object->references_ < 0 || --object->references_ > 0) return;
  object->next_dead_ = dead;
  dead = object;
  if (burying) return;
  burying = true;
  while (dead != nullptr) {
    Object* next = dead;
    dead = next->next_dead_;
    delete next;
  }
  burying = false;
}

void Value::make_immortal() const {
  if (!counted()) return;
  if (is_string()) static_cast<void>(as_string().length());  // cached before threads share it
  object_->references_ = -1;
}

void Value::destroy_immortal() {
  if (!counted()) return;
  delete object_;
  kind_ = Kind::missing;
}

Value Value::boolean(bool value) {
  Value result(Kind::boolean);
  result.boolean_ = value;
  return result;
}
Value Value::integer(Int value) {
  Value result(Kind::integer);
  result.integer_ = value;
  return result;
}
Value Value::number(double value) {
  Value result(Kind::floating);
  result.number_ = value;
  return result;
}
Value Value::string(std::string text) {
  return {Kind::string, new String(std::move(text), false)};
}
Value Value::markup(std::string text) {
  return {Kind::string, new String(std::move(text), true)};
}
Value Value::string_like(const Value& like, std::string text) {
  return {Kind::string, new String(std::move(text), like.is_markup())};
}
Value Value::list(std::vector<Value> items) {
  return {Kind::list, new Sequence(std::move(items), Kind::list)};
}
Value Value::tuple(std::vector<Value> items) {
  return {Kind::tuple, new Sequence(std::move(items), Kind::tuple)};
}

bool Value::is_markup() const {
  return is_string() && as_string().markup;
}
const String& Value::as_string() const {
  return *static_cast<const String*>(object_);
}
const std::string& Value::text() const {
  return as_string().text;
}
const Sequence& Value::as_sequence() const {
  return *static_cast<const Sequence*>(object_);
}
const std::vector<Value>& Value::items() const {
  return as_sequence().items;
}
const Dict& Value::as_dict() const {
  return *static_cast<const Dict*>(object_);
}
const Range& Value::as_range() const {
  return *static_cast<const Range*>(object_);
}
const View& Value::as_view() const {
  return *static_cast<const View*>(object_);
}
Iterator& Value::as_iterator() const {
  return *static_cast<Iterator*>(object_);
}

Value Object::call(Runtime&, const Args&) {
  raise("'", type_name(), "' object is not callable");
}
std::string Object::repr(Runtime&, int) const {
  return fmt::format("<{} object>", type_name());
}

String::String(std::string value, bool safe) : text(std::move(value)), markup(safe) {
  Heap::current().grow(bytes_of(text));
}
String::~String() {
  Heap::current().live -= static_cast<int64_t>(bytes_of(text));
}

size_t String::length() const {
  if (length_ == SIZE_MAX) {
    length_ = count_code_points(text);
  }
  return length_;
}

Sequence::Sequence(std::vector<Value> values, Kind which) : items(std::move(values)), kind(which) {
  for (const Value& item : items) depth = std::max(depth, deeper(depth_of(item)));
  Heap::current().grow(bytes_of(items));
}
Sequence::~Sequence() {
  Heap::current().live -= static_cast<int64_t>(bytes_of(items));
}
std::string_view Sequence::type_name() const {
  if (is_group) return "_GroupTuple";
  return kind == Kind::list ? "list" : "tuple";
}

std::string_view View::type_name() const {
  switch (part) {
    case ViewOf::keys:
      return "dict_keys";
    case ViewOf::values:
      return "dict_values";
    case ViewOf::items:
      break;
  }
  return "dict_items";
}

Iterator::Iterator(Next function, const Value& source, std::string_view python_type)
    : type(python_type), next_(std::move(function)) {
  if (source.is(Kind::iterator)) chain = source.as_iterator().chain + 1;
  if (chain > kMaxGeneratorChain) throw Failure("generators are chained too deeply");
}

std::optional<Value> Iterator::next() {
  if (!next_) return std::nullopt;
  std::optional<Value> item;
  try {
    item = next_();
  } catch (...) {
    next_ = nullptr;
    throw;
  }
  if (!item) next_ = nullptr;
  return item;
}

Value make_iterator(const Value& source, Iterator::Next next, std::string_view type) {
  return {Kind::iterator, new Iterator(std::move(next), source, type)};
}
Value make_object(Object* object) {
  return {Kind::object, object};
}

// ---- facts about values ----

int deeper(int depth) {
  if (depth >= kMaxNesting) throw Failure("values are nested too deeply");
  return depth + 1;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
      return "missing";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::floating:
      return "float";
    default:
      return value.object()->type_name();
  }
}

int depth_of(const Value& value) {
  if (value.is_sequence()) return value.as_sequence().depth;
  if (value.is(Kind::dict)) return value.as_dict().depth;
  if (value.is(Kind::view)) return depth_of(value.as_view().dict);
  if (value.is_undefined()) return depth_of(static_cast<const Undefined*>(value.object())->of);
  return 0;
}

size_t hash_of(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      return std::hash<std::string_view>{}(value.text());
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:  // equal numbers of different types hash alike
      return std::hash<double>{}(value.as_double() + 0.0);
    case Kind::tuple: {
      runtime.charge(value.items().size() / 4 + 1);
      size_t hash = 1;
      for (const Value& item : value.items()) hash = hash * 1000003 ^ hash_of(runtime, item);
      return hash;
    }
    case Kind::list:
    case Kind::dict:
      raise("unhashable type: '", type_name(value), "'");
    case Kind::view:
      if (value.as_view().part != ViewOf::values)
        raise("unhashable type: '", type_name(value), "'");
      return std::hash<const void*>{}(value.object());
    case Kind::missing:
    case Kind::none:
    case Kind::undefined:
      return static_cast<size_t>(value.kind());
    default:
      return std::hash<const void*>{}(value.object());
  }
}

}  // namespace plimsoll::text::jinja
