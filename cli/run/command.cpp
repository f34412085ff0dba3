#include "cli/run/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "batch/files/publish.h"
#include "batch/files/run_files.h"
#include "batch/input_scan.h"
#include "batch/report.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/run/job.h"
#include "cli/run/launch.h"
#include "cli/run/used_files.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

using batch::Clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

batch::Progress make_progress(const RunOptions& options, const Environment& environment) {
  auto mode = batch::ProgressMode::lines;
  if (options.quiet || options.progress == "none") {
    mode = batch::ProgressMode::none;
  } else if (options.progress == "bar" || (options.progress == "auto" && can_redraw(environment))) {
    mode = batch::ProgressMode::bar;
  }
  const bool quiet = options.quiet;
  return {mode, terminal_width(environment), [quiet](std::string_view bytes) {
            if (!quiet) write_error_stream(bytes);
          }};
}

// Flags that were taken and change nothing.
void note_unused(const RunOptions& options) {
  if (options.quiet) return;
  if (!options.ignored.empty()) {
    say(fmt::format("{}: for plan alone, without effect here", fmt::join(options.ignored, ", ")));
  }
  if (!options.launch.for_vllm.empty()) {
    say(fmt::format("{}: without effect on our own engine",
                    fmt::join(options.launch.for_vllm, ", ")));
  }
}

// Passes over a regular input before anything is loaded: lines of a part, ids under --strict.
void scan(const RunOptions& options, files::InputFile& input, batch::RunnerOptions& runner) {
  if (input.is_regular()) {
    if (options.unknown_fields == batch::UnknownFields::refuse) {
      batch::refuse_duplicate_ids(input, options.max_line_bytes);
      input.rewind();
    }
    runner.total_lines = batch::count_lines(input, options.max_line_bytes);
    input.rewind();
  }
  if (options.part) {
    if (!runner.total_lines) {
      fail(ExitCode::usage, "--part: {} is not a regular file", input.name());
    }
    runner.slice = batch::part_of(*runner.total_lines, options.part->first, options.part->second);
  }
  const uint64_t skipped = std::min(options.skip, runner.slice.count);
  runner.slice.first += skipped;
  if (runner.slice.count != UINT64_MAX) runner.slice.count -= skipped;
  if (options.limit) runner.slice.count = std::min(runner.slice.count, *options.limit);
  if (runner.total_lines) {
    const uint64_t behind = *runner.total_lines - std::min(*runner.total_lines, runner.slice.first);
    runner.total_lines = std::min(behind, runner.slice.count);
  }
}

batch::PromptBuilder make_prompt_builder(const RunOptions& options, const Environment& environment,
                                         Launch& launch) {
  batch::PromptOptions prompts;
  prompts.tokenizer = launch.tokenizer ? &*launch.tokenizer : nullptr;
  prompts.max_model_len = launch.engine->plan().max_model_len;
  prompts.max_tokens_cap = max_tokens_cap(options, launch.generation);
  prompts.long_prompt = options.long_prompt;
  prompts.split_overlap = options.split_overlap;
  launch.chat.now = template_time(environment);
  return {prompts, std::move(launch.chat)};
}

void fill_runner_options(const RunOptions& options, const Environment& environment,
                         const Launch& launch, batch::RunnerOptions& runner) {
  runner.max_line_bytes = options.max_line_bytes;
  runner.unknown_fields = options.unknown_fields;
  runner.defaults = default_fields(options, launch.generation);
  runner.limits = {.vocab_size = launch.spec.vocab_size, .max_logprobs = options.max_logprobs};
  runner.output.format = options.format;
  runner.output.tokenizer = launch.tokenizer ? &*launch.tokenizer : nullptr;
  runner.output.model =
      options.served_model_name.empty() ? options.model : options.served_model_name;
  runner.output.created = environment.source_date_epoch.value_or(0);
  runner.output.seed = options.seed;
}

int exit_status(const batch::RunCounts& counts) {
  if (counts.ending != batch::Ending::complete) {
    return static_cast<int>(ExitCode::stopped_resumable);
  }
  return static_cast<int>(counts.failed > 0 ? ExitCode::some_lines_failed : ExitCode::done);
}

// Every line that came in went somewhere, and every record is one of them.
void audit(const batch::RunCounts& counts, const batch::RunFiles& files) {
  const uint64_t done = counts.ok + counts.failed;
  if (counts.lines != done + counts.abandoned) {
    fail(ExitCode::bug, "{} lines came in, but {} were answered, {} failed and {} not finished",
         counts.lines, counts.ok, counts.failed, counts.abandoned);
  }
  const std::optional<uint64_t> records = files.records();
  if (records && *records != done) {
    fail(ExitCode::bug, "{} lines were answered or failed, but {} has {} records", done,
         files.kept_at(), *records);
  }
}

void tell_end(const RunOptions& options, const batch::RunReport& report,
              const batch::RunFiles& files) {
  if (options.quiet) return;
  for (const std::string& line : batch::summary_lines(report)) say(line);
  if (report.counts.ending == batch::Ending::complete) return;
  const char* cause = report.counts.ending == batch::Ending::stopped ? "signal" : "--time-limit";
  if (report.counts.ok + report.counts.failed == 0) {
    say(fmt::format("stopped early ({}) before the first line was finished", cause));
  } else if (!files.records()) {
    say(fmt::format("stopped early ({}); the finished lines are in {}", cause, files.kept_at()));
  } else {
    say(fmt::format(
        "stopped early ({}); the finished lines are in {}, and the same command goes on", cause,
        files.kept_at()));
  }
}

batch::RunFilesOptions file_options(const RunOptions& options, const Environment& environment,
                                    const DeviceChoice& device, files::InputFile& input,
                                    const batch::Slice& slice) {
  batch::RunFilesOptions files;
  files.output = options.output;
  files.errors = options.errors;
  files.existing = options.existing;
  files.fsync = options.fsync;
  files.resume = {
      .max_line_bytes = options.max_line_bytes, .slice = slice, .failed = options.retry_failed};
  if (files::is_stream(options.output)) return files;
  files.job = describe_job(options, environment, device, input, slice);
  files.notes = describe_life(options, device);
  return files;
}

// The same command ended before.
int tell_finished(const RunOptions& options, const batch::Manifest& manifest) {
  if (!options.quiet) {
    say(fmt::format("{}: is complete already ({} lines answered, {} failed); nothing to do",
                    options.output, manifest.ok, manifest.failed));
  }
  return static_cast<int>(manifest.failed > 0 ? ExitCode::some_lines_failed : ExitCode::done);
}

void tell_resumed(const RunOptions& options, const batch::DoneLines& done) {
  if (options.quiet) return;
  if (done.dropped_bytes > 0) {
    say(fmt::format("{} bytes of a line that was cut short were dropped", done.dropped_bytes));
  }
  if (done.ok + done.failed == 0) return;
  say(fmt::format("going on: {} lines are done already", done.ok + done.failed));
}

int publish_command(const RunOptions& options) {
  const batch::Published published = batch::publish_what_is_there(options.publish);
  const batch::Manifest& manifest = published.manifest;
  if (!options.quiet) {
    say(fmt::format("{}: {} lines answered, {} failed, {} missing{}", options.publish, manifest.ok,
                    manifest.failed, manifest.missing,
                    published.in_order ? ""
                                       : "; the input is not there as it was, so lines keep the "
                                         "order in which they were finished"));
  }
  if (manifest.missing > 0) return static_cast<int>(ExitCode::stopped_resumable);
  return static_cast<int>(manifest.failed > 0 ? ExitCode::some_lines_failed : ExitCode::done);
}

batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             batch::RunCounts counts) {
  batch::RunReport report;
  report.version = PLIMSOLL_VERSION;
  report.model = options.model;
  report.device = launch.device.card ? launch.device.card->name : "cpu";
  report.isa = backend::isa_name(launch.device.cpu.isa);
  report.threads = launch.device.cpu.threads;
  report.dtype = torch_name(launch.dtype);
  report.seed = options.seed;
  report.exit_status = exit_status(counts);
  report.counts = std::move(counts);
  report.stats = launch.engine->stats();
  report.plan = launch.engine->plan();
  report.notes = launch.setup.notes;
  return report;
}

// What the card's driver says of this process, beside what the launch was allowed. Nothing is taken
// after the launch, so the end shows the peak.
void add_card(const Launch& launch, batch::MemoryReport& memory) {
  const DeviceSetup& setup = launch.setup;
  const backend::DeviceMemory now =
      backend::device_memory(*launch.backend, launch.spec, setup.graphs);
  memory.lines.push_back({"beside the arena", setup.budget.outside, std::nullopt, std::nullopt});
  memory.planned += setup.budget.outside;
  // Our own count has the arena alone, which is measured anyway.
  if (now.source == backend::MemorySource::allocations) return;
  const uint64_t arena = launch.engine->plan().total_bytes;
  memory.lines.back().measured = now.process - std::min(now.process, arena);
  memory.measured_peak = now.process;
  memory.device = {.name = launch.device.card->name,
                   .total = now.total,
                   .budget = setup.budget.ceiling,
                   .free_at_start = setup.at_start.free,
                   .peak = now.process};
}

}  // namespace

CLI::App* add_run_command(CLI::App& app, RunOptions& options) {
  CLI::App* command = app.add_subcommand("run", "batch generation over a JSONL file");
  add_help_flags(*command);
  declare_run_flags(*command, options);
  return command;
}

int run_command(const RunOptions& options) {
  if (!options.publish.empty()) return publish_command(options);
  const Clock::time_point start = Clock::now();
  const Environment environment = read_environment();
  check_run_options(options);
  note_unused(options);
  const DeviceChoice device = choose_device(options, environment);
  (void)default_fields(options, {});
  if (options.chat_template) batch::check_template(*options.chat_template);

  check_files(options, environment);
  files::InputFile input = files::InputFile::open(options.input);
  if (!options.input_given && input.is_terminal()) {
    fail(ExitCode::usage, "no input: give -i FILE, or pipe JSONL to standard input");
  }
  if (options.existing == files::Existing::refuse) batch::refuse_unknown_output(options.output);
  batch::RunnerOptions runner_options;
  scan(options, input, runner_options);
  batch::RunFiles files(file_options(options, environment, device, input, runner_options.slice),
                        &input);
  if (files.finished()) return tell_finished(options, files.manifest());
  tell_resumed(options, files.done());
  runner_options.done = &files.done();

  SignalFlags& signals = install_signal_handlers();
  runner_options.stop = &signals.stop;
  runner_options.status = &signals.status;
  if (options.time_limit) {
    runner_options.deadline =
        start + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(std::min(*options.time_limit, 1e9)));
  }
  const std::unique_ptr<Launch> launched = launch(options, environment, device);
  fill_runner_options(options, environment, *launched, runner_options);
  batch::PromptBuilder prompts = make_prompt_builder(options, environment, *launched);
  batch::Progress progress = make_progress(options, environment);
  batch::Runner runner(input, *launched->engine, prompts, files.output(), files.errors(), progress,
                       std::move(runner_options));
  const double load_seconds = seconds_since(start);

  const Clock::time_point run_start = Clock::now();
  batch::RunReport report = make_report(options, *launched, runner.run());
  report.load_seconds = load_seconds;
  report.run_seconds = seconds_since(run_start);
  progress.finish();
  audit(report.counts, files);

  const Clock::time_point publish_start = Clock::now();
  if (report.counts.ending == batch::Ending::complete) {
    files.publish(report.counts.ok, report.counts.failed, 0);
  } else {
    files.keep();
  }
  report.publish_seconds = seconds_since(publish_start);
  report.memory = batch::host_memory_report(launched->engine->measured(), batch::peak_rss_bytes());
  if (launched->device.card) add_card(*launched, report.memory);
  if (!options.report.empty()) files::write_file(options.report, batch::report_json(report));
  tell_end(options, report, files);
  return report.exit_status;
}

}  // namespace plimsoll::cli
