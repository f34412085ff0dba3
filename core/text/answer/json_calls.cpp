// Calls in JSON, and calls of a name with arguments in JSON.
#include <algorithm>
#include <utility>

#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

const std::string* member(const JsonReader::Members& members, std::string_view key) {
  if (key.empty()) return nullptr;
  const auto found = std::ranges::find(
      members, key, [](const auto& named) -> std::string_view { return named.first; });
  return found == members.end() ? nullptr : &found->second;
}

/// Arguments that a model wrote as a string of JSON, in place of JSON.
std::string unwrapped(const std::string& json) {
  if (!json.starts_with('"')) return json;
  const std::optional<std::string> text = JsonReader(json, 0).string();
  if (!text) return json;
  std::optional<std::string> inner = json_of(*text);
  return inner && inner->starts_with('{') ? std::move(*inner) : json;
}

std::optional<ToolCall> call_of(const JsonReader::Members& members, const CallKeys& keys) {
  const std::string* name = member(members, keys.name);
  if (name == nullptr || !name->starts_with('"')) return std::nullopt;
  const std::string* arguments = member(members, keys.arguments[0]);
  if (arguments == nullptr) arguments = member(members, keys.arguments[1]);
  if (arguments == nullptr && !keys.optional_arguments) return std::nullopt;
  ToolCall call;
  call.name = JsonReader(*name, 0).string().value_or("");
  if (call.name.empty()) return std::nullopt;
  call.arguments = arguments == nullptr ? "{}" : unwrapped(*arguments);
  return call;
}

/// Reads one object as a call, or as several whose names are its keys.
bool read_object(const ToolFormat& format, JsonReader& reader, std::vector<ToolCall>& calls) {
  std::optional<JsonReader::Members> members = reader.object();
  if (!members) return false;
  if (format.keys.name_is_key) {
    for (auto& [key, value] : *members) {
      if (key.empty()) return false;
      calls.push_back({"", std::move(key), std::move(value)});
    }
    return true;
  }
  std::optional<ToolCall> call = call_of(*members, format.keys);
  // Without a marker only an object of arguments tells a call from other JSON.
  if (!call || (format.bare == BareCalls::anywhere && !call->arguments.starts_with('{'))) {
    return false;
  }
  calls.push_back(std::move(*call));
  return true;
}

bool read_array(const ToolFormat& format, JsonReader& reader, std::vector<ToolCall>& calls) {
  reader.skip("[");
  return reader.list("]", LastComma::refused,
                     [&](size_t) { return read_object(format, reader, calls); });
}

bool read_value(const ToolFormat& format, JsonReader& reader, std::vector<ToolCall>& calls) {
  if (reader.peek() == '[') return read_array(format, reader, calls);
  return reader.peek() == '{' && read_object(format, reader, calls);
}

void skip_separators(JsonReader& reader) {
  reader.skip_space();
  while (reader.skip(";") || reader.skip(",")) reader.skip_space();
}

/// Text of arguments up to `stop`, without what ends a block of code.
std::string raw_arguments(std::string_view text, std::string_view block_end) {
  std::string_view raw = trimmed(text, kBlanks);
  const std::string_view end = trimmed(block_end, kBlanks);
  if (!end.empty() && raw.ends_with(end)) raw.remove_suffix(end.size());
  return std::string(trimmed(raw, kBlanks));
}

/// Name and id of a call; false where it has no name.
bool set_name(std::string_view written, const NamedParts& parts, ToolCall& call) {
  std::string_view name = trimmed(written, kBlanks);
  // Mistral's tokenizers write NAME[CALL_ID]...[ARGS].
  if (parts.name_end.empty()) name = trimmed(name.substr(0, name.find('[')), kBlanks);
  if (parts.name_is_id) {
    const size_t colon = name.find(':');
    if (colon != kNowhere) call.id = std::string(name);
    name = name.substr(0, colon);
    name.remove_prefix(name.rfind('.') + 1);  // npos + 1 is 0
  }
  if (name.empty() || name.size() > kLongestName) return false;
  if (name.find('\n') != kNowhere) return false;
  call.name = std::string(name);
  return true;
}

/// Reads arguments as they stand: JSON, or any text up to the end of the call.
CallsEnd read_arguments(const ToolFormat& format, const CallText& from, ToolCall& call) {
  JsonReader reader(from.text, from.at);
  reader.skip_space();
  const size_t begin = reader.at();
  if (reader.peek() == '{' && reader.value()) {
    const size_t end = reader.at();
    call.arguments = std::string(from.text.substr(begin, end - begin));
    if (from.end.empty()) return end;
    reader.skip_space();
    if (reader.skip(trimmed(format.named.arguments_end, kBlanks))) reader.skip_space();
    if (reader.skip(from.end)) return reader.at();
  }
  const std::string_view stop = from.end.empty() ? format.markers.front().begin : from.end;
  const size_t end = from.text.find(stop, begin);
  if (end == kNowhere && !from.end.empty()) return std::nullopt;
  call.arguments = raw_arguments(from.text.substr(begin, end - begin), format.named.arguments_end);
  if (end == kNowhere) return from.text.size();
  return end + from.end.size();
}

}  // namespace

CallsEnd read_json_calls(const ToolFormat& format, const CallText& from,
                         std::vector<ToolCall>& calls) {
  JsonReader reader(from.text, from.at);
  while (true) {
    const size_t end = reader.at();  // behind the last call
    skip_separators(reader);
    if (!from.end.empty() && reader.skip(from.end)) return reader.at();
    if (reader.at_end()) return reader.at();
    const size_t count = calls.size();
    if (read_value(format, reader, calls)) continue;
    // Other text may follow calls that no marker closes.
    calls.resize(count);
    if (!from.end.empty() || from.whole || calls.empty()) return std::nullopt;
    return end;
  }
}

CallsEnd read_named_call(const ToolFormat& format, const CallText& from,
                         std::vector<ToolCall>& calls) {
  const NamedParts& parts = format.named;
  CallText rest = from;
  if (parts.name_end.empty()) {
    // Older tokenizers of Mistral: one array of all calls.
    JsonReader reader(from.text, from.at);
    reader.skip_space();
    if (reader.peek() == '[') return read_json_calls(format, from, calls);
  }
  if (!parts.before.empty()) {
    const size_t before = from.text.find(parts.before, from.at);
    if (before == kNowhere) return std::nullopt;
    rest.at = before + parts.before.size();
  }
  const std::string_view name_end = parts.name_end.empty() ? "{" : parts.name_end;
  const size_t name = from.text.find(name_end, rest.at);
  if (name == kNowhere) return std::nullopt;
  ToolCall call;
  if (!set_name(from.text.substr(rest.at, name - rest.at), parts, call)) return std::nullopt;
  rest.at = name + parts.name_end.size();
  const CallsEnd end = read_arguments(format, rest, call);
  if (end) calls.push_back(std::move(call));
  return end;
}

}  // namespace plimsoll::text
