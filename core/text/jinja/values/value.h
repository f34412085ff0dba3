// The Python values that a template sees: reference-counted, immutable except for namespaces and
// loop state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text::jinja {

/// Python's int; a number that does not fit is an error.
__extension__ typedef __int128 Int;

/// An exception that Python would raise. The interpreter adds the template's line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Kind : uint8_t {
  missing,  // no value at all; never seen by templates
  none,
  boolean,
  integer,
  floating,
  string,  // str or Markup
  list,
  tuple,
  dict,
  undefined,
  range,
  view,      // dict.keys(), values(), items()
  iterator,  // generators: one pass only
  object,    // callables, namespaces, loops: whatever has attributes of its own
};

class Object;
class Runtime;
struct String;
struct Sequence;
struct Dict;
struct Range;
struct View;
struct Iterator;

class Value {
 public:
  Value() : kind_(Kind::missing), integer_(0) {}
  Value(Kind kind, Object* object);
  Value(const Value& other) : kind_(other.kind_), integer_(0) { copy_from(other); }
  Value(Value&& other) noexcept : kind_(other.kind_), integer_(0) { move_from(other); }
  Value& operator=(const Value& other) { return *this = Value(other); }
  Value& operator=(Value&& other) noexcept;
  ~Value() {
    if (counted()) release(object_);
  }

  static Value none() { return Value(Kind::none); }
  static Value boolean(bool value);
  static Value integer(Int value);
  static Value number(double value);
  static Value string(std::string text);
  static Value markup(std::string text);
  /// A string of the same class (str or Markup) as `like`.
  static Value string_like(const Value& like, std::string text);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
  [[nodiscard]] bool is_none() const { return kind_ == Kind::none; }
  [[nodiscard]] bool is_string() const { return kind_ == Kind::string; }
  [[nodiscard]] bool is_undefined() const { return kind_ == Kind::undefined; }
  [[nodiscard]] bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  [[nodiscard]] bool is_number() const {
    return kind_ == Kind::integer || kind_ == Kind::floating || kind_ == Kind::boolean;
  }
  [[nodiscard]] bool is_markup() const;

  [[nodiscard]] bool as_bool() const { return boolean_; }
  /// The value of an integer or a boolean.
  [[nodiscard]] Int as_int() const { return kind_ == Kind::boolean ? Int{boolean_} : integer_; }
  /// The value of any number.
  [[nodiscard]] double as_double() const {
    return kind_ == Kind::floating ? number_ : static_cast<double>(as_int());
  }
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] const String& as_string() const;
  [[nodiscard]] const std::vector<Value>& items() const;
  [[nodiscard]] const Sequence& as_sequence() const;
  [[nodiscard]] const Dict& as_dict() const;
  [[nodiscard]] const Range& as_range() const;
  [[nodiscard]] const View& as_view() const;
  [[nodiscard]] Iterator& as_iterator() const;
  [[nodiscard]] Object* object() const { return object_; }
  template <typename T>
  [[nodiscard]] T* object_as() const {
    return kind_ == Kind::object ? dynamic_cast<T*>(object_) : nullptr;
  }

  /// Makes the object behind a constant of the template outlive every count, so that threads may
  /// share it.
  void make_immortal() const;
  /// Frees an immortal object; nothing may refer to it any more.
  void destroy_immortal();

 private:
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}
  [[nodiscard]] bool counted() const { return kind_ >= Kind::string; }
  void copy_from(const Value& other);
  void move_from(Value& other) noexcept;
  static void release(Object* object) noexcept;

  Kind kind_;
  union {
    bool boolean_;
    Int integer_;
    double number_;
    Object* object_;
  };
};

/// Arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

/// The base of all objects on the heap.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  /// Python's name of the type.
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  /// The attribute, when the type has one of that name.
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  [[nodiscard]] virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, const Args& args);
  [[nodiscard]] virtual std::string repr(Runtime& runtime, int depth) const;

 private:
  friend class Value;
  int32_t references_ = 0;  // negative: immortal
  Object* next_dead_ = nullptr;
};

/// Live bytes of this thread's values, and their limit.
struct Heap {
  int64_t live = 0;
  int64_t limit = INT64_MAX;
  static Heap& current();
  /// Throws Failure when the limit is passed.
  void grow(size_t bytes);
};

struct String final : Object {
  String(std::string value, bool safe);
  ~String() override;
  [[nodiscard]] std::string_view type_name() const override { return markup ? "Markup" : "str"; }
  /// Length in code points.
  [[nodiscard]] size_t length() const;
  [[nodiscard]] bool ascii() const { return length() == text.size(); }

  const std::string text;
  const bool markup;

 private:
  mutable size_t length_ = SIZE_MAX;
};

/// list or tuple.
struct Sequence final : Object {
  Sequence(std::vector<Value> values, Kind which);
  ~Sequence() override;
  [[nodiscard]] std::string_view type_name() const override;

  const std::vector<Value> items;
  const Kind kind;
  bool is_group = false;  // groupby's pairs: .grouper and .list
  int depth = 1;          // how deep containers are nested inside
};

/// A dict in insertion order. Filled first, then frozen in a Value.
struct Dict final : Object {
  Dict() = default;
  ~Dict() override;
  [[nodiscard]] std::string_view type_name() const override { return "dict"; }
  /// Replaces the value of an equal key. Throws Failure for unhashable keys.
  void set(Runtime& runtime, Value key, Value value);
  [[nodiscard]] const Value* find(Runtime& runtime, const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }

  int depth = 1;

 private:
  template <typename Same>
  [[nodiscard]] const Value* find_hashed(size_t hash, Same same) const;
  void rebuild_index(Runtime& runtime);

  std::vector<std::pair<Value, Value>> entries_;
  std::vector<uint32_t> index_;  // open addressing, entry + 1; empty while small
};

/// An empty dict, owned by the value, to be filled before anybody else sees it.
std::pair<Value, Dict*> new_dict();

struct Range final : Object {
  Range(Int from, Int end, Int by, Int count) : start(from), stop(end), step(by), length(count) {}
  [[nodiscard]] std::string_view type_name() const override { return "range"; }
  const Int start, stop, step, length;
};

enum class ViewOf : uint8_t { keys, values, items };

struct View final : Object {
  View(Value of, ViewOf which) : dict(std::move(of)), part(which) {}
  [[nodiscard]] std::string_view type_name() const override;
  const Value dict;
  const ViewOf part;
};

/// A generator. `next` gives std::nullopt at the end and is not called again.
struct Iterator final : Object {
  using Next = std::function<std::optional<Value>()>;
  /// `source` is what the generator draws from; chains of generators have a bounded length.
  Iterator(Next function, const Value& source, std::string_view python_type);
  [[nodiscard]] std::string_view type_name() const override { return type; }
  std::optional<Value> next();

  int chain = 1;
  std::string_view type;

 private:
  Next next_;
};

Value make_iterator(const Value& source, Iterator::Next next, std::string_view type = "generator");
Value make_object(Object* object);

/// An undefined value and why it is undefined; the message is made when the value is used.
struct Undefined final : Object {
  enum class Why : uint8_t { name, attribute, hint, unsafe };
  Undefined(Why reason, Value value, std::string text)
      : why(reason), of(std::move(value)), name(std::move(text)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Undefined"; }
  [[nodiscard]] std::string message(Runtime& runtime) const;
  const Why why;
  const Value of;
  const std::string name;  // variable, attribute or the whole hint
  Value element;           // instead of `name` when the key was no string
};

Value undefined_name(std::string name);
Value undefined_hint(std::string hint);
Value undefined_attribute(const Value& of, std::string_view attribute);
Value undefined_element(const Value& of, const Value& key);
Value undefined_unsafe(const Value& of, std::string_view attribute);
/// Throws the Failure of using an undefined value.
[[noreturn]] void fail_undefined(Runtime& runtime, const Value& value);

/// Python's `type(value).__name__`.
std::string_view type_name(const Value& value);
size_t hash_of(Runtime& runtime, const Value& value);
/// Depth of nested containers, 0 for scalars.
int depth_of(const Value& value);
/// The depth of a container around one of `depth`. Throws Failure when that is too deep.
int deeper(int depth);

template <typename... Parts>
[[noreturn]] void raise(Parts&&... parts) {
  std::string message;
  (message.append(std::string_view(parts)), ...);
  throw Failure(message);
}

}  // namespace plimsoll::text::jinja
