// What llama.cpp makes of a launch: buffers of every device, and what --fit settles.
#pragma once

#include <span>

#include "engines/answer.h"
#include "engines/command_line.h"
#include "engines/question.h"
#include "engines/release.h"

namespace plimsoll::engines::llamacpp {

/// Commit 0c1e57098, as llama-cpp-python 0.3.36 has it.
inline constexpr Version kNewest{0, 3, 36};

/// Flags of `llama-server` and its kin.
std::span<const Flag> flags();

/// Answers for a question with a GGUF file and cards whose free memory is known
/// (Engine::answer_to). Throws Error(usage) where the model is no GGUF file.
void answer_to(const Question& question, Version version, Answer& answer);

}  // namespace plimsoll::engines::llamacpp
