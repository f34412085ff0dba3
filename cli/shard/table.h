// The table of `plimsoll shard --dry-run`: every tensor of every rank's files.
#pragma once

#include "cli/shard/options.h"
#include "shard/job.h"

namespace plimsoll::cli {

/// Prints the table, as text or JSON lines. Throws Error(output_unwritable).
void print_table(const shard::Job& job, const ShardOptions& options);

}  // namespace plimsoll::cli
