// Checks of an input with the model's tokenizer, before its weights are read.
#pragma once

#include "cli/run/launch.h"
#include "cli/run/scan.h"

namespace plimsoll::cli {

/// Prints notes on prompts over the context, and on lines that do not suit the model: ids beyond
/// its vocabulary, texts that its tokenizer or template refuses. Reads the first MiB of a regular
/// input.
void tell_unsuitable_prompts(const RunOptions& options, const Launch& launch,
                             files::InputFile& input, const ScannedInput& scanned);

/// Compiles the grammars that the lines of a regular input ask for, but for those that are done,
/// and prints how many lines cannot have theirs. Throws Error(usage) where that of
/// --structured-outputs is refused.
void compile_grammars(const RunOptions& options, const Launch& launch, files::InputFile& input,
                      const ScannedInput& scanned, const batch::DoneLines& done);

}  // namespace plimsoll::cli
