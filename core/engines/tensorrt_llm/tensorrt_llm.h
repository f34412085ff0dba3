// What TensorRT-LLM's PyTorch backend makes of a launch: a range, as its peak is measured.
#pragma once

#include <span>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::tensorrt_llm {

inline constexpr Version kNewest{1, 3, 0};  // the class of 1.3.0rc

/// Flags of `trtllm-serve`.
std::span<const Flag> flags();

/// Answers for a question with fields of LlmArgs. Free memory "after" is what is left once weights
/// are loaded; the peak of the profile is estimated from it (Engine::answer_to).
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::tensorrt_llm
