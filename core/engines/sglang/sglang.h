// What SGLang makes of a launch.
#pragma once

#include "engines/answer.h"
#include "engines/question.h"

namespace plimsoll::engines::sglang {

/// Answers for the release asked for, or the nearest known one below. Throws
/// Error(usage, checkpoint_unusable) for a question that is none; a launch that SGLang refuses is
/// an answer. Without free memory nothing is sized.
Answer ask(const Question& question);

}  // namespace plimsoll::engines::sglang
