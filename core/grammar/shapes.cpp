#include "grammar/shapes.h"

#include <algorithm>

namespace plimsoll::grammar {
namespace {

void check_count(size_t count) {
  if (count > kMaxShapes) throw TooLarge("it has more than 1,000 alternatives");
}

DfaPtr both(const DfaPtr& a, const DfaPtr& b, BothWays how) {
  if (a == b && how != BothWays::difference) return a;
  if (how == BothWays::intersection && a->universal()) return b;
  if (how == BothWays::intersection && b->universal()) return a;
  return share(combine(*a, *b, how));
}

const DfaPtr& every_text() {
  static const DfaPtr dfa = share(all_texts());
  return dfa;
}

std::vector<StringPart> intersection(const std::vector<StringPart>& a,
                                     const std::vector<StringPart>& b) {
  std::vector<StringPart> out;
  for (const auto& x : a) {
    for (const auto& y : b) {
      StringPart part{both(x.texts, y.texts, BothWays::intersection), std::max(x.least, y.least),
                      std::min(x.most, y.most)};
      if (has_length(*part.texts, part.least, part.most)) out.push_back(std::move(part));
    }
  }
  check_count(out.size());
  return out;
}

std::vector<StringPart> complement(const std::vector<StringPart>& a) {
  std::vector<StringPart> out = {{every_text(), 0, kNoBound}};
  for (const auto& part : a) {
    std::vector<StringPart> others;
    if (!part.texts->universal())
      others.push_back({share(complement_of(*part.texts)), 0, kNoBound});
    if (part.least > 0) others.push_back({every_text(), 0, part.least - 1});
    if (part.most != kNoBound) others.push_back({every_text(), part.most + 1, kNoBound});
    out = intersection(out, others);
  }
  return out;
}

void unite(std::vector<StringPart>& sum, const StringPart& part) {
  for (auto& known : sum) {
    if (known.least == part.least && known.most == part.most) {
      known.texts = both(known.texts, part.texts, BothWays::union_);
      return;
    }
  }
  sum.push_back(part);
}

template <typename Shape>
void unite(std::vector<Shape>& sum, const Shape& shape) {
  if (std::ranges::find(sum, shape) == sum.end()) sum.push_back(shape);
  check_count(sum.size());
}

// Keys of `keys` that are no names of `shape`.
DfaPtr without_names(const DfaPtr& keys, const ObjectShape& shape) {
  std::vector<std::string> names;
  for (const auto& property : shape.properties) names.push_back(property.name);
  return names.empty() ? keys : share(combine(*keys, texts(names), BothWays::difference));
}

DfaPtr keys_of_no_class(const ObjectShape& shape) {
  Dfa keys;
  for (const auto& c : shape.classes) keys = combine(keys, *c.keys, BothWays::union_);
  return share(complement_of(keys));
}

}  // namespace

const Property* ObjectShape::find(const std::string& name) const {
  const auto found = std::ranges::find(properties, name, &Property::name);
  return found == properties.end() ? nullptr : &*found;
}

SetId ObjectShape::value_of(const std::string& name) const {
  if (const Property* property = find(name)) return property->value;
  for (const auto& c : classes) {
    if (c.keys->accepts(name)) return c.value;
  }
  return other;
}

Values Sets::intersection(const Values& a, const Values& b) {
  WorkLimit::spend(100);
  Values out;
  out.null = a.null && b.null;
  out.yes = a.yes && b.yes;
  out.no = a.no && b.no;
  out.numbers = intersection_of(a.numbers, b.numbers);
  out.strings = grammar::intersection(a.strings, b.strings);
  out.arrays = intersection(a.arrays, b.arrays);
  out.objects = intersection(a.objects, b.objects);
  return out;
}

Values Sets::united(const Values& a, const Values& b) {
  WorkLimit::spend(100);
  Values out = a;
  out.null |= b.null;
  out.yes |= b.yes;
  out.no |= b.no;
  out.numbers = union_of(a.numbers, b.numbers);
  for (const auto& part : b.strings) unite(out.strings, part);
  for (const auto& shape : b.arrays) unite(out.arrays, shape);
  for (const auto& shape : b.objects) absorb(out.objects, shape);
  return out;
}

Values Sets::complement(const Values& a) {
  Values out;
  out.null = !a.null;
  out.yes = !a.yes;
  out.no = !a.no;
  out.numbers = complement_of(a.numbers);
  out.strings = grammar::complement(a.strings);
  out.arrays.emplace_back();
  for (const auto& shape : a.arrays) out.arrays = intersection(out.arrays, complement(shape));
  out.objects.emplace_back();
  for (const auto& shape : a.objects) out.objects = intersection(out.objects, complement(shape));
  return out;
}

std::vector<ArrayShape> Sets::intersection(const std::vector<ArrayShape>& a,
                                           const std::vector<ArrayShape>& b) {
  std::vector<ArrayShape> out;
  for (const auto& x : a) {
    for (const auto& y : b) {
      const ArrayShape shape = intersection(x, y);
      if (!impossible(shape)) unite(out, shape);
    }
  }
  return out;
}

ArrayShape Sets::intersection(const ArrayShape& a, const ArrayShape& b) {
  WorkLimit::spend(100);
  ArrayShape out;
  const size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  for (size_t i = 0; i < prefix; ++i) {
    out.prefix.push_back(all_of(
        {i < a.prefix.size() ? a.prefix[i] : a.rest, i < b.prefix.size() ? b.prefix[i] : b.rest}));
  }
  out.rest = all_of({a.rest, b.rest});
  out.least = std::max(a.least, b.least);
  out.most = std::min(a.most, b.most);
  out.contains = a.contains;
  for (const auto& c : b.contains) {
    if (std::ranges::find(out.contains, c) == out.contains.end()) out.contains.push_back(c);
  }
  out.unique_at = a.unique_at.empty() ? b.unique_at : a.unique_at;
  return out;
}

bool Sets::impossible(const ArrayShape& shape) {
  if (shape.least > shape.most) return true;
  for (size_t i = 0; i < shape.prefix.size() && i < shape.least; ++i) {
    if (empty(shape.prefix[i])) return true;
  }
  if (shape.least > shape.prefix.size() && empty(shape.rest)) return true;
  return std::ranges::any_of(shape.contains, [&](const Contains& c) {
    return c.least > c.most || (c.least > 0 && empty(c.item));
  });
}

std::vector<ArrayShape> Sets::complement(const ArrayShape& shape) {
  if (!shape.unique_at.empty()) throw TooLarge("the opposite of uniqueItems is not supported");
  std::vector<ArrayShape> out;
  for (size_t i = 0; i < shape.prefix.size(); ++i) {
    if (shape.prefix[i] == kAny) continue;
    ArrayShape other;
    other.prefix.assign(i, kAny);
    other.prefix.push_back(none_of(shape.prefix[i]));
    other.least = i + 1;
    unite(out, other);
  }
  if (shape.rest == kNone) {
    unite(out, ArrayShape{.prefix = {},
                          .rest = kAny,
                          .least = shape.prefix.size() + 1,
                          .most = kNoBound,
                          .contains = {},
                          .unique_at = {}});
  } else if (shape.rest != kAny) {
    ArrayShape other;
    other.contains = {{none_of(shape.rest), 1, kNoBound, shape.prefix.size()}};
    unite(out, other);
  }
  ArrayShape fewer, more;
  fewer.most = shape.least - 1;
  if (shape.least > 0) unite(out, fewer);
  more.least = shape.most + 1;
  if (shape.most != kNoBound) unite(out, more);
  for (const auto& c : shape.contains) {
    ArrayShape below, above;
    below.contains = {{c.item, 0, c.least - 1, c.from}};
    if (c.least > 0) unite(out, below);
    above.contains = {{c.item, c.most + 1, kNoBound, c.from}};
    if (c.most != kNoBound) unite(out, above);
  }
  std::erase_if(out, [&](const ArrayShape& s) { return impossible(s); });
  return out;
}

// `shape` with a Property for each name of `names`.
std::vector<ObjectShape> Sets::declared(const ObjectShape& shape, const ObjectShape& names) {
  std::vector<ObjectShape> out{shape};
  for (const auto& property : names.properties) {
    if (shape.find(property.name) != nullptr) continue;
    const SetId value = shape.value_of(property.name);
    WorkLimit::spend(static_cast<int64_t>(out.size()) * 10);
    for (size_t i = out.size(); i-- > 0;) {
      // The key alone may be what a member of `some` asks for.
      for (size_t k = 0; k < out[i].some.size(); ++k) {
        if (!out[i].some[k].keys->accepts(property.name)) continue;
        ObjectShape met = out[i];
        met.some.erase(met.some.begin() + static_cast<long>(k));
        met.properties.push_back(
            {property.name, all_of({value, out[i].some[k].value}), true, false});
        out.push_back(std::move(met));
        check_count(out.size());
      }
      out[i].properties.push_back({property.name, value, false, false});
    }
  }
  return out;
}

std::vector<ObjectShape> Sets::intersection(const std::vector<ObjectShape>& a,
                                            const std::vector<ObjectShape>& b) {
  std::vector<ObjectShape> out;
  for (const auto& x : a) {
    for (const auto& y : b) {
      for (const auto& p : declared(x, y)) {
        for (const auto& q : declared(y, x)) {
          const ObjectShape shape = intersection(p, q);
          if (!impossible(shape)) absorb(out, shape);
        }
      }
    }
  }
  return out;
}

// Both shapes list the same names.
ObjectShape Sets::intersection(const ObjectShape& a, const ObjectShape& b) {
  WorkLimit::spend(100 + 10 * static_cast<int64_t>(a.properties.size()));
  ObjectShape out;
  std::map<std::string_view, const Property*> in_a, in_b;
  for (const auto& property : a.properties) in_a.emplace(property.name, &property);
  for (const auto& property : b.properties) in_b.emplace(property.name, &property);
  const auto add = [&](const std::string& name) {
    const Property &x = *in_a.at(name), &y = *in_b.at(name);
    out.properties.push_back(
        {name, all_of({x.value, y.value}), x.required || y.required, x.listed || y.listed});
  };
  // Names that a lists, that b alone lists, and the others.
  for (const auto& p : a.properties) {
    if (p.listed) add(p.name);
  }
  for (const auto& p : b.properties) {
    if (p.listed && !in_a.at(p.name)->listed) add(p.name);
  }
  for (const auto& p : a.properties) {
    if (!p.listed && !in_b.at(p.name)->listed) add(p.name);
  }
  const auto add_class = [&](DfaPtr keys, SetId value) {
    if (!keys->empty() && value != out.other) out.classes.push_back({std::move(keys), value});
  };
  out.other = all_of({a.other, b.other});
  for (const auto& x : a.classes) {
    DfaPtr left = x.keys;
    for (const auto& y : b.classes) {
      add_class(both(x.keys, y.keys, BothWays::intersection), all_of({x.value, y.value}));
      left = both(left, y.keys, BothWays::difference);
    }
    add_class(left, all_of({x.value, b.other}));
  }
  for (const auto& y : b.classes) {
    DfaPtr left = y.keys;
    for (const auto& x : a.classes) left = both(left, x.keys, BothWays::difference);
    add_class(left, all_of({a.other, y.value}));
  }
  out.least = std::max(a.least, b.least);
  out.most = std::min(a.most, b.most);
  out.some = a.some;
  for (const auto& s : b.some) unite(out.some, s);
  return out;
}

bool Sets::impossible(const ObjectShape& shape) {
  if (shape.least > shape.most) return true;
  uint64_t required = 0;
  for (const auto& property : shape.properties) {
    required += property.required ? 1 : 0;
    if (property.required && empty(property.value)) return true;
  }
  if (required > shape.most) return true;
  if (shape.least > 0 && shape.other == kNone && shape.classes.empty()) {
    uint64_t possible = 0;
    for (const auto& property : shape.properties) possible += property.value != kNone ? 1 : 0;
    if (possible < shape.least) return true;
  }
  return std::ranges::any_of(shape.some, [&](const KeyClass& c) {
    if (c.keys->empty() || empty(c.value)) return true;
    if (shape.other != kNone) return false;
    return std::ranges::all_of(shape.classes, [&](const KeyClass& k) {
      return both(k.keys, c.keys, BothWays::intersection)->empty();
    });
  });
}

std::vector<ObjectShape> Sets::complement(const ObjectShape& shape) {
  std::vector<ObjectShape> out;
  for (const auto& property : shape.properties) {
    ObjectShape missing, wrong;
    missing.properties = {{property.name, kNone, false, false}};
    if (property.required) unite(out, missing);
    wrong.properties = {{property.name, none_of(property.value), true, false}};
    if (property.value != kAny && !empty(none_of(property.value))) unite(out, wrong);
  }
  const auto some = [&](const DfaPtr& keys, SetId value) {
    if (value == kAny) return;
    ObjectShape other;
    other.some = {{without_names(keys, shape), none_of(value)}};
    // The names of `shape` are none of these keys, which a Property says.
    if (!other.some[0].keys->empty()) unite(out, other);
  };
  for (const auto& c : shape.classes) some(c.keys, c.value);
  if (shape.other != kAny) some(keys_of_no_class(shape), shape.other);
  ObjectShape fewer, more;
  fewer.most = shape.least - 1;
  if (shape.least > 0) unite(out, fewer);
  more.least = shape.most + 1;
  if (shape.most != kNoBound) unite(out, more);
  for (const auto& c : shape.some) {
    ObjectShape without;
    without.classes = {{without_names(c.keys, shape), none_of(c.value)}};
    unite(out, without);
  }
  std::erase_if(out, [&](const ObjectShape& s) { return impossible(s); });
  return out;
}

}  // namespace plimsoll::grammar
