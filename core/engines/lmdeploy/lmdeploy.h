// What LMDeploy's PyTorch engine makes of a launch.
#pragma once

#include <span>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::lmdeploy {

inline constexpr Version kNewest{0, 18, 0};

/// Flags of `lmdeploy serve api_server`.
std::span<const Flag> flags();

/// Answers for a question with fields of PytorchEngineConfig, and `flash_mla` and `speculative`
/// beside them (Engine::answer_to).
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::lmdeploy
