// `plan -i IN --reorder OUT`: the input's lines in the order by prefixes.
#pragma once

#include "batch/order/line_order.h"
#include "cli/plan/options.h"

namespace plimsoll::cli {

/// Refuses --reorder without a file to read lines from, in any order, and a file to write. Throws
/// Error(usage).
void check_reorder(const PlanOptions& options);

/// Writes the lines byte for byte, each with a line feed, to the file of --reorder, which appears
/// when it is whole. Throws Error(usage, foreign_output, output_unwritable).
void write_in_order(const PlanOptions& options, const files::InputFile& input,
                    const batch::LineOrder& order);

}  // namespace plimsoll::cli
