// Formats in which models write calls of tools: one table, under vLLM's names of its parsers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::text {

struct MessageFormat;  // messages.h

/// Spelling of calls between a format's markers.
enum class CallBody : uint8_t {
  json,    // objects {"name": ..., "arguments": {...}}, or arrays of them
  named,   // a name, a marker, and the arguments as JSON
  tagged,  // an element for the function, with one for each parameter
  python,  // calls with keyword arguments
  nested,  // an element for the function; elements named by parameter, with others within them
  braced,  // Gemma's call:NAME{key:value}
};

/// Where calls may begin without a marker.
enum class BareCalls : uint8_t {
  none,
  at_start,  // at the answer's start
  anywhere,  // at any "{"
};

/// Texts around calls. An empty `end`: the calls say themselves where they end. A "[" that ends
/// `begin` is the first character of the calls.
struct CallMarkers {
  std::string_view begin = {}, end = {};
};

/// Keys of a JSON call; the second ones are read where the first are missing.
struct CallKeys {
  std::string_view name = "name";
  std::array<std::string_view, 2> arguments = {"arguments", "parameters"};
  bool optional_arguments = false;  // without any the arguments are {}
  bool name_is_key = false;         // {"get_weather": {...}}
};

/// Texts between the parts of CallBody::named: BEFORE name NAME_END arguments ARGUMENTS_END.
struct NamedParts {
  std::string_view before = {};    // text up to it is no part of the name; empty: nothing is before
  std::string_view name_end = {};  // empty: the arguments' "{"
  std::string_view arguments_end = {};  // such as the end of a code block, before the end marker
  bool name_is_id = false;              // Kimi K2: "functions.NAME:0" is the call's id
};

/// Texts of CallBody::tagged, as in <function=NAME> <parameter=KEY> VALUE </parameter> </function>.
struct CallTags {
  std::string_view call_open = {};  // before a name; empty: the name ends with its line
  std::string_view name_end = {};   // behind a name that has no call_open; empty: none
  std::string_view call_close = {};
  std::string_view key_open = {}, key_close = {};
  std::string_view value_open =
      {};  // with attributes between key_close and it; empty: at key_close
  std::string_view value_close = {};
  /// Around a value's type, where a call says it (between key_close and value_open).
  std::string_view type_open = {}, type_close = {};
  bool own_lines = false;  // a value's first and last line end belong to the tags
  bool guesses = false;    // values of no known type are JSON or Python where they can be
  bool escaped = false;    // names and keys have &quot; and &amp;
  /// Names and keys are attributes (name="NAME" or name='NAME') behind call_open and key_open;
  /// values may be CDATA or have XML's entities, and blanks around them are the tags'.
  bool xml = false;
};

struct ToolFormat {
  /// vLLM's names of the parser; the first one names the format.
  std::array<std::string_view, 6> names = {};
  CallBody body = CallBody::json;
  std::array<CallMarkers, 5> markers = {};      // the first that begins counts
  std::array<std::string_view, 2> around = {};  // markers of a whole list of calls, left out
  const MessageFormat* messages = nullptr;      // answers are messages, and calls are in some
  bool or_json = false;  // calls between the markers may also be JSON objects, as of CallBody::json
  bool suffixed = false;  // tags end with the checkpoint's suffix: <tool_call:6124c78e>
  BareCalls bare = BareCalls::none;
  bool loose = false;  // markers are found in other texts too: what cannot be read is no call
  CallKeys keys = {};
  NamedParts named = {};
  CallTags tags = {};
  std::string_view element = {};  // before each tag of CallBody::nested
  std::string_view quote = {};    // around texts of CallBody::braced
  bool short_ids = false;         // ids of calls are nine letters and digits
  /// Texts that a chat template of this format has, all of them; empty: never chosen by "auto".
  std::array<std::string_view, 2> marks = {};
};

/// All formats, in the order in which "auto" tries them.
std::span<const ToolFormat> tool_formats();
/// The format of a name; null: there is none.
const ToolFormat* find_tool_format(std::string_view name);
/// The format whose marks a chat template has; null: none.
const ToolFormat* tool_format_of_template(std::string_view source);

}  // namespace plimsoll::text
