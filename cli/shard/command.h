// `plimsoll shard`: tensor-parallel shards, as vLLM saves them.
#pragma once

#include "cli/cli11_names.h"
#include "cli/shard/options.h"

namespace plimsoll::cli {

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_shard_command(CLI::App& app, ShardOptions& options);

/// Runs the command. Returns the exit status. Throws Error.
int shard_command(const ShardOptions& options);

}  // namespace plimsoll::cli
