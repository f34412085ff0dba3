// Expressions of sets of values.
#include <algorithm>
#include <span>

#include "grammar/shapes.h"

namespace plimsoll::grammar {
namespace {

constexpr size_t kMaxExpressions = 100'000;
constexpr int kMaxDepth = 400;
constexpr int kMaxAsking = 12;

struct Deeper {
  int& depth;
  explicit Deeper(int& d) : depth(d) { ++depth; }
  ~Deeper() { --depth; }
};

}  // namespace

Values Values::all() {
  static const DfaPtr every = std::make_shared<const Dfa>(all_texts());
  Values values;
  values.null = values.yes = values.no = true;
  values.numbers = all_numbers();
  values.strings = {{every, 0, kNoBound}};
  values.arrays.emplace_back();
  values.objects.emplace_back();
  return values;
}

Sets::Sets(std::function<SetId(const OrderedJson&)> lower) : lower_(std::move(lower)) {
  of(Values::all());
  of(Values());
}

SetId Sets::of(Values values) {
  if (expressions_.size() >= kMaxExpressions) throw TooLarge("it has too many parts");
  WorkLimit::spend(100);
  Expression expression;
  expression.known = std::make_shared<const Values>(std::move(values));
  expressions_.push_back(std::move(expression));
  return static_cast<SetId>(expressions_.size() - 1);
}

SetId Sets::schema(const OrderedJson& schema) {
  if (schema.is_boolean()) return schema.get<bool>() ? kAny : kNone;
  if (schema.is_object() && schema.empty()) return kAny;
  const auto [at, fresh] = schemas_.try_emplace(&schema, 0);
  if (fresh) {
    Expression expression;
    expression.kind = Kind::schema;
    expression.schema = &schema;
    expressions_.push_back(std::move(expression));
    at->second = static_cast<SetId>(expressions_.size() - 1);
  }
  return at->second;
}

SetId Sets::intern(Kind kind, std::vector<SetId> parts) {
  WorkLimit::spend(20 + static_cast<int64_t>(parts.size()));
  const auto [at, fresh] = interned_.try_emplace({kind, parts}, 0);
  if (fresh) {
    if (expressions_.size() >= kMaxExpressions) throw TooLarge("it has too many parts");
    Expression expression;
    expression.kind = kind;
    expression.parts = std::move(parts);
    expressions_.push_back(std::move(expression));
    at->second = static_cast<SetId>(expressions_.size() - 1);
  }
  return at->second;
}

SetId Sets::all_of(const std::vector<SetId>& parts) {
  std::vector<SetId> flat;
  const auto put = [&](SetId part) {
    if (part != kAny && std::ranges::find(flat, part) == flat.end()) flat.push_back(part);
  };
  for (const SetId part : parts) {
    if (expressions_[part].kind == Kind::all_of) {
      for (const SetId inner : expressions_[part].parts) put(inner);
    } else {
      put(part);
    }
  }
  for (const SetId part : flat) {
    if (part == kNone) return kNone;
    const auto& expression = expressions_[part];
    if (expression.kind == Kind::none_of &&
        std::ranges::find(flat, expression.parts[0]) != flat.end()) {
      return kNone;
    }
  }
  if (flat.empty()) return kAny;
  return flat.size() == 1 ? flat[0] : intern(Kind::all_of, std::move(flat));
}

SetId Sets::any_of(const std::vector<SetId>& parts) {
  std::vector<SetId> flat;
  for (const SetId part : parts) {
    if (part == kAny) return kAny;
    if (part != kNone && std::ranges::find(flat, part) == flat.end()) flat.push_back(part);
  }
  if (flat.empty()) return kNone;
  return flat.size() == 1 ? flat[0] : intern(Kind::any_of, std::move(flat));
}

SetId Sets::none_of(SetId part) {
  if (part == kAny) return kNone;
  if (part == kNone) return kAny;
  const Expression& expression = expressions_[part];
  if (expression.kind == Kind::none_of) return expression.parts[0];
  if (expression.kind == Kind::all_of || expression.kind == Kind::any_of) {
    std::vector<SetId> parts;
    const bool all = expression.kind == Kind::all_of;
    for (const SetId inner : std::vector(expression.parts)) parts.push_back(none_of(inner));
    return all ? any_of(parts) : all_of(parts);
  }
  return intern(Kind::none_of, {part});
}

SetId Sets::one_of(const std::vector<SetId>& parts) {
  std::vector<SetId> alternatives;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<SetId> conditions{parts[i]};
    for (size_t j = 0; j < parts.size(); ++j) {
      if (j != i && !empty(all_of({parts[std::min(i, j)], parts[std::max(i, j)]}))) {
        conditions.push_back(none_of(parts[j]));
      }
    }
    alternatives.push_back(all_of(conditions));
  }
  return any_of(alternatives);
}

const Values& Sets::values(SetId id) {
  if (expressions_[id].known) return *expressions_[id].known;
  if (expressions_[id].in_work) throw EndlessReference("it leads to itself");
  if (depth_ >= kMaxDepth) throw TooLarge("references and combinations are nested too deep");
  const Deeper deeper(depth_);
  expressions_[id].in_work = true;
  struct Done {
    bool& flag;
    ~Done() { flag = false; }
  } const done{expressions_[id].in_work};
  expressions_[id].known = std::make_shared<const Values>(work_out(id));
  return *expressions_[id].known;
}

Values Sets::work_out(SetId id) {
  const Expression& expression = expressions_[id];
  switch (expression.kind) {
    case Kind::schema:
      return values(lower_(*expression.schema));
    case Kind::none_of:
      return complement(values(expression.parts[0]));
    case Kind::all_of: {
      Values sum = values(expression.parts[0]);
      for (size_t i = 1; i < expression.parts.size(); ++i) {
        sum = intersection(sum, values(expression.parts[i]));
      }
      return sum;
    }
    default: {
      Values sum;
      for (const SetId part : expression.parts) sum = united(sum, values(part));
      return sum;
    }
  }
}

bool Sets::within(SetId a, SetId b) const {
  if (a == b || a == kNone || b == kAny) return true;
  const auto parts_of = [&](const SetId& id) {
    return expressions_[id].kind == Kind::all_of ? std::span<const SetId>(expressions_[id].parts)
                                                 : std::span(&id, 1);
  };
  const auto of_a = parts_of(a), of_b = parts_of(b);
  return std::ranges::all_of(
      of_b, [&](SetId part) { return std::ranges::find(of_a, part) != of_a.end(); });
}

bool Sets::within(const ObjectShape& a, const ObjectShape& b) const {
  if (b.least > a.least || b.most < a.most) return false;
  for (const auto& some : b.some) {
    if (std::ranges::find(a.some, some) == a.some.end()) return false;
    for (const auto& property : b.properties) {
      if (a.find(property.name) == nullptr && some.keys->accepts(property.name)) return false;
    }
  }
  for (const auto& property : b.properties) {
    const Property* own = a.find(property.name);
    if (property.required && (own == nullptr || !own->required)) return false;
    if (property.value == kAny) continue;
    if (!within(own != nullptr ? own->value : a.value_of(property.name), property.value))
      return false;
  }
  if (b.other == kAny && b.classes.empty()) return true;
  if (!within(a.other, b.other) || a.classes != b.classes) return false;
  return std::ranges::all_of(a.properties, [&](const Property& property) {
    return b.find(property.name) != nullptr || within(property.value, b.value_of(property.name));
  });
}

void Sets::absorb(std::vector<ObjectShape>& sum, const ObjectShape& shape) const {
  WorkLimit::spend(static_cast<int64_t>(sum.size() * (shape.properties.size() + 1)));
  if (std::ranges::any_of(sum, [&](const auto& known) { return within(shape, known); })) return;
  std::erase_if(sum, [&](const auto& known) { return within(known, shape); });
  sum.push_back(shape);
  if (sum.size() > kMaxShapes) throw TooLarge("it has more than 1,000 alternatives");
}

const OrderedJson* Sets::origin(SetId id) const {
  const Expression& expression = expressions_[id];
  if (expression.schema != nullptr) return expression.schema;
  for (const SetId part : expression.parts) {
    if (const OrderedJson* found = origin(part)) return found;
  }
  return nullptr;
}

bool Sets::empty(SetId id) {
  if (id <= kNone) return id == kNone;
  Expression& expression = expressions_[id];
  if (expression.emptiness >= 0) return expression.emptiness == 1;
  if (expression.asked || expression.in_work || asking_ >= kMaxAsking) return false;
  const Deeper asking(asking_);
  expression.asked = true;
  struct Done {
    bool& flag;
    ~Done() { flag = false; }
  } const done{expression.asked};
  try {
    const Values& found = values(id);
    const bool none = !found.null && !found.yes && !found.no && found.numbers.in->empty() &&
                      found.strings.empty() &&
                      std::ranges::all_of(found.arrays, [&](auto& s) { return impossible(s); }) &&
                      std::ranges::all_of(found.objects, [&](auto& s) { return impossible(s); });
    if (none || asking_ == 1) expression.emptiness = none ? 1 : 0;
    return none;
  } catch (const EndlessReference&) {
    if (asking_ == 1 && depth_ == 0) throw;
    return false;
  }
}

}  // namespace plimsoll::grammar
