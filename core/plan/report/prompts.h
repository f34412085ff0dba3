// The prompts' part of a plan's output.
#pragma once

#include <string>

#include "base/json.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

/// The figures under the names that the manual lists.
OrderedJson prompts_json(const PromptFigures& prompts);

/// Paragraphs of the text, each of one line however long.
std::vector<std::string> prompts_text(const PlanResult& result, const PromptFigures& prompts);

}  // namespace plimsoll::plan
