// What LMDeploy makes of a launch, by TurboMind or by its PyTorch engine.
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

/// Answers by TurboMind where `lmdeploy serve` would take it. Fields are PytorchEngineConfig's,
/// with `flash_mla` and `speculative` beside them, or with --backend turbomind
/// TurbomindEngineConfig's (Engine::answer_to).
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::lmdeploy
