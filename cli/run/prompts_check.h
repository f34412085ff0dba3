// Checks the first prompts with the model's tokenizer, before its weights are read.
#pragma once

#include "cli/run/launch.h"
#include "cli/run/scan.h"

namespace plimsoll::cli {

/// Prints notes on prompts over the context, and on lines that do not suit the model: ids beyond
/// its vocabulary, texts that its tokenizer or template refuses. Reads the first MiB of a regular
/// input.
void tell_unsuitable_prompts(const RunOptions& options, const Launch& launch,
                             files::InputFile& input, const ScannedInput& scanned);

}  // namespace plimsoll::cli
