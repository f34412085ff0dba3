#include "cli/run/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "batch/input_scan.h"
#include "batch/output.h"
#include "batch/report.h"
#include "cli/environment.h"
#include "cli/help.h"
#include "cli/run/launch.h"
#include "cli/run/used_files.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

using batch::Clock;

// Counting the lines of larger files beforehand would be felt.
constexpr uint64_t kCountedBytes = uint64_t{64} << 20;

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
    if (options.part || input.size() <= kCountedBytes) {
      runner.total_lines = batch::count_lines(input, options.max_line_bytes);
      input.rewind();
    }
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

// Every line that came in went somewhere.
void audit(const batch::RunCounts& counts) {
  if (counts.lines == counts.ok + counts.failed + counts.abandoned) return;
  fail(ExitCode::bug, "{} lines came in, but {} were answered, {} failed and {} not finished",
       counts.lines, counts.ok, counts.failed, counts.abandoned);
}

void tell_end(const RunOptions& options, const batch::RunReport& report,
              const batch::Output& output) {
  if (options.quiet) return;
  for (const std::string& line : batch::summary_lines(report)) say(line);
  if (report.counts.ending == batch::Ending::complete) return;
  say(fmt::format("stopped early ({}); the finished lines are in {}",
                  report.counts.ending == batch::Ending::stopped ? "signal" : "--time-limit",
                  output.kept_at()));
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
  batch::RunnerOptions runner_options;
  scan(options, input, runner_options);
  const std::unique_ptr<batch::Output> output =
      batch::open_output(options.output, options.existing);
  std::unique_ptr<batch::Output> errors;
  if (!options.errors.empty()) errors = batch::open_output(options.errors, options.existing);

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
  batch::Runner runner(input, *launched->engine, prompts, *output, errors.get(), progress,
                       std::move(runner_options));
  const double load_seconds = seconds_since(start);

  const Clock::time_point run_start = Clock::now();
  batch::RunReport report = make_report(options, *launched, runner.run());
  report.load_seconds = load_seconds;
  report.run_seconds = seconds_since(run_start);
  progress.finish();
  audit(report.counts);

  const Clock::time_point publish_start = Clock::now();
  const bool complete = report.counts.ending == batch::Ending::complete;
  for (batch::Output* file : {errors.get(), output.get()}) {
    if (file) complete ? file->publish() : file->keep();
  }
  report.publish_seconds = seconds_since(publish_start);
  report.memory = batch::host_memory_report(launched->engine->measured(), batch::peak_rss_bytes());
  if (launched->device.card) add_card(*launched, report.memory);
  if (!options.report.empty()) files::write_file(options.report, batch::report_json(report));
  tell_end(options, report, *output);
  return report.exit_status;
}

}  // namespace plimsoll::cli
