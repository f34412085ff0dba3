// Calls as elements: <function=NAME> <parameter=KEY> VALUE </parameter> </function> and its kin.
#include <algorithm>
#include <utility>

#include "base/replace.h"
#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"
#include "text/answer/text_reader.h"
#include "text/answer/typed_values.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMostParameters = 1024;

constexpr size_t kLongestAttributes = 64;
// Malformed calls make the reader look for tags again and again: so often through the whole text.
constexpr size_t kMostLooks = 16;

/// Keys with their values as JSON.
using Values = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kCdata = "<![CDATA[";

/// Text with XML's entities as it is meant; as it stands where an "&" begins none, or a tag is
/// within, because then it was not meant as XML.
std::string without_entities(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto* const entity = std::ranges::find_if(
        kEntities, [&](const auto& one) { return rest.starts_with(one.first); });
    if (entity == std::end(kEntities)) {
      if (rest.front() == '&' || rest.front() == '<') return std::string(text);
      plain += rest.front();
      ++at;
    } else {
      plain += entity->second;
      at += entity->first.size();
    }
  }
  return plain;
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
    const std::optional<std::string_view> name =
        tags_.call_open.empty() ? bare_name() : name_or_key();
    if (!name || name->empty()) return std::nullopt;
    if (!tags_.call_open.empty() && !skip_attributes()) return std::nullopt;
    call.name = plain(*name);
    Values values;
    while (true) {
      skip_space();
      if (tags_.xml && (skip("<arguments>") || skip("</arguments>"))) continue;
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

  bool read_parameter(std::string_view function, Values& values) {
    if (!skip(tags_.key_open)) return false;
    const std::optional<std::string_view> key = name_or_key();
    const std::optional<std::string_view> attributes = key ? skip_attributes() : std::nullopt;
    const std::optional<std::string> value = attributes ? read_value() : std::nullopt;
    if (!value) return false;
    const std::string name(trimmed(plain(*key), kBlanks));
    if (const auto members = tags_.xml ? wrapped(function, name, *value) : std::nullopt) {
      if (values.size() + members->size() > kMostParameters) return false;
      for (const auto& [member, json] : *members)
        set(values, member, typed(function, member, json));
      return true;
    }
    // DeepSeek says itself what is a string.
    set(values, name,
        attributes->find("string=\"true\"") != kNowhere
            ? json_quoted(*value)
            : json_of_value(*value, type(function, name, *attributes), tags_.guesses));
    return true;
  }

  static void set(Values& values, const std::string& name, std::string json) {
    const auto before = std::ranges::find(values, name, &Values::value_type::first);
    if (before != values.end()) {
      before->second = std::move(json);
    } else {
      values.emplace_back(name, std::move(json));
    }
  }

  /// The members of an object that MiniCPM writes as one parameter "arguments" or "properties";
  /// none where the function is unknown or has such a parameter, or the value is no object.
  std::optional<JsonReader::Members> wrapped(std::string_view function, std::string_view name,
                                             std::string_view value) const {
    if (name != "arguments" && name != "properties") return std::nullopt;
    if (function_schema(tools_, function) == nullptr) return std::nullopt;
    if (parameter_schema(tools_, function, name) != nullptr) return std::nullopt;
    const std::optional<std::string> json = json_of_literal(value);
    return json ? JsonReader(*json, 0).object() : std::nullopt;
  }

  /// A member's JSON as a value of its parameter's type.
  std::string typed(std::string_view function, std::string_view name,
                    const std::string& json) const {
    const ValueType type = type_of(parameter_schema(tools_, function, name));
    if (type.name.empty()) return json;
    const std::optional<std::string> text = JsonReader(json, 0).string();
    return json_of_value(text.value_or(json), type, tags_.guesses);
  }

  /// A value, without the blanks and escapes that belong to its tags, and past its closing tag.
  std::optional<std::string> read_value() {
    if (tags_.xml) {
      const size_t begin = behind_blanks(text_, at_);
      if (text_.substr(begin).starts_with(kCdata)) {
        at_ = begin;
        std::string value;
        while (skip(kCdata)) {
          const std::optional<std::string_view> part = up_to("]]>", text_.size());
          if (!part) return std::nullopt;
          value += *part;
        }
        const std::optional<std::string_view> behind = up_to(tags_.value_close, text_.size());
        if (!behind) return std::nullopt;
        return std::string(trimmed(value + without_entities(*behind), kBlanks));
      }
    }
    const size_t end = value_end();
    if (end == kNowhere) return std::nullopt;
    std::string_view value = text_.substr(at_, end - at_);
    if (tags_.own_lines) value = without_lines(value);
    at_ = end;
    skip(tags_.value_close);
    return tags_.xml ? without_entities(trimmed(value, kBlanks)) : std::string(value);
  }

  /// The name behind call_open, or the key behind key_open.
  std::optional<std::string_view> name_or_key() {
    if (!tags_.xml) return up_to(tags_.key_close, kLongestName);
    skip_space();
    if (!skip("name")) return std::nullopt;
    skip_space();
    if (!skip("=")) return std::nullopt;
    skip_space();
    const std::string_view quote = peek() == '\'' ? "'" : "\"";
    return skip(quote) ? up_to(quote, kLongestName) : std::nullopt;
  }

  /// The type of a value: what the call says, else what the parameter's schema says.
  [[nodiscard]] ValueType type(std::string_view function, std::string_view parameter,
                               std::string_view attributes) const {
    if (!tags_.type_open.empty()) {
      const size_t open = attributes.find(tags_.type_open);
      const size_t from = open == kNowhere ? kNowhere : open + tags_.type_open.size();
      const size_t close = from == kNowhere ? kNowhere : attributes.find(tags_.type_close, from);
      if (close != kNowhere) {
        const std::string_view said = trimmed(attributes.substr(from, close - from), kBlanks);
        return {.name = said == "any" ? "string" : std::string(said)};
      }
    }
    return type_of(parameter_schema(tools_, function, parameter));
  }

  /// A name or key without the format's escapes.
  [[nodiscard]] std::string plain(std::string_view written) const {
    std::string text(written);
    if (!tags_.escaped) return text;
    replace_all(text, "&quot;", "\"");
    replace_all(text, "&amp;", "&");
    return text;
  }

  /// Where the value ends that begins here: at the closing tag that another tag follows, because a
  /// value may contain such a tag; or, where that is missing, at the next tag, on a line of its
  /// own.
  size_t value_end() {
    size_t at = find(tags_.value_close, at_);
    if ((tags_.own_lines || tags_.xml) && at != kNowhere) {
      const std::string_view before = text_.substr(at_, at - at_);
      const size_t next = before.find("\n" + std::string(tags_.key_open));
      if (next != kNowhere) return at_ + next;
    }
    for (; at != kNowhere; at = find(tags_.value_close, at + 1)) {
      const std::string_view behind =
          text_.substr(behind_blanks(text_, at + tags_.value_close.size()));
      if (behind.starts_with(tags_.key_open) || behind.starts_with(closing_tag()) ||
          (tags_.xml && behind.starts_with("</arguments>"))) {
        return at;
      }
    }
    return std::min({find(tags_.key_open, at_), find(closing_tag(), at_),
                     tags_.xml ? find("</arguments>", at_) : kNowhere});
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
  std::optional<std::string_view> bare_name() {
    const size_t name_end = tags_.name_end.empty() ? kNowhere : text_.find(tags_.name_end, at_);
    const size_t stop = std::min({text_.find('\n', at_), text_.find(tags_.key_open, at_),
                                  text_.find(from_.end, at_), name_end});
    if (stop == kNowhere || stop - at_ > kLongestName) return std::nullopt;
    const std::string_view name = trimmed(text_.substr(at_, stop - at_), kBlanks);
    // JSON in such markers is another format's call.
    if (name.find_first_of("{}\"<>") != kNowhere) return std::nullopt;
    at_ = stop;
    skip(tags_.name_end);
    return name;
  }

  /// Goes to the end of an opening tag; returns what stands before it.
  std::optional<std::string_view> skip_attributes() {
    return tags_.value_open.empty() ? std::string_view()
                                    : up_to(tags_.value_open, kLongestAttributes);
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
