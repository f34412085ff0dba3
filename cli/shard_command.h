// `plimsoll shard`: tensor-parallel shards, as vLLM saves them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "shard/job.h"

namespace plimsoll::cli {

struct ShardOptions {
  std::string model, output;
  std::string verify, source, unshard;
  shard::JobOptions job;
  std::string quantization;
  bool dry_run = false, json = false, quiet = false;
};

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_shard_command(CLI::App& app, ShardOptions& options);

/// Runs it. Returns the exit status. Throws Error.
int shard_command(const ShardOptions& options);

}  // namespace plimsoll::cli
