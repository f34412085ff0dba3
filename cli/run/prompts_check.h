// A look at the first prompts with the model's tokenizer, before its weights are read.
#pragma once

#include "cli/run/launch.h"
#include "cli/run/scan.h"

namespace plimsoll::cli {

/// Tells of prompts over the context, and of lines that do not suit the model: ids beyond its
/// vocabulary, texts that its tokenizer or template refuses. Of a regular input, the first MiB.
void tell_unsuitable_prompts(const RunOptions& options, const Launch& launch,
                             files::InputFile& input, const ScannedInput& scanned);

}  // namespace plimsoll::cli
