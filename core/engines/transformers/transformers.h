// What transformers' continuous batching makes of a launch.
#pragma once

#include <span>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::transformers {

inline constexpr Version kNewest{5, 24, 0};

/// Flags of `transformers serve` that bear on memory, and of plain generate.
std::span<const Flag> flags();

/// Answers for a question with fields of ContinuousBatchingConfig, and `attn`, `tp`, `hints`,
/// `processors` beside them; with `cache_implementation` dynamic or static for plain generate
/// (Engine::answer_to).
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::transformers
