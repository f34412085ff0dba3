// A chat with tools, and a finished line of it.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "batch/finished_line.h"
#include "batch/output_line.h"
#include "batch/read_request.h"

namespace plimsoll::testing {

inline const std::string kOfferedTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":)"
    R"({"a":{"$ref":"#/$defs/A"}},"required":["a"],"$defs":{"A":{"type":"integer"}}}}},)"
    R"({"type":"function","function":{"name":"g"}}])";

inline std::string tool_chat(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}";
}

/// A finished line whose choices have these texts.
inline batch::FinishedLine finished_chat(const std::string& text,
                                         const std::vector<std::string>& texts,
                                         text::Thinking thinking = text::Thinking::unsaid) {
  const Read line = read(text);
  REQUIRE(line.code == "");
  batch::FinishedLine made;
  made.head = line.head;
  made.identity = batch::digest(text);
  made.fields = line.request.fields;
  batch::Prompt& prompt = made.prompts.emplace_back();
  prompt.parts = {{1, 2}};
  prompt.thinking = thinking;
  engine::RequestOutput& output = made.outputs.emplace_back();
  for (const std::string& answer : texts) {
    engine::Completion& completion = output.completions.emplace_back();
    completion.text = answer;
    completion.token_ids = {5};
    completion.finish = engine::FinishReason::stop;
  }
  return made;
}

inline const batch::OutputOptions kAnswerOptions = {
    .formats = {text::find_tool_format("hermes"), text::find_reasoning_format("qwen3")},
    .model = "m"};

}  // namespace plimsoll::testing
