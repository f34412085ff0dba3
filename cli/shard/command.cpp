#include "cli/shard/command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/find_model.h"
#include "checkpoint/gguf/model.h"
#include "cli/arguments.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/shard/progress.h"
#include "cli/shard/table.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "model/pipeline.h"
#include "shard/file_names.h"
#include "shard/quantized/quantized.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

fs::path find_folder(const std::string& model, const Environment& environment) {
  fs::path found = checkpoint::find_model(model, environment.stores);
  if (!checkpoint::gguf::is_gguf_path(found)) return found;
  fail(ExitCode::checkpoint_unusable,
       "{}: a GGUF file is not sharded, because vLLM loads no shards of its types; `plimsoll run` "
       "reads the file as it is, and vLLM's shards need the original model's safetensors",
       found.string());
}

// Options of the job, with the layers of the stages that the environment states, as in vLLM.
shard::JobOptions job_options(const ShardOptions& options, const Environment& environment) {
  shard::JobOptions job = options.job;
  if (environment.layer_partition) {
    job.pipeline_partition = model::parse_partition(*environment.layer_partition);
  }
  return job;
}

// Flags with which vLLM loads the shards that a job writes.
std::string loading_flags(const ShardOptions& options, const shard::Layout& layout,
                          const Environment& environment) {
  std::string flags = fmt::format("--load-format sharded_state -tp {}", layout.tensor_parallel);
  if (layout.pipeline_parallel > 1) flags += fmt::format(" -pp {}", layout.pipeline_parallel);
  if (options.job.dtype != "auto") flags += fmt::format(" --dtype {}", torch_name(layout.dtype));
  if (!options.job.file_pattern.empty()) {
    const Json extra{{"pattern", shard::FilePattern(options.job.file_pattern).loader_text()}};
    flags += fmt::format(" --model-loader-extra-config {}", shell_quoted(extra.dump()));
  }
  if (layout.pipeline_parallel > 1 && environment.layer_partition) {
    flags = fmt::format("VLLM_PP_LAYER_PARTITION={} in the environment and {}",
                        *environment.layer_partition, flags);
  }
  return flags;
}

// vLLM takes the flag for what the checkpoint is anyway.
void check_quantization(const ShardOptions& options, const shard::Source& source) {
  if (options.quantization.empty() || options.quantization == source.quantization()) return;
  if (!source.quantization().empty()) {
    fail(ExitCode::usage, "--quantization {}: the checkpoint is quantized by {}",
         options.quantization, source.quantization());
  }
  fail(ExitCode::usage,
       "--quantization {}: vLLM quantizes plain weights while it loads them, and its sharded_state "
       "loader takes the placeholders that stand for them until then for aliases of each other and "
       "drops them, so such shards do not load; shard the model as it is, and give --quantization "
       "to vLLM when it loads the original",
       options.quantization);
}

int write(const ShardOptions& options, const Environment& environment) {
  const shard::JobOptions job_wanted = job_options(options, environment);
  const shard::Source source(find_folder(options.model, environment), job_wanted.release);
  check_quantization(options, source);
  const shard::Job job(source, job_wanted);
  if (options.dry_run) {
    if (!options.output.empty()) shard::check_output(job, options.output);
    print_table(job, options);
    return static_cast<int>(ExitCode::done);
  }
  if (options.output.empty()) fail(ExitCode::usage, "shard: no output folder; give -o DIR");
  ByteProgress progress(job.bytes(), options.quiet, environment);
  const shard::WriteResult result =
      shard::write_shards(job, options.output,
                          {.tool_version = PLIMSOLL_VERSION,
                           .stop = &install_signal_handlers().stop,
                           .progress = [&](int64_t bytes) { progress.show(bytes); }});
  progress.finish();
  if (options.quiet) return static_cast<int>(ExitCode::done);
  if (!source.quantization().empty()) {
    say(fmt::format(
        "{}: quantized ({}), written in load layout: what vLLM's loader fills before "
        "its kernels repack it. {}",
        options.output, source.quantization(), shard::saver_behaviour(source.quantization())));
  }
  if (source.has_own_head()) {
    say(fmt::format(
        "{}: config.json ties the head to the token table, and the checkpoint's own head differs: "
        "both are written, as vLLM writes them, but its loader takes them only from a folder whose "
        "config.json says \"tie_word_embeddings\": false",
        options.output));
  }
  if (const auto lost = source.left_out(); !lost.empty()) {
    say(fmt::format(
        "{}: {} of the checkpoint's tensors in no shard ({}), because vLLM's {} computes "
        "without; plimsoll neither runs nor joins such shards",
        options.output, lost.size(), lost.front(), source.spec().architecture));
  }
  const double seconds = std::max(progress.seconds(), 1e-3);
  say(
      fmt::format("{}: {} files in {}, {:.2f} GB written in {:.1f} s ({:.0f} MB/s), {:.2f} GB were "
                  "there; load with {}",
                  options.output, job.file_names().size(), torch_name(job.layout().dtype),
                  static_cast<double>(result.written_bytes) / 1e9, seconds,
                  static_cast<double>(result.written_bytes) / 1e6 / seconds,
                  static_cast<double>(result.kept_bytes) / 1e9,
                  loading_flags(options, job.layout(), environment)));
  return static_cast<int>(ExitCode::done);
}

/// Refuses flags that contradict the record of the shards in `folder`: they are for shards without
/// one.
void check_recorded(const shard::JobOptions& given, const fs::path& folder) {
  const fs::path sidecar = folder / shard::kSidecar;
  if (!fs::exists(sidecar)) return;
  const shard::JobOptions recorded = shard::options_of(shard::read_record(sidecar), sidecar);
  using Options = const shard::JobOptions&;
  struct Row {
    const char* flag;
    std::string (*text)(Options);
  };
  constexpr Row kRows[] = {
      {"--tensor-parallel-size", [](Options job) { return std::to_string(job.tensor_parallel); }},
      {"--pipeline-parallel-size",
       [](Options job) { return std::to_string(job.pipeline_parallel); }},
      {"--dtype",
       [](Options job) {
         const auto known = dtype_from_torch(job.dtype);
         return known ? std::string(torch_name(*known)) : job.dtype;
       }},
      {"--file-pattern", [](Options job) { return job.file_pattern; }},
      {"--max-file-size",
       [](Options job) {
         return job.max_file_size ? std::to_string(*job.max_file_size) : std::string("none");
       }},
      {"--vllm-version", [](Options job) { return model::version_text(job.release); }}};
  const shard::JobOptions usual;
  for (const Row& row : kRows) {
    const std::string text = row.text(given);
    if (text == row.text(usual) || text == row.text(recorded)) continue;
    fail(ExitCode::usage, "{} {}: {} says {}; leave the flag out", row.flag, text, sidecar.string(),
         row.text(recorded));
  }
}

std::optional<std::string> find_difference(const ShardOptions& options,
                                           const Environment& environment) {
  const fs::path folder = options.verify;
  if (!fs::is_directory(folder)) {
    fail(ExitCode::usage, "--verify {}: is no folder", options.verify);
  }
  check_recorded(options.job, folder);
  const fs::path sidecar = folder / shard::kSidecar;
  const bool recorded = fs::exists(sidecar);
  const auto as_recorded = [&]() -> std::optional<std::string> {
    if (auto difference = shard::verify_digests(folder)) return difference;
    return shard::verify_side_files(shard::read_record(sidecar).side_files, folder);
  };
  if (options.source.empty()) return as_recorded();
  const shard::JobOptions wanted = recorded
                                       ? shard::options_of(shard::read_record(sidecar), sidecar)
                                       : job_options(options, environment);
  const shard::Source source(find_folder(options.source, environment), wanted.release);
  const shard::Job job(source, wanted);
  if (auto difference = shard::verify_source(job, folder)) {
    if (recorded) return difference;
    return fmt::format(
        "{}; there is no {}: do -tp, -pp, --dtype and the other flags of shards say how these were "
        "cut?",
        *difference, shard::kSidecar);
  }
  if (auto difference = shard::verify_side_files(shard::side_records(source.folder()), folder))
    return difference;
  return recorded ? as_recorded() : std::nullopt;
}

int verify(const ShardOptions& options, const Environment& environment) {
  if (const auto difference = find_difference(options, environment)) {
    fail(ExitCode::checkpoint_unusable, "{}", *difference);
  }
  if (!options.quiet) {
    say(fmt::format("{}: every file is {}", options.verify,
                    options.source.empty() ? "as its sidecar says" : "what the source gives"));
  }
  return static_cast<int>(ExitCode::done);
}

/// The message after --unshard: the folder that was written, and tensors of the model's checkpoint
/// that it lacks.
std::string joined_text(const ShardOptions& options) {
  const fs::path sidecar = fs::path(options.unshard) / shard::kSidecar;
  std::string done = fmt::format("{}: joined from {}", options.output, options.unshard);
  if (!fs::exists(sidecar))
    return done + "; tensors of the checkpoint that vLLM does not load are not in it";
  const std::vector<std::string> left_out = shard::read_record(sidecar).left_out;
  if (left_out.empty()) return done;
  return fmt::format("{}; not in it, since vLLM does not load them: {}", done,
                     fmt::join(left_out, ", "));
}

}  // namespace

CLI::App* add_shard_command(CLI::App& app, ShardOptions& options) {
  CLI::App* command = app.add_subcommand("shard", "tensor-parallel shards, as vLLM saves them");
  add_help_flags(*command);
  declare_shard_flags(*command, options);
  return command;
}

int shard_command(const ShardOptions& options) {
  check_shard_options(options);
  const Environment environment = read_environment();
  if (!options.verify.empty()) return verify(options, environment);
  if (options.unshard.empty()) return write(options, environment);
  if (options.output.empty()) fail(ExitCode::usage, "--unshard: no output folder; give -o DIR");
  check_recorded(options.job, options.unshard);
  shard::unshard(options.unshard, options.output, options.job);
  if (!options.quiet) say(joined_text(options));
  return static_cast<int>(ExitCode::done);
}

}  // namespace plimsoll::cli
