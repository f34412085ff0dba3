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

inline std::string tagged_call(const text::CallTags& tags, const WrittenCall& call) {
  const auto opened = [&](std::string_view key, std::string_view close, bool has_value_open) {
    return std::string(key) + std::string(close) +
           (has_value_open ? std::string(tags.value_open) : "");
  };
  std::string text;
  if (tags.call_open.empty()) {
    text = call.name + "\n";
  } else {
    text = std::string(tags.call_open) + opened(call.name, tags.key_close, true) + "\n";
  }
  for (const auto& [key, value] : call.arguments.items()) {
    const std::string plain = value.is_string() ? value.get<std::string>() : value.dump();
    const std::string line = tags.own_lines ? "\n" : "";
    text += std::string(tags.key_open) + opened(key, tags.key_close, true) + line + plain + line +
            std::string(tags.value_close) + "\n";
  }
  return text + std::string(tags.call_close);
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

/// The calls as a model of the format writes them.
inline std::string write_calls(const text::ToolFormat& format,
                               const std::vector<WrittenCall>& calls) {
  using text::CallBody;
  const std::string begin(format.markers[0].begin);
  const std::string end(format.markers[0].end);
  const auto each = [&](const auto& write) {
    return joined(calls, "\n",
                  [&](const WrittenCall& call, size_t i) { return begin + write(call, i) + end; });
  };
  const bool list = begin.ends_with('[');
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
      return std::string(format.around[0]) +
             each([&](const WrittenCall& call, size_t) { return tagged_call(format.tags, call); }) +
             std::string(format.around[1]);
    case CallBody::python:
      return begin + "[" +
             joined(calls, ", ",
                    [](const WrittenCall& call, size_t) { return python_call(call); }) +
             "]" + end;
    case CallBody::braced:
      return each([&](const WrittenCall& call, size_t) {
        return "call:" + call.name + braced(call.arguments, std::string(format.quote));
      });
    case CallBody::harmony:
      return joined(calls, "", [](const WrittenCall& call, size_t) { return harmony_call(call); });
  }
  return "";
}

}  // namespace plimsoll::testing
