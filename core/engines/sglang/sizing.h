// How SGLang shares out the memory that is free once weights are loaded.
#pragma once

#include "engines/answer.h"
#include "engines/model_config.h"
#include "engines/question.h"
#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

/// Fills in sizing, says and figures of an answer; what was sized before a Refusal stays.
void size(const Launch& launch, const ModelConfig& config, const FreeMemory& free, Answer& answer);

}  // namespace plimsoll::engines::sglang
