// Calls as nested elements (MiniMax M3): an element for the function, elements named by parameter
// within it, and elements within those for objects and lists.
#include <algorithm>
#include <utility>

#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"
#include "text/answer/typed_values.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMostElements = 4096;  // of one answer

struct Element {
  std::string_view name;
  std::string text;  // its own, without that of the elements within
  std::vector<Element> within;
};

const OrderedJson* member(const OrderedJson* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

bool names_type(const OrderedJson& schema, const char* kind) {
  const auto type = schema.find("type");
  if (type == schema.end()) return false;
  return *type == kind || (type->is_array() && std::ranges::find(*type, kind) != type->end());
}

/// The first alternative of a schema that is of a list or an object; null: none is.
const OrderedJson* container_schema(const OrderedJson* schema, int level = 0) {
  if (schema == nullptr || !schema->is_object() || level > kMostLevels) return nullptr;
  if (names_type(*schema, "array") || names_type(*schema, "object")) return schema;
  const bool typed = schema->contains("type");
  for (const char* key : {"items", "properties", "additionalProperties"}) {
    if (!typed && schema->contains(key)) return schema;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const OrderedJson* choices = member(schema, key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const OrderedJson& choice : *choices) {
      if (const OrderedJson* found = container_schema(&choice, level + 1)) return found;
    }
  }
  return nullptr;
}

bool is_list(const OrderedJson& container) {
  return names_type(container, "array") ||
         (!names_type(container, "object") && container.contains("items"));
}

std::string json_of_object(const std::vector<Element>& elements, const OrderedJson* schema);

std::string json_of_element(const Element& element, const OrderedJson* schema) {
  const OrderedJson* container = container_schema(schema);
  const bool list = container != nullptr && is_list(*container);
  if (element.within.empty()) {
    const ValueType type = type_of(schema);
    // An empty list or object is an empty element.
    if (container != nullptr && type.name != "string" && is_blank(element.text)) {
      return list ? "[]" : "{}";
    }
    return json_of_value(element.text, type, false);
  }
  if (!list) return json_of_object(element.within, container);
  std::string json = "[";
  for (const Element& item : element.within) {
    if (json.size() > 1) json += ", ";
    json += json_of_element(item, member(container, "items"));
  }
  return json + "]";
}

/// Elements as the members of an object; those of one name become a list.
std::string json_of_object(const std::vector<Element>& elements, const OrderedJson* schema) {
  struct Member {
    std::string_view name;
    std::string json;
    size_t count = 0;
  };
  std::vector<Member> members;
  for (const Element& element : elements) {
    const OrderedJson* described = member(member(schema, "properties"), std::string(element.name));
    if (described == nullptr) described = member(schema, "additionalProperties");
    std::string json = json_of_element(element, described);
    const auto known = std::ranges::find(members, element.name, &Member::name);
    if (known == members.end()) {
      members.push_back({element.name, std::move(json), 1});
    } else {
      known->json += ", " + json;
      ++known->count;
    }
  }
  std::string json = "{";
  for (const Member& each : members) {
    if (json.size() > 1) json += ", ";
    json += json_quoted(each.name) + ": ";
    json += each.count > 1 ? "[" + each.json + "]" : each.json;
  }
  return json + "}";
}

class NestedReader : private TextReader {
 public:
  NestedReader(std::string_view mark, const CallText& from, const OrderedJson& tools)
      : TextReader(from.text, from.at), mark_(mark), from_(from), tools_(tools) {}

  CallsEnd read(std::vector<ToolCall>& calls) {
    while (true) {
      skip_space();
      if (skip(from_.end)) return at_;
      if (at_end()) return calls.empty() ? CallsEnd() : at_;
      std::optional<ToolCall> call = read_call();
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
    }
  }

 private:
  bool skip_tag(std::string_view tag) {
    if (!rest().starts_with(mark_) || !rest().substr(mark_.size()).starts_with(tag)) return false;
    at_ += mark_.size() + tag.size();
    return true;
  }

  std::optional<ToolCall> read_call() {
    if (!skip_tag("<invoke name=")) return std::nullopt;
    std::optional<std::string_view> name = up_to(">", kLongestName);
    if (!name) return std::nullopt;
    // In either kind of quotes, or none.
    for (const char quote : {'"', '\''}) {
      if (name->size() < 2 || name->front() != quote || name->back() != quote) continue;
      *name = name->substr(1, name->size() - 2);
    }
    if (name->empty()) return std::nullopt;
    std::vector<Element> parameters;
    while (true) {
      skip_space();
      if (skip_tag("</invoke>")) break;
      Element parameter;
      if (!read_element(parameter, 1)) return std::nullopt;
      parameters.push_back(std::move(parameter));
    }
    const OrderedJson* schema = function_schema(tools_, *name);
    return ToolCall{"", std::string(*name), json_of_object(parameters, schema)};
  }

  bool read_element(Element& element, int level) {
    if (level > kMostLevels || ++count_ > kMostElements || !skip_tag("<")) return false;
    const std::optional<std::string_view> name = up_to(">", kLongestName);
    if (!name || is_blank(*name) || name->starts_with('/')) return false;
    element.name = *name;
    const std::string closing = "</" + std::string(*name) + ">";
    while (true) {
      const size_t next = text_.find(mark_, at_);
      if (next == kNowhere) return false;
      element.text += text_.substr(at_, next - at_);
      at_ = next;
      if (skip_tag(closing)) break;
      if (!read_element(element.within.emplace_back(), level + 1)) return false;
    }
    // Text beside elements is a member of its own.
    if (!element.within.empty() && !is_blank(element.text)) {
      element.within.push_back({"$text", std::exchange(element.text, {}), {}});
    }
    return true;
  }

  std::string_view mark_;
  const CallText& from_;
  const OrderedJson& tools_;
  size_t count_ = 0;
};

}  // namespace

CallsEnd read_nested_calls(std::string_view mark, const CallText& from, const OrderedJson& tools,
                           std::vector<ToolCall>& calls) {
  return NestedReader(mark, from, tools).read(calls);
}

}  // namespace plimsoll::text
