#include "cli/shard/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/value_flag.h"

namespace plimsoll::cli {
namespace {

void ranks_flag(CLI::App& command, const std::string& name, int64_t& target,
                const std::string& help) {
  static constexpr int64_t kMost = 4096;
  value_flag(command, name, "N", help, [&target](const std::string& text) {
    target = parse_count(text);
    if (target < 1 || target > kMost) {
      throw std::invalid_argument(fmt::format("expected a number from 1 to {}", kMost));
    }
  });
}

void declare_job_flags(CLI::App& command, shard::JobOptions& job) {
  command.option_defaults()->group("Shards");
  ranks_flag(command, "--tensor-parallel-size", job.tensor_parallel, "ranks, also -tp; default 1");
  ranks_flag(command, "--pipeline-parallel-size", job.pipeline_parallel,
             "stages, also -pp; default 1");
  value_flag(command, "--dtype", "DTYPE",
             "auto, bfloat16, float16, float32; auto: the model's, bfloat16 for float32",
             [&job](const std::string& text) { job.dtype = text; });
  value_flag(command, "--max-file-size", "SIZE|none", "payload of a file; default 5GiB",
             [&job](const std::string& text) {
               job.max_file_size.reset();
               if (text == "none") return;
               const uint64_t size = parse_size(text);
               if (size == 0 || !std::in_range<int64_t>(size)) {
                 throw std::invalid_argument("expected a size of at least 1, or none");
               }
               job.max_file_size = static_cast<int64_t>(size);
             });
  value_flag(command, "--file-pattern", "PATTERN",
             "names with {rank}, {part}, {pp_rank}; default vLLM's",
             [&job](const std::string& text) { job.file_pattern = text; });
  value_flag(command, "--vllm-version", "X.Y.Z",
             "release that is to load them; default " + model::version_text(shard::kNewestRelease),
             [&job](const std::string& text) { job.release = shard::parse_release(text); });
}

}  // namespace

void declare_shard_flags(CLI::App& command, ShardOptions& options) {
  const auto text = [&](const std::string& names, std::string& target, const std::string& type,
                        const std::string& help) { text_flag(command, names, target, type, help); };
  command.add_option("MODEL", options.model)->group("");
  command.option_defaults()->group("Input and output");
  text("-o,--output", options.output, "DIR", "folder for the shards; new, empty or unfinished");
  command.add_flag("--dry-run", options.dry_run, "print the table of tensors, write nothing");
  text("--verify", options.verify, "DIR", "compare shards with their digests, or with --source");
  text("--source", options.source, "MODEL", "with --verify: recompute every byte from this model");
  text("--unshard", options.unshard, "DIR", "rebuild a Hugging Face checkpoint in -o DIR");
  choice_flag(command, "--format", options.json, {{"text", false}, {"json", true}},
              "of the table; default text");
  command.add_flag("-q,--quiet", options.quiet, "errors only; -q METHOD is --quantization METHOD");
  declare_job_flags(command, options.job);
  text("--quantization", options.quantization, "METHOD",
       "the checkpoint's own; others are refused");
}

void check_shard_options(const ShardOptions& options) {
  const int actions =
      int{!options.model.empty()} + int{!options.verify.empty()} + int{!options.unshard.empty()};
  if (actions != 1) {
    fail(ExitCode::usage, "shard: give one of MODEL, --verify DIR and --unshard DIR");
  }
  if (!options.output.empty() && !options.verify.empty()) {
    fail(ExitCode::usage, "-o: --verify writes nothing; leave -o out");
  }
  if (options.dry_run && options.model.empty()) {
    fail(ExitCode::usage, "--dry-run belongs to MODEL");
  }
  if (options.json && !options.dry_run) {
    fail(ExitCode::usage, "--format json belongs to --dry-run, whose table it prints");
  }
  if (!options.source.empty() && options.verify.empty()) {
    fail(ExitCode::usage, "--source belongs to --verify DIR");
  }
  if (!options.quantization.empty() && options.model.empty()) {
    fail(ExitCode::usage, "--quantization: belongs to MODEL");
  }
}

}  // namespace plimsoll::cli
