// render TEMPLATE.jinja: a conversation a line in, {"text"} or {"error"} a line out.
#include <fmt/format.h>

#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace {

using plimsoll::OrderedJson;
using plimsoll::text::ChatInput;
using plimsoll::text::ChatTemplate;

// "2026-02-03T14:05:06"
std::tm parse_time(const std::string& text) {
  std::tm time{};
  std::istringstream stream(text);
  stream >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  if (stream.fail()) throw std::runtime_error("\"now\" must look like 2026-02-03T14:05:06");
  return time;
}

ChatInput parse_input(const std::string& line) {
  const auto json = plimsoll::parse_json<OrderedJson>(line, plimsoll::kOrderedLimits);
  const auto find = [&](const char* name) -> const OrderedJson* {
    const auto at = json.find(name);
    return at == json.end() || at->is_null() ? nullptr : &*at;
  };
  ChatInput input;
  input.messages = find("messages") ? *find("messages") : OrderedJson::array();
  if (const auto* tools = find("tools")) input.tools = *tools;
  if (const auto* documents = find("documents")) input.documents = *documents;
  if (const auto* kwargs = find("kwargs")) input.kwargs = *kwargs;
  if (const auto* prompt = find("add_generation_prompt"))
    input.add_generation_prompt = prompt->get<bool>();
  if (const auto* now = find("now")) input.now = parse_time(now->get<std::string>());
  if (const auto* tokens = find("special_tokens")) {
    for (const auto& [name, token] : tokens->items()) {
      if (token.is_string()) input.special_tokens[name] = token.get<std::string>();
    }
  }
  return input;
}

OrderedJson answer(const ChatTemplate* chat_template, const std::string& problem,
                   const std::string& line) {
  if (chat_template == nullptr) return {{"error", problem}};
  try {
    return {{"text", chat_template->render(parse_input(line))}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: render TEMPLATE.jinja < one conversation a line\n");
    return 2;
  }
  std::optional<ChatTemplate> chat_template;
  std::string problem;  // a malformed template refuses every conversation
  try {
    chat_template = ChatTemplate::parse(plimsoll::read_text_file(argv[1]));
  } catch (const plimsoll::Error& error) {
    fmt::print(stderr, "render: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const plimsoll::text::TemplateError& error) {
    problem = error.what();
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.empty()) continue;
    const auto out = answer(chat_template ? &*chat_template : nullptr, problem, line);
    std::cout << out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << std::endl;
  }
  return 0;
}
