// --order: in which order the lines of a run are answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "batch/files/resume.h"
#include "batch/order/line_order.h"
#include "batch/order/order_choice.h"
#include "cli/run/launch.h"
#include "cli/run/scan.h"

namespace plimsoll::cli {

/// Why lines must run in the input's order, or have to leave in it; empty: they need not.
std::string bound_by_input(const files::InputFile& input);
std::string bound_by_outputs(const RunOptions& options);
/// Why --order auto keeps the order of a file with so many lines to answer without a look at their
/// prompts; empty: it looks.
std::string not_worth_a_look(const files::InputFile& input, bool prefix_caching, uint64_t lines,
                             uint64_t done = 0);

/// Refuses --order prefix for an input that cannot be read out of order, and for answers that leave
/// in the input's. Throws Error(usage).
void check_order(const RunOptions& options, const files::InputFile& input);

/// Options of a survey that finds what a launch with such a context would answer, and keeps no
/// sequences.
batch::SurveyOptions run_survey(const RunOptions& options, const Launch& launch, int64_t context,
                                const ScannedInput& scanned);

struct RunOrder {
  batch::OrderChoice choice;
  std::optional<batch::LineOrder> lines;  // absent: the input's order
};

/// Chooses the order of the lines that are not done, for a launch that is ready. Where it may be
/// that by prefixes, reads and tokenizes all prompts. Throws Error(input_unusable).
RunOrder choose_order(const RunOptions& options, const Launch& launch, files::InputFile& input,
                      const ScannedInput& scanned, const batch::DoneLines& done);

}  // namespace plimsoll::cli
