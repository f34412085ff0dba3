// The renderings of real chat templates: every text exactly, every refusal as one.
#include <catch2/catch.hpp>
#include <ctime>
#include <iomanip>
#include <map>
#include <sstream>

#include "base/json.h"
#include "golden.h"
#include "skipped.h"
#include "text/chat_template.h"

namespace plimsoll::text {
namespace {

struct Conversations {
  std::map<std::string, ChatInput> by_name;
};

Conversations read_conversations(const std::filesystem::path& file) {
  const auto document = parse_json<OrderedJson>(testing::read_file(file), kOrderedLimits);
  std::tm now{};
  std::istringstream(document.at("now").get<std::string>()) >>
      std::get_time(&now, "%Y-%m-%dT%H:%M:%S");
  Conversations all;
  for (const auto& entry : document.at("conversations")) {
    ChatInput input;
    input.messages = entry.at("messages");
    if (entry.contains("tools")) input.tools = entry["tools"];
    if (entry.contains("documents")) input.documents = entry["documents"];
    if (entry.contains("kwargs")) input.kwargs = entry["kwargs"];
    input.special_tokens = document.at("special_tokens").get<std::map<std::string, std::string>>();
    input.now = now;
    all.by_name[entry.at("name").get<std::string>()] = std::move(input);
  }
  return all;
}

struct Outcome {
  bool refused = false;
  std::string text;
};

Outcome render(const std::string& source, const ChatInput& input) {
  try {
    return {false, ChatTemplate::parse(source).render(input)};
  } catch (const TemplateError& error) {
    return {true, error.what()};
  }
}

// Wording matters only where the template itself raises.
bool agrees(const OrderedJson& expected, const Outcome& outcome) {
  if (expected.contains("text"))
    return !outcome.refused && outcome.text == expected["text"].get<std::string>();
  const bool own_words = expected.value("kind", "") == "TemplateError";
  return outcome.refused && (!own_words || outcome.text == expected.at("error").get<std::string>());
}

}  // namespace

TEST_CASE("Chat templates render as jinja2 renders them") {
  const auto golden = testing::golden_with("chat/renderings.jsonl.xz");
  if (!golden) return testing::skip("no golden results of chat templates (PLIMSOLL_GOLDEN)");
  auto conversations = read_conversations(*golden / "chat" / "conversations.json");
  std::istringstream lines(testing::read_maybe_xz(*golden / "chat" / "renderings.jsonl"));
  size_t renderings = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = parse_json<OrderedJson>(line, kOrderedLimits);
    for (const auto& expected : entry.at("cases")) {
      const auto name = expected.at("conversation").get<std::string>();
      ChatInput& input = conversations.by_name.at(name);
      input.add_generation_prompt = expected.at("add_generation_prompt").get<bool>();
      const Outcome outcome = render(entry.at("source").get<std::string>(), input);
      ++renderings;
      if (agrees(expected, outcome)) continue;
      INFO(entry.at("template").get<std::string>()
           << ", " << name << "\nexpected " << expected.dump());
      FAIL_CHECK("got " << outcome.text);
    }
  }
  CHECK(renderings > 0);
}

}  // namespace plimsoll::text
