// Calls of tools in answers, as real chat templates write them into a conversation's history: each
// is read back by the format that "auto" takes for its template.
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <sstream>

#include "base/json.h"
#include "golden.h"
#include "skipped.h"
#include "text/answer/suffixed.h"

namespace plimsoll::text {
namespace {

/// The assistant's turn of the golden conversation "tool_round", with marks of turns around it.
std::optional<std::string> turn_with_call(const OrderedJson& cases) {
  for (const OrderedJson& rendering : cases) {
    if (rendering.at("conversation") != "tool_round" || !rendering.contains("text")) continue;
    const auto& text = rendering["text"].get_ref<const std::string&>();
    const size_t question = text.rfind("Weather?");
    const size_t result = text.find("11 C, rain");
    if (question == std::string::npos || result == std::string::npos || result < question) continue;
    const size_t begin = question + std::string_view("Weather?").size();
    return text.substr(begin, result - begin);
  }
  return std::nullopt;
}

const OrderedJson kTools = OrderedJson::parse(
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",)"
    R"("properties":{"place":{"type":"string"},"unit":{"type":"string"}}}}}])");

bool is_the_call(const ToolAnswer& answer) {
  if (answer.calls.size() != 1 || answer.calls.front().name != "get_weather") return false;
  return Json::parse(answer.calls.front().arguments, nullptr, false) ==
         Json({{"place", "Zürich"}, {"unit", "C"}});
}

/// Templates whose histories hold calls that no parser of vLLM 0.33 reads: formats without a row,
/// and examples that write calls otherwise than their models do.
bool is_left_out(const std::string& name) {
  constexpr std::string_view kNames[] = {
      "tool-chat-phi4-mini.jinja",                   // a Python dictionary as the arguments
      "tool_chat_template_phi4_mini.jinja",          // the same
      "tool_chat_template_llama3.2_pythonic.jinja",  // texts without quotes
      "meetkai-functionary-medium-v3.1.jinja",       // <function=NAME>JSON</function>
      "tool_chat_template_toolace.jinja",            // texts without quotes
      "tool_chat_template_xlam_qwen.jinja",          // no mark: --tool-call-parser xlam
      "upstage-Solar-Open-100B.jinja"};
  return std::ranges::any_of(kNames, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

TEST_CASE("Calls are read as chat templates write them") {
  const auto golden = testing::golden_with("chat/renderings.jsonl.xz");
  if (!golden) return testing::skip("no golden results of chat templates (PLIMSOLL_GOLDEN)");
  std::istringstream lines(testing::read_maybe_xz(*golden / "chat" / "renderings.jsonl"));
  std::map<std::string, int> read;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = parse_json<OrderedJson>(line, kOrderedLimits);
    const ToolFormat* format = tool_format_of_template(entry.at("source").get<std::string>());
    const std::optional<std::string> turn = turn_with_call(entry.at("cases"));
    if (!turn || turn->find("get_weather") == std::string::npos) continue;
    const std::string name = format ? std::string(format->names.front()) : "none";
    // Hunyuan's suffix, which the vocabulary says where there is one.
    const SuffixedFormats suffixed({.tools = format}, ":opensource");
    if (format != nullptr) format = suffixed.formats().tools;
    const ToolAnswer answer = format ? read_tool_calls(*format, *turn, kTools) : ToolAnswer{};
    const auto source = entry.at("template").get<std::string>();
    if (is_left_out(source)) continue;
    INFO(source << " as " << name << ": " << *turn);
    CHECK(is_the_call(answer));
    ++read[name];
  }
  for (const auto& [name, count] : read) WARN(name << " " << count);
}

}  // namespace plimsoll::text
