// Sets of JSON values, kind by kind, with the operations of sets. What is in arrays and objects is
// named by expressions that are worked out when they are asked for, so sets may contain themselves.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/numbers.h"
#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

/// An expression: a set of JSON values.
using SetId = uint32_t;
inline constexpr SetId kAny = 0;
inline constexpr SetId kNone = 1;
inline constexpr uint64_t kNoBound = UINT64_MAX;
inline constexpr size_t kMaxShapes = 1000;  // of arrays, or of objects, in one set

/// Texts of an automaton that have from `least` to `most` code points.
struct StringPart {
  DfaPtr texts;
  uint64_t least = 0;
  uint64_t most = kNoBound;
};

/// From `least` to `most` of the items from place `from` on are in `item`.
struct Contains {
  SetId item;
  uint64_t least;
  uint64_t most;
  uint64_t from;
  bool operator==(const Contains&) const = default;
};

struct ArrayShape {
  std::vector<SetId> prefix;
  SetId rest = kAny;
  uint64_t least = 0;
  uint64_t most = kNoBound;
  std::vector<Contains> contains;
  std::string unique_at;  // where `uniqueItems` stands; empty without it
  bool operator==(const ArrayShape&) const = default;
};

struct Property {
  std::string name;
  SetId value;
  bool required;
  bool listed = true;  // by `properties`: written before those that are not
  bool operator==(const Property&) const = default;
};

/// Keys without a Property, and the values they have.
struct KeyClass {
  DfaPtr keys;
  SetId value;
  bool operator==(const KeyClass& b) const { return value == b.value && *keys == *b.keys; }
};

struct ObjectShape {
  std::vector<Property> properties;
  std::vector<KeyClass> classes;  // disjoint
  SetId other = kAny;             // values of keys without Property and class
  uint64_t least = 0;             // number of properties
  uint64_t most = kNoBound;
  std::vector<KeyClass> some;  // each is met by at least one key without Property
  bool operator==(const ObjectShape&) const = default;

  [[nodiscard]] const Property* find(const std::string& name) const;
  /// The values of a key.
  [[nodiscard]] SetId value_of(const std::string& name) const;
};

/// The union of its members.
struct Values {
  bool null = false;
  bool yes = false;
  bool no = false;
  NumberSet numbers = no_numbers();
  std::vector<StringPart> strings;
  std::vector<ArrayShape> arrays;
  std::vector<ObjectShape> objects;

  static Values all();
};

/// A reference that leads to itself without a value in between.
struct EndlessReference : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The expressions of one schema. Work is bounded: functions throw TooLarge.
class Sets {
 public:
  /// `lower` makes the expression of a schema.
  explicit Sets(std::function<SetId(const OrderedJson&)> lower);

  SetId of(Values values);
  SetId schema(const OrderedJson& schema);
  SetId all_of(const std::vector<SetId>& parts);
  SetId any_of(const std::vector<SetId>& parts);
  SetId none_of(SetId part);
  /// Exactly one of the parts.
  SetId one_of(const std::vector<SetId>& parts);

  const Values& values(SetId id);
  /// Whether no value is in the set; false where that would take long to find out.
  bool empty(SetId id);
  /// A schema that the expression is made of, or null.
  [[nodiscard]] const OrderedJson* origin(SetId id) const;

 private:
  enum class Kind : uint8_t { values, schema, all_of, any_of, none_of };
  struct Expression {
    Kind kind = Kind::values;
    std::vector<SetId> parts;
    const OrderedJson* schema = nullptr;
    std::shared_ptr<const Values> known;
    bool in_work = false;
    int emptiness = -1;  // -1: not asked yet
    bool asked = false;
  };

  SetId intern(Kind kind, std::vector<SetId> parts);
  Values work_out(SetId id);
  Values intersection(const Values& a, const Values& b);
  Values united(const Values& a, const Values& b);
  Values complement(const Values& a);
  std::vector<ArrayShape> intersection(const std::vector<ArrayShape>& a,
                                       const std::vector<ArrayShape>& b);
  std::vector<ObjectShape> intersection(const std::vector<ObjectShape>& a,
                                        const std::vector<ObjectShape>& b);
  ArrayShape intersection(const ArrayShape& a, const ArrayShape& b);
  ObjectShape intersection(const ObjectShape& a, const ObjectShape& b);
  std::vector<ObjectShape> declared(const ObjectShape& shape, const ObjectShape& names);
  std::vector<ArrayShape> complement(const ArrayShape& shape);
  std::vector<ObjectShape> complement(const ObjectShape& shape);
  /// Whether a is a part of b, as far as that shows without working out members.
  [[nodiscard]] bool within(SetId a, SetId b) const;
  [[nodiscard]] bool within(const ObjectShape& a, const ObjectShape& b) const;
  /// Adds a shape that is not within another, in place of those that are within it.
  void absorb(std::vector<ObjectShape>& sum, const ObjectShape& shape) const;
  bool impossible(const ArrayShape& shape);
  bool impossible(const ObjectShape& shape);

  std::function<SetId(const OrderedJson&)> lower_;
  std::deque<Expression> expressions_;
  std::map<std::pair<Kind, std::vector<SetId>>, SetId> interned_;
  std::map<const OrderedJson*, SetId> schemas_;
  int depth_ = 0;
  int asking_ = 0;
};

}  // namespace plimsoll::grammar
