// What SGLang makes of a launch.
#pragma once

#include "engines/answer.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::sglang {

/// Answers for a release (Engine::answer_to). Without free memory nothing is sized.
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::sglang
