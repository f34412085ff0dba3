// Flags of `plimsoll shard`.
#pragma once

#include <string>

#include "cli/cli11_names.h"
#include "shard/job.h"

namespace plimsoll::cli {

struct ShardOptions {
  std::string model, output;
  std::string verify, source, unshard;
  shard::JobOptions job;
  std::string quantization;
  bool dry_run = false, json = false, quiet = false;
};

/// Declares every flag of `shard` on `command`. `options` must outlive the parsing.
void declare_shard_flags(CLI::App& command, ShardOptions& options);

/// Checks that need several flags. Throws Error(usage).
void check_shard_options(const ShardOptions& options);

}  // namespace plimsoll::cli
