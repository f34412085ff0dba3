// Schemas and answers drawn at random: the grammar takes an answer with its keys in one order or
// another just where the validator, which takes any order, finds nothing wrong.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "grammar/grammar.h"
#include "like_cases.h"
#include "reference/recognizer.h"

using namespace plimsoll;

namespace {

const std::vector<std::string> kNames = {"a", "ab", "b"};

/// Draws schemas of a few keywords, over values so few that answers often meet them.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  size_t below(size_t count) { return random_() % count; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  const std::string& name() { return kNames[below(kNames.size())]; }

  /// A value of an answer, `depth` levels deep at most. Keys are in order.
  OrderedJson value(int depth) {
    switch (below(depth > 0 ? 9 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return chance(2);
      case 2:
        return below(4);
      case 3:
        return 0.5 * static_cast<double>(below(7));
      case 4:
      case 5:
        return std::vector<std::string>{"", "a", "ab", "b", "ba", "abc"}[below(6)];
      case 6:
        return array(depth);
      default: {
        OrderedJson object = OrderedJson::object();
        for (const std::string& name : kNames)
          if (chance(2)) object[name] = value(depth - 1);
        return object;
      }
    }
  }

  OrderedJson array(int depth) {
    OrderedJson array = OrderedJson::array();
    for (size_t i = below(4); i > 0; --i) array.push_back(value(depth - 1));
    return array;
  }

  OrderedJson schema(int depth) {
    if (chance(12)) return chance(3) ? OrderedJson(false) : OrderedJson(true);
    OrderedJson schema = OrderedJson::object();
    if (!chance(4)) schema["type"] = type();
    for (size_t i = below(3); i > 0; --i) add_assertion(schema, depth);
    if (depth > 0)
      for (size_t i = below(3); i > 0; --i) add_applicator(schema, depth - 1);
    return schema;
  }

 private:
  OrderedJson type() {
    const std::vector<std::string> types = {"object", "object",  "array",  "array",
                                            "string", "integer", "number", "boolean"};
    if (!chance(5)) return types[below(types.size())];
    const size_t first = below(types.size());
    return {types[first], first == 7 ? "null" : "boolean"};
  }

  void add_assertion(OrderedJson& schema, int depth) {
    const auto count = [&] { return below(3); };
    switch (below(16)) {
      case 0:
        schema["enum"] = {value(depth), value(0), value(0)};
        break;
      case 1:
        schema["const"] = value(depth);
        break;
      case 2:
        schema["minimum"] = count();
        break;
      case 3:
        schema["exclusiveMaximum"] = 1 + count();
        break;
      case 4:
        schema["multipleOf"] = chance(2) ? OrderedJson(2) : OrderedJson(0.5);
        break;
      case 5:
        schema["minLength"] = count();
        break;
      case 6:
        schema["maxLength"] = count();
        break;
      case 7:
        schema["pattern"] = std::vector<std::string>{"^a", "b$", "ab?", "^(a|ba)*$"}[below(4)];
        break;
      case 8:
        schema["minItems"] = count();
        break;
      case 9:
        schema["maxItems"] = count();
        break;
      case 10:
        schema["uniqueItems"] = true;
        break;
      case 11:
        schema["minProperties"] = count();
        break;
      case 12:
        schema["maxProperties"] = count();
        break;
      case 13:
        schema["dependentRequired"] = {{name(), {name()}}};
        break;
      default:
        schema["required"] = {name()};
    }
  }

  void add_applicator(OrderedJson& schema, int depth) {
    const auto several = [&] { return OrderedJson{this->schema(depth), this->schema(depth)}; };
    switch (below(20)) {
      case 0:
        schema["items"] = this->schema(depth);
        break;
      case 1:
        schema["prefixItems"] = several();
        break;
      case 2:
        schema["contains"] = this->schema(depth);
        break;
      case 3:
        schema["contains"] = this->schema(depth);
        schema["minContains"] = below(3);
        schema["maxContains"] = 1 + below(2);
        break;
      case 4:
        schema["additionalProperties"] = this->schema(depth);
        break;
      case 5:
        schema["patternProperties"] = {{chance(2) ? "^a" : "b$", this->schema(depth)}};
        break;
      case 6:
        schema["propertyNames"] = {{"maxLength", 1 + below(2)}};
        break;
      case 7:
        schema["allOf"] = several();
        break;
      case 8:
        schema["anyOf"] = several();
        break;
      case 9:
        schema["oneOf"] = several();
        break;
      case 10:
      case 17:
        schema["not"] = this->schema(depth);
        break;
      case 18:
      case 19:  // the opposite of items at their places has lengths of its own
        schema["type"] = "array";
        schema["not"] = {{"prefixItems", several()}};
        break;
      case 11:
        schema["if"] = this->schema(depth);
        if (!chance(3)) schema["then"] = this->schema(depth);
        if (!chance(3)) schema["else"] = this->schema(depth);
        break;
      case 12:
        schema["dependentSchemas"] = {{name(), this->schema(depth)}};
        break;
      case 13:
        schema["unevaluatedProperties"] = this->schema(depth);
        break;
      default: {
        OrderedJson properties = OrderedJson::object();
        for (const std::string& name : kNames)
          if (chance(2)) properties[name] = this->schema(depth);
        schema["properties"] = properties;
      }
    }
  }

  std::mt19937 random_;
};

/// The answer with the keys of its objects in each order.
std::vector<std::string> texts_of(const OrderedJson& value) {
  if (!value.is_structured() || value.empty()) return {value.dump()};
  std::vector<std::vector<std::string>> members;  // the texts of each
  for (const auto& [key, inner] : value.items()) {
    members.push_back(texts_of(inner));
    if (value.is_object())
      for (std::string& text : members.back()) text = OrderedJson(key).dump() + ":" + text;
  }
  std::vector<size_t> order(members.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::string> texts;
  do {
    std::vector<std::string> begun = {""};
    for (const size_t member : order) {
      std::vector<std::string> longer;
      for (const std::string& start : begun)
        for (const std::string& text : members[member])
          longer.push_back(start.empty() ? text : start + "," + text);
      begun = std::move(longer);
    }
    for (const std::string& text : begun)
      texts.push_back(value.is_object() ? "{" + text + "}" : "[" + text + "]");
  } while (value.is_object() && std::next_permutation(order.begin(), order.end()));
  return texts;
}

}  // namespace

TEST_CASE("grammars and the validator agree on schemas and answers drawn at random") {
  int compared = 0, valid = 0;
  for (int round = 0; round < testing::times(1800, 150); ++round) {
    Draw draw(round);
    const OrderedJson drawn = draw.schema(2);
    const bool asks_for_array = drawn.contains("type") && drawn["type"] == "array";
    const std::string schema = drawn.dump();
    std::optional<testing::Recognizer> grammar;
    const grammar::JsonSchema parsed(schema);
    try {
      grammar.emplace(parsed.ebnf({}));
    } catch (const Error&) {
      continue;  // refused by name: nothing is taken
    }
    for (int answer = 0; answer < 12; ++answer) {
      const bool is_array = asks_for_array && answer % 3 == 0;
      const OrderedJson value = is_array ? draw.array(2) : draw.value(2);
      const std::vector<std::string> texts = texts_of(value);
      if (texts.size() > 100) continue;
      const bool is_valid = parsed.refuse(texts.front()).empty();
      const bool taken = std::ranges::any_of(
          texts, [&](const std::string& text) { return grammar->accepts(text); });
      INFO("round " << round << ": " << schema << " beside " << texts.front());
      CHECK(taken == is_valid);
      ++compared;
      valid += is_valid ? 1 : 0;
    }
  }
  CHECK(compared > 800);
  CHECK(valid * 5 > compared);
}
