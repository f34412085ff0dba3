// Writes calls of tools in every format of core/text/answer, plainly and apart from its readers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/answer/tool_format.h"

namespace plimsoll::testing {

struct WrittenCall {
  std::string name;
  OrderedJson arguments;  // an object
};

/// A value as Python writes it.
inline std::string python_literal(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string text = value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    if (!std::exchange(first, false)) text += ", ";
    if (value.is_object()) text += OrderedJson(key).dump() + ": ";
    text += python_literal(member);
  }
  return text + (value.is_array() ? "]" : "}");
}

/// A value as Gemma writes it, with its marks around texts.
inline std::string braced(const OrderedJson& value, const std::string& quote) {
  if (value.is_string()) return quote + value.get<std::string>() + quote;
  if (!value.is_structured()) return value.dump();
  std::string text = value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    if (!std::exchange(first, false)) text += ",";
    if (value.is_object()) text += key + ":";
    text += braced(member, quote);
  }
  return text + (value.is_array() ? "]" : "}");
}

inline std::string json_call(const text::CallKeys& keys, const WrittenCall& call) {
  if (keys.name_is_key) return OrderedJson({{call.name, call.arguments}}).dump();
  OrderedJson json;
  json[std::string(keys.name)] = call.name;
  json[std::string(keys.arguments[0])] = call.arguments;
  return json.dump();
}

/// A value's type as calls say it.
inline std::string type_of_value(const OrderedJson& value) {
  return value.is_number() ? "number" : value.type_name();
}

inline std::string tagged_call(const text::CallTags& tags, const WrittenCall& call, size_t index) {
  const auto named = [&](const std::string& name) {
    return tags.xml ? " name=\"" + name + "\"" : name + std::string(tags.key_close);
  };
  std::string text;
  if (tags.call_open.empty()) {
    text = call.name + std::string(tags.name_end) + "\n";
  } else {
    const std::string number =
        tags.escaped ? " index=\"" + std::to_string(index + 1) + "\"" : std::string();
    text = std::string(tags.call_open) + named(call.name) + number + std::string(tags.value_open) +
           "\n";
  }
  for (const auto& [key, value] : call.arguments.items()) {
    const std::string plain = value.is_string() ? value.get<std::string>() : value.dump();
    const std::string line = tags.own_lines ? "\n" : "";
    std::string type;
    if (!tags.type_open.empty()) {
      type = (tags.escaped ? " " : "") + std::string(tags.type_open) + type_of_value(value) +
             std::string(tags.type_close);
    }
    text += std::string(tags.key_open) + named(key) + type + std::string(tags.value_open) + line +
            plain + line + std::string(tags.value_close) + "\n";
  }
  return text + std::string(tags.call_close);
}

/// A value as MiniMax M3 writes it: elements within elements, each tag behind the mark.
inline std::string nested(const OrderedJson& value, const std::string& mark) {
  if (!value.is_structured()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::string text;
  for (const auto& [key, member] : value.items()) {
    const std::string name = value.is_array() ? "item" : key;
    text += mark + "<" + name + ">" + nested(member, mark) + mark + "</" + name + ">";
  }
  return text;
}

inline std::string nested_call(const std::string& mark, const WrittenCall& call) {
  return mark + "<invoke name=\"" + call.name + "\">" + nested(call.arguments, mark) + mark +
         "</invoke>\n";
}

inline std::string named_call(const text::NamedParts& parts, const WrittenCall& call,
                              size_t index) {
  std::string name = call.name;
  if (parts.name_is_id) name = "functions." + name + ":" + std::to_string(index);
  return (parts.before.empty() ? "" : "function" + std::string(parts.before)) + name +
         std::string(parts.name_end) + call.arguments.dump() + std::string(parts.arguments_end);
}

inline std::string python_call(const WrittenCall& call) {
  std::string text = call.name + "(";
  bool first = true;
  for (const auto& [key, value] : call.arguments.items()) {
    text += (std::exchange(first, false) ? "" : ", ") + key + "=" + python_literal(value);
  }
  return text + ")";
}

inline std::string harmony_call(const WrittenCall& call) {
  return "<|start|>assistant<|channel|>commentary to=functions." + call.name +
         " <|constrain|>json<|message|>" + call.arguments.dump() + "<|call|>";
}

/// Calls joined by `between`, each written by `write`.
template <typename Write>
std::string joined(const std::vector<WrittenCall>& calls, const std::string& between,
                   const Write& write) {
  std::string text;
  for (size_t i = 0; i < calls.size(); ++i) text += (i > 0 ? between : "") + write(calls[i], i);
  return text;
}

/// Calls in messages of their own.
inline std::string write_messages(const text::ToolFormat& format,
                                  const std::vector<WrittenCall>& calls) {
  const std::string_view name = format.names.front();
  return joined(calls, "", [&](const WrittenCall& call, size_t index) -> std::string {
    if (name == "openai") return harmony_call(call);
    if (name == "inkling") {
      return "<|message_model|><|content_invoke_tool_json|>" + json_call(format.keys, call) +
             "<|end_message|>";
    }
    const std::string tagged = tagged_call(format.tags, call, index);
    if (name == "kimi_k3") return "<|open|>tools<|sep|>" + tagged + "<|close|>tools<|sep|>";
    return "<|start|>assistant to=" + call.name + "<|message|><atem:function_calls>\n" + tagged +
           "\n</atem:function_calls><|eom|>";
  });
}

/// The calls as a model of the format writes them.
inline std::string write_calls(const text::ToolFormat& format,
                               const std::vector<WrittenCall>& calls) {
  using text::CallBody;
  const std::string begin(format.markers[0].begin);
  const std::string end(format.markers[0].end);
  const auto each = [&](const auto& write) {
    return joined(calls, "\n", [&](const WrittenCall& call, size_t i) {
      const std::string own(format.tags.call_open);
      return (!own.empty() && begin.starts_with(own) ? "" : begin) + write(call, i) + end;
    });
  };
  const bool list = begin.ends_with('[');
  if (format.messages != nullptr) return write_messages(format, calls);
  switch (format.body) {
    case CallBody::json: {
      const auto write = [&](const WrittenCall& call, size_t) {
        return json_call(format.keys, call);
      };
      if (format.bare == text::BareCalls::anywhere) return begin + joined(calls, "; ", write);
      if (end == "</tool_call>" || end == "<|action_end|>") return each(write);
      return begin + (list ? "" : "[") + joined(calls, ", ", write) + "]" + end;
    }
    case CallBody::named:
      return std::string(format.around[0]) + each([&](const WrittenCall& call, size_t i) {
               return named_call(format.named, call, i);
             }) +
             std::string(format.around[1]);
    case CallBody::tagged:
      return std::string(format.around[0]) + each([&](const WrittenCall& call, size_t i) {
               return tagged_call(format.tags, call, i);
             }) +
             std::string(format.around[1]);
    case CallBody::nested:
      return begin + "\n" +
             joined(calls, "",
                    [&](const WrittenCall& call, size_t) {
                      return nested_call(std::string(format.element), call);
                    }) +
             end;
    case CallBody::python:
      return begin + "[" +
             joined(calls, ", ",
                    [](const WrittenCall& call, size_t) { return python_call(call); }) +
             "]" + end;
    case CallBody::braced:
      return each([&](const WrittenCall& call, size_t) {
        return "call:" + call.name + braced(call.arguments, std::string(format.quote));
      });
  }
  return "";
}

}  // namespace plimsoll::testing
