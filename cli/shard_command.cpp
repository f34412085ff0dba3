#include "shard_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>

#include "base/error.h"
#include "batch/progress.h"
#include "environment.h"
#include "help.h"
#include "shard/pipeline.h"
#include "shard/quantized.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"
#include "signals.h"
#include "terminal.h"
#include "units.h"
#include "value_flag.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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
             "release that is to load them; default " + shard::release_text(shard::kNewestRelease),
             [&job](const std::string& text) { job.release = shard::parse_release(text); });
}

// ---- the table of --dry-run ----

std::string source_names(const shard::ShardTensor& tensor) {
  if (tensor.weight == nullptr) return "-";
  std::vector<std::string> names;
  for (const model::Part& part : tensor.weight->parts) {
    if (names.empty() || names.back() != part.tensor) names.push_back(part.tensor);
  }
  constexpr size_t kShown = 3;
  const size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, " "), more > 0 ? fmt::format(" (+{})", more) : "");
}

void print_text_row(const shard::ShardTensor& tensor, int64_t rank, const std::string& file) {
  fmt::print("{}\t{}\t{}\t[{}]\t{}\t{}\t{}\n", tensor.name, source_names(tensor), rank,
             fmt::join(tensor.shape, ", "), safetensors_name(tensor.dtype), tensor.bytes(), file);
}

void print_json_row(const shard::ShardTensor& tensor, int64_t rank, const std::string& file) {
  Json sources = Json::array();
  if (tensor.weight != nullptr) {
    std::set<std::string> seen;
    for (const model::Part& part : tensor.weight->parts) {
      if (seen.insert(part.tensor).second) sources.push_back(part.tensor);
    }
  }
  const Json row = {{"tensor", tensor.name},
                    {"sources", sources},
                    {"rank", rank},
                    {"shape", tensor.shape},
                    {"dtype", safetensors_name(tensor.dtype)},
                    {"bytes", tensor.bytes()},
                    {"file", file}};
  fmt::print("{}\n", row.dump());
}

void print_table(const shard::Job& job, const ShardOptions& options) {
  if (!options.json) fmt::print("tensor\tsource tensors\trank\tshape\tdtype\tbytes\tfile\n");
  for (size_t stage = 0; stage < job.stages().size(); ++stage) {
    const auto& parts = job.stages()[stage].parts;
    for (size_t part = 0; part < parts.size(); ++part) {
      for (int64_t rank = 0; rank < job.layout().tensor_parallel; ++rank) {
        const std::string file = job.file_name(stage, rank, part);
        for (const shard::ShardTensor* tensor : parts[part].tensors) {
          (options.json ? print_json_row : print_text_row)(*tensor, rank, file);
        }
      }
    }
  }
  if (std::fflush(stdout) != 0)
    fail(ExitCode::output_unwritable, "standard output cannot be written");
}

// ---- progress ----

/// Bytes and rate on standard error: a line drawn over on a terminal, else one every ten seconds.
class ByteProgress {
 public:
  ByteProgress(int64_t total, bool quiet, const Environment& environment)
      : total_(total), quiet_(quiet), redraw_(can_redraw(environment)) {}

  void show(int64_t done) {
    const Clock::time_point now = Clock::now();
    const auto pause = redraw_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
    if (quiet_ || now - last_ < pause) return;
    last_ = now;
    const std::string line = describe(done, now);
    write_error_stream(redraw_ ? fmt::format("\r\x1b[K{}", line) : line + "\n");
  }

  void finish() const {
    if (redraw_ && !quiet_) write_error_stream("\r\x1b[K");
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  [[nodiscard]] std::string describe(int64_t done, Clock::time_point now) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
    const double left = static_cast<double>(total_ - done) / std::max(rate, 1.0);
    return fmt::format("{:.2f} of {:.2f} GB, {:.0f} MB/s, {} left", static_cast<double>(done) / 1e9,
                       static_cast<double>(total_) / 1e9, rate / 1e6, batch::format_duration(left));
  }

  int64_t total_;
  bool quiet_, redraw_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

// ---- the three things it does ----

fs::path find_folder(const std::string& model, const Environment& environment) {
  return checkpoint::find_model(model, {environment.hub_cache});
}

// With what the environment says of the stages, as in vLLM.
shard::JobOptions job_options(const ShardOptions& options, const Environment& environment) {
  shard::JobOptions job = options.job;
  if (environment.layer_partition) {
    job.pipeline_partition = shard::parse_partition(*environment.layer_partition);
  }
  return job;
}

// vLLM takes the flag for what the checkpoint is anyway.
void check_quantization(const ShardOptions& options, const shard::Source& source) {
  if (options.quantization.empty() || options.quantization == source.quantization()) return;
  if (!source.quantization().empty()) {
    fail(ExitCode::usage, "--quantization {}: the checkpoint is quantised by {}",
         options.quantization, source.quantization());
  }
  fail(ExitCode::usage,
       "--quantization {}: vLLM quantises plain weights while it loads them, and its sharded_state "
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
        "{}: quantised ({}), written in load layout: what vLLM's loader fills before "
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
  const double seconds = std::max(progress.seconds(), 1e-3);
  const int64_t stages = job.layout().pipeline_parallel;
  say(
      fmt::format("{}: {} files in {}, {:.2f} GB written in {:.1f} s ({:.0f} MB/s), {:.2f} GB were "
                  "there; load with --load-format sharded_state -tp {}{}",
                  options.output, job.file_names().size(), torch_name(job.layout().dtype),
                  static_cast<double>(result.written_bytes) / 1e9, seconds,
                  static_cast<double>(result.written_bytes) / 1e6 / seconds,
                  static_cast<double>(result.kept_bytes) / 1e9, job.layout().tensor_parallel,
                  stages > 1 ? fmt::format(" -pp {}", stages) : ""));
  return static_cast<int>(ExitCode::done);
}

std::optional<std::string> find_difference(const ShardOptions& options,
                                           const Environment& environment) {
  const fs::path folder = options.verify;
  if (options.source.empty()) return shard::verify_digests(folder);
  const fs::path sidecar = folder / shard::kSidecar;
  const bool recorded = fs::exists(sidecar);
  const shard::JobOptions wanted = recorded
                                       ? shard::options_of(shard::read_record(sidecar), sidecar)
                                       : job_options(options, environment);
  const shard::Source source(find_folder(options.source, environment), wanted.release);
  const shard::Job job(source, wanted);
  if (auto difference = shard::verify_source(job, folder)) return difference;
  return recorded ? shard::verify_digests(folder) : std::nullopt;
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

void check_options(const ShardOptions& options) {
  const int actions =
      int{!options.model.empty()} + int{!options.verify.empty()} + int{!options.unshard.empty()};
  if (actions != 1) {
    fail(ExitCode::usage, "shard: give one of MODEL, --verify DIR and --unshard DIR");
  }
  if (!options.source.empty() && options.verify.empty()) {
    fail(ExitCode::usage, "--source belongs to --verify DIR");
  }
  if (!options.quantization.empty() && options.model.empty()) {
    fail(ExitCode::usage, "--quantization: belongs to MODEL");
  }
}

}  // namespace

CLI::App* add_shard_command(CLI::App& app, ShardOptions& options) {
  CLI::App* command = app.add_subcommand("shard", "tensor-parallel shards, as vLLM saves them");
  add_help_flags(*command);
  const auto text = [&](const std::string& names, std::string& target, const std::string& type,
                        const std::string& help) {
    command->add_option(names, target, help)->type_name(type);
  };
  command->add_option("MODEL", options.model)->group("");
  command->option_defaults()->group("Input and output");
  text("-o,--output", options.output, "DIR", "folder for the shards; new, empty or unfinished");
  command->add_flag("--dry-run", options.dry_run, "print the table of tensors, write nothing");
  text("--verify", options.verify, "DIR", "compare shards with their digests, or with --source");
  text("--source", options.source, "MODEL", "with --verify: recompute every byte from this model");
  text("--unshard", options.unshard, "DIR", "rebuild a Hugging Face checkpoint in -o DIR");
  value_flag(*command, "--format", "text|json", "of the table; default text",
             [&options](const std::string& format) {
               if (format != "text" && format != "json") {
                 throw std::invalid_argument("expected text or json");
               }
               options.json = format == "json";
             });
  command->add_flag("--quiet", options.quiet, "errors only");
  declare_job_flags(*command, options.job);
  text("-q,--quantization", options.quantization, "METHOD",
       "the checkpoint's own; others are refused");
  return command;
}

int shard_command(const ShardOptions& options) {
  check_options(options);
  const Environment environment = read_environment();
  if (!options.verify.empty()) return verify(options, environment);
  if (options.unshard.empty()) return write(options, environment);
  if (options.output.empty()) fail(ExitCode::usage, "--unshard: no output folder; give -o DIR");
  shard::unshard(options.unshard, options.output, options.job);
  return static_cast<int>(ExitCode::done);
}

}  // namespace plimsoll::cli
