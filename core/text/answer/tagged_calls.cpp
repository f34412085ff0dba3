// Calls as elements: <function=NAME> <parameter=KEY> VALUE </parameter> </function> and its kin.
#include <algorithm>
#include <charconv>
#include <utility>

#include "base/lower_case.h"
#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMostParameters = 1024;

constexpr size_t kLongestAttributes = 64;
// Malformed calls make the reader look for tags again and again: so often through the whole text.
constexpr size_t kMostLooks = 16;

/// The schema of a function's parameter; null: the request has none.
const OrderedJson* parameter_schema(const OrderedJson& tools, std::string_view function,
                                    std::string_view parameter) {
  if (!tools.is_array()) return nullptr;
  for (const OrderedJson& tool : tools) {
    if (!tool.is_object()) continue;
    const OrderedJson& described =
        tool.contains("function") && tool["function"].is_object() ? tool["function"] : tool;
    const auto name = described.find("name");
    if (name == described.end() || *name != function) continue;
    const auto parameters = described.find("parameters");
    if (parameters == described.end() || !parameters->is_object()) continue;
    const auto properties = parameters->find("properties");
    if (properties == parameters->end() || !properties->is_object()) continue;
    const auto found = properties->find(parameter);
    if (found != properties->end()) return &*found;
  }
  return nullptr;
}

/// A parameter's type by its schema, as vLLM reads it: the first that is not null.
struct Type {
  std::string name;  // lower case; empty: the schema names none
  bool nullable = false;

  void add(const OrderedJson& type) {
    if (!type.is_string()) return;
    const std::string lower = plimsoll::lower_case(type.get<std::string>());
    if (lower == "null") {
      nullable = true;
    } else if (name.empty()) {
      name = lower;
    }
  }
};

Type type_of(const OrderedJson& schema) {
  Type type;
  if (!schema.is_object()) return type;
  const auto add = [&](const OrderedJson& given) {
    if (!given.is_array()) return type.add(given);
    for (const OrderedJson& one : given) type.add(one);
  };
  if (schema.contains("type")) add(schema["type"]);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword) || !schema[keyword].is_array()) continue;
    for (const OrderedJson& option : schema[keyword]) {
      if (option.is_object() && option.contains("type")) add(option["type"]);
    }
  }
  return type;
}

bool is_among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts,
                             [&](std::string_view start) { return name.starts_with(start); });
}

/// A text that JSON reads as a number, and that may be a whole one alone.
std::optional<std::string> json_number(std::string_view text, bool whole) {
  JsonReader reader(text, 0);
  if (reader.peek() != '-' && (reader.peek() < '0' || reader.peek() > '9')) return std::nullopt;
  std::optional<std::string> number = reader.value();
  if (!number || !reader.at_end()) return std::nullopt;
  if (whole && number->find_first_of(".eE") != std::string::npos) return std::nullopt;
  return number;
}

/// A value as JSON. A value that is not of its parameter's type stays a string.
std::string json_of_value(std::string_view value, const OrderedJson* schema, bool guesses) {
  const Type type = schema != nullptr ? type_of(*schema) : Type{};
  const std::string_view bare = trimmed(value, kBlanks);
  const std::string lower = plimsoll::lower_case(std::string(bare));
  const bool is_null = lower == "null" || lower == "none";
  if (is_null && type.nullable) return "null";
  if (is_among(type.name, {"string", "str", "text", "varchar", "char", "enum"})) {
    return json_quoted(value);
  }
  if (type.name.empty()) {
    if (!guesses) return json_quoted(value);
    return json_of_literal(value).value_or(json_quoted(value));
  }
  if (is_null) return "null";
  if (starts_with_any(type.name, {"int", "uint", "long", "short", "unsigned"})) {
    return json_number(bare, true).value_or(json_quoted(value));
  }
  if (starts_with_any(type.name, {"num", "float"})) {
    return json_number(bare, false).value_or(json_quoted(value));
  }
  if (is_among(type.name, {"boolean", "bool", "binary"})) {
    return lower == "true" || lower == "false" ? lower : json_quoted(value);
  }
  return json_of_literal(value).value_or(json_quoted(value));
}

class TaggedReader : private TextReader {
 public:
  TaggedReader(const CallTags& tags, const CallText& from, const OrderedJson& tools)
      : TextReader(from.text, from.at), tags_(tags), from_(from), tools_(tools) {}

  CallsEnd read(std::vector<ToolCall>& calls) {
    while (true) {
      skip_space();
      if (!from_.end.empty() && skip(from_.end)) return at_;
      if (at_ == text_.size()) return calls.empty() ? CallsEnd() : at_;
      // Without a closing marker one call is all.
      if (from_.end.empty() && !calls.empty()) return at_;
      std::optional<ToolCall> call = read_call();
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
    }
  }

 private:
  std::optional<ToolCall> read_call() {
    ToolCall call;
    if (!skip(tags_.call_open)) return std::nullopt;
    const std::optional<std::string> name =
        tags_.call_open.empty() ? bare_name() : up_to(tags_.key_close, kLongestName);
    if (!name || name->empty()) return std::nullopt;
    if (!tags_.call_open.empty() && !skip_attributes()) return std::nullopt;
    call.name = *name;
    std::vector<std::pair<std::string, std::string>> values;
    while (true) {
      skip_space();
      if (tags_.call_close.empty() ? rest().starts_with(from_.end) : skip(tags_.call_close)) break;
      if (values.size() == kMostParameters || !read_parameter(call.name, values)) {
        return std::nullopt;
      }
    }
    call.arguments = "{";
    for (const auto& [key, value] : values) {
      if (call.arguments.size() > 1) call.arguments += ", ";
      call.arguments += json_quoted(key) + ": " + value;
    }
    call.arguments += '}';
    return call;
  }

  bool read_parameter(std::string_view function,
                      std::vector<std::pair<std::string, std::string>>& values) {
    if (!skip(tags_.key_open)) return false;
    const std::optional<std::string> key = up_to(tags_.key_close, kLongestName);
    const std::optional<std::string> attributes = key ? skip_attributes() : std::nullopt;
    if (!attributes) return false;
    const size_t end = value_end();
    if (end == kNowhere) return false;
    std::string_view value = text_.substr(at_, end - at_);
    if (tags_.own_lines) value = without_lines(value);
    at_ = end;
    skip(tags_.value_close);
    const std::string name(trimmed(*key, kBlanks));
    // DeepSeek says itself what is a string.
    std::string json =
        attributes->find("string=\"true\"") != std::string::npos
            ? json_quoted(value)
            : json_of_value(value, parameter_schema(tools_, function, name), tags_.guesses);
    const auto before =
        std::ranges::find(values, name, &std::pair<std::string, std::string>::first);
    if (before != values.end()) {
      before->second = std::move(json);
    } else {
      values.emplace_back(name, std::move(json));
    }
    return true;
  }

  /// Where the value ends that begins here: at the closing tag that another tag follows, because a
  /// value may contain such a tag; or, where that is missing, at the next tag, on a line of its
  /// own.
  size_t value_end() {
    size_t at = find(tags_.value_close, at_);
    if (tags_.own_lines && at != kNowhere) {
      const std::string_view before = text_.substr(at_, at - at_);
      const size_t next = before.find("\n" + std::string(tags_.key_open));
      if (next != kNowhere) return at_ + next;
    }
    for (; at != kNowhere; at = find(tags_.value_close, at + 1)) {
      const std::string_view behind =
          text_.substr(behind_blanks(text_, at + tags_.value_close.size()));
      if (behind.starts_with(tags_.key_open) || behind.starts_with(closing_tag())) return at;
    }
    return std::min(find(tags_.key_open, at_), find(closing_tag(), at_));
  }
  /// The place of a tag, as far as the work for one answer goes.
  size_t find(std::string_view tag, size_t from) {
    if (work_ == 0) return kNowhere;
    const size_t at = text_.find(tag, from);
    work_ -= std::min(work_, std::min(at, text_.size()) - from + 1);
    return at;
  }
  [[nodiscard]] std::string_view closing_tag() const {
    return tags_.call_close.empty() ? from_.end : tags_.call_close;
  }

  /// A name that ends with its line, or where its first parameter or the call's end begins.
  std::optional<std::string> bare_name() {
    const size_t stop = std::min(
        {text_.find('\n', at_), text_.find(tags_.key_open, at_), text_.find(from_.end, at_)});
    if (stop == kNowhere || stop - at_ > kLongestName) return std::nullopt;
    const std::string_view name = trimmed(text_.substr(at_, stop - at_), kBlanks);
    // JSON in such markers is another format's call.
    if (name.find_first_of("{}\"<>") != kNowhere) return std::nullopt;
    at_ = stop;
    return std::string(name);
  }

  std::optional<std::string> up_to(std::string_view stop, size_t most) {
    const std::string_view near = rest().substr(0, most + stop.size());
    const size_t end = near.find(stop);
    if (end == kNowhere) return std::nullopt;
    at_ += end + stop.size();
    return std::string(near.substr(0, end));
  }

  /// Goes to the end of an opening tag; returns what stands before it.
  std::optional<std::string> skip_attributes() {
    return tags_.value_open.empty() ? std::string() : up_to(tags_.value_open, kLongestAttributes);
  }

  const CallTags& tags_;
  const CallText& from_;
  const OrderedJson& tools_;
  size_t work_ = kMostLooks * (text_.size() + 1);  // bytes that may still be looked through
};

}  // namespace

CallsEnd read_tagged_calls(const CallTags& tags, const CallText& from, const OrderedJson& tools,
                           std::vector<ToolCall>& calls) {
  return TaggedReader(tags, from, tools).read(calls);
}

}  // namespace plimsoll::text
