#include "cli/run/command.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "base/json_bytes.h"
#include "batch/files/existing_output.h"
#include "batch/watch.h"
#include "cli/environment.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/run/account.h"
#include "cli/run/actions.h"
#include "cli/run/crash_notes.h"
#include "cli/run/fleet.h"
#include "cli/run/job.h"
#include "cli/run/launch.h"
#include "cli/run/limits.h"
#include "cli/run/order.h"
#include "cli/run/prompts_check.h"
#include "cli/run/scan.h"
#include "cli/run/status.h"
#include "cli/run/talk.h"
#include "cli/run/used_files.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace plimsoll::cli {
namespace {

using batch::Clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, 1e9)));
}

batch::PromptBuilder make_prompt_builder(const RunOptions& options, const Launch& launch) {
  return {prompt_options(options, launch.prompts, launch.engine->plan().max_model_len,
                         std::make_shared<batch::ImageLoader>(launch.images)),
          launch.prompts.chat};
}

void fill_runner_options(const RunOptions& options, const Environment& environment,
                         const Launch& launch, batch::RunnerOptions& runner) {
  runner.max_line_bytes = options.max_line_bytes;
  runner.unknown_fields = options.unknown_fields;
  runner.defaults = default_fields(options, launch.prompts.generation);
  runner.limits = {.vocab_size = launch.resolved.spec.vocab_size,
                   .max_logprobs = options.max_logprobs};
  runner.output.format = options.format;
  if (options.format == batch::OutputFormat::json) runner.output.formats = launch.prompts.formats;
  const auto& tokenizer = launch.prompts.tokenizer;
  runner.output.tokenizer = tokenizer ? &*tokenizer : nullptr;
  runner.output.created = environment.source_date_epoch.value_or(0);
  runner.output.seed = options.seed;
}

batch::RunFilesOptions file_options(const RunOptions& options, const Environment& environment,
                                    const DeviceChoice& device, files::InputFile& input,
                                    const ScannedInput& scanned) {
  batch::RunFilesOptions files;
  files.output = options.output;
  files.errors = options.errors;
  files.existing = options.existing;
  files.fsync = options.fsync;
  files.resume = {.max_line_bytes = options.max_line_bytes,
                  .slice = scanned.slice,
                  .failed = options.retry_failed};
  if (files::is_stream(options.output)) return files;
  files.job = describe_job(options, environment, device, input, scanned);
  files.notes = describe_life(options, device);
  return files;
}

// The model's name in answers, as UTF-8: the same in every life of a run.
std::string model_name(const RunOptions& options, const batch::RunFiles& files) {
  const std::string& served = options.served_model_name;
  return shown_text(served.empty() ? files.manifest().notes.value("model", options.model) : served);
}

/// Parts of a run that exist so far, for the watch that may have to end it. They change with the
/// watch's outputs() held.
struct Current {
  batch::RunFiles* files = nullptr;
  const Launch* launch = nullptr;
  const batch::Runner* runner = nullptr;
  StatusSink* sink = nullptr;  // from the beginning
  CrashNotes* notes = nullptr;
  processes::Fleet* fleet = nullptr;  // from the beginning, where there is one
  const RunOrder* order = nullptr;    // with the runner
};

batch::Ending ending_of(batch::Cause cause) {
  if (cause == batch::Cause::stall) return batch::Ending::stalled;
  return cause == batch::Cause::signal ? batch::Ending::stopped : batch::Ending::time_limit;
}

// The report of a run whose step does not end.
int report_without_engine(const RunOptions& options, const Current& current, batch::Cause cause) {
  batch::RunCounts counts = current.runner->counts();
  counts.ending = ending_of(cause);
  counts.abandoned = counts.lines - counts.ok - counts.failed;
  const batch::RunReport report =
      make_report(options, *current.launch, current.order->choice, std::move(counts));
  if (cause == batch::Cause::stall) {
    say(fmt::format("no step has ended for {:g} s; these lines were running: {}",
                    *options.stall_limit, current.runner->running()));
  }
  if (!options.report.empty()) files::write_file(options.report, batch::report_json(report));
  tell_end(options, report, *current.files);
  return report.exit_status;
}

// Ends the process from the watch's thread. The journal is whole at any moment.
[[noreturn]] void leave(const RunOptions& options, const Current& current, batch::Cause cause,
                        batch::AtRest at_rest) {
  int status = static_cast<int>(ExitCode::stopped_resumable);
  if (cause == batch::Cause::stall && current.notes) current.notes->mark();
  try {
    if (current.runner && at_rest == batch::AtRest::yes) {
      status = report_without_engine(options, current, cause);
    } else if (!options.quiet) {
      say("stopped early; what was finished is kept, and the same command goes on");
    }
  } catch (const std::exception& error) {
    say(error.what());
  }
  current.sink->end(status);
  if (current.fleet) current.fleet->shut_down(static_cast<ExitCode>(status));
  _exit(status);
}

batch::WatchOptions watch_options(const RunOptions& options, SignalFlags& signals,
                                  const Current& current, StatusSink& sink) {
  batch::WatchOptions watch;
  watch.stop = &signals.stop;
  watch.status = &signals.status;
  if (options.time_limit) watch.deadline = Clock::now() + duration_of(*options.time_limit);
  watch.grace = duration_of(options.grace);
  if (options.stall_limit) watch.stall = duration_of(*options.stall_limit);
  watch.leave = [&](batch::Cause cause, batch::AtRest at_rest) {
    leave(options, current, cause, at_rest);
  };
  watch.publish_status = [&sink](const batch::ProgressSample& sample) { sink.publish(sample); };
  return watch;
}

/// Takes the run out of the watch's hands when it ends, however it ends.
class Handed {
 public:
  Handed(batch::Watch& watch, Current& current, const Current& value)
      : watch_(watch), current_(current) {
    hand(value, [files = value.files] {
      files->output().sync();
      if (files->errors()) files->errors()->sync();
    });
  }
  ~Handed() {
    hand({.sink = current_.sink, .fleet = current_.fleet}, [] {});
  }
  Handed(const Handed&) = delete;
  Handed& operator=(const Handed&) = delete;

 private:
  void hand(const Current& value, std::function<void()> sync) {
    const std::lock_guard lock(watch_.outputs());
    current_ = value;
    watch_.on_status(std::move(sync));
  }

  batch::Watch& watch_;
  Current& current_;
};

/// A run between its first look at the input and its end.
struct Run {
  const RunOptions& options;
  const Environment& environment;
  const DeviceChoice& device;
  files::InputFile& input;
  const ScannedInput& scanned;
  batch::RunFiles& files;
  CrashNotes& notes;
  batch::Progress& progress;
  batch::Watch& watch;
  Current& current;
};

// Runs the lines from the launch to the published output. Returns the exit code.
int run_lines(const Run& run, batch::RunnerOptions runner_options,
              std::unique_ptr<Launch>& launched) {
  const RunOptions& options = run.options;
  batch::RunFiles& files = run.files;
  processes::Fleet* const fleet = run.current.fleet;
  StatusSink* const sink = run.current.sink;
  const Clock::time_point start = Clock::now();
  run.watch.enter("reading the model");
  InputQuestions questions;
  questions.before_weights = [&](const Launch& so_far) {
    run.watch.enter("compiling grammars");
    compile_grammars(options, so_far, run.input, run.scanned, files.done());
    tell_unsuitable_prompts(options, so_far, run.input, run.scanned);
    run.watch.enter("reading weights");
  };
  questions.lengths = [&](const Launch& so_far, int64_t context) {
    run.watch.enter("reading lengths");
    batch::InputLengths lengths = survey_lengths(options.launch, run.input,
                                                 run_survey(options, so_far, context, run.scanned));
    run.watch.enter("reading weights");
    return lengths;
  };
  launched = launch(options, run.environment, run.device, questions, fleet);
  fill_runner_options(options, run.environment, *launched, runner_options);
  const double load_seconds = seconds_since(start);
  run.watch.enter("ordering lines");
  const RunOrder order = choose_order(options, *launched, run.input, run.scanned, run.files.done());
  runner_options.order = order.lines ? &*order.lines : nullptr;
  batch::PromptBuilder prompts = make_prompt_builder(options, *launched);
  batch::Runner runner(run.input, *launched->engine, prompts, files.output(), files.errors(),
                       run.progress, run.watch, std::move(runner_options));
  const Handed handed(run.watch, run.current,
                      {&files, launched.get(), &runner, sink, &run.notes, fleet, &order});

  const Clock::time_point run_start = Clock::now();
  batch::RunReport report = make_report(options, *launched, order.choice, runner.run());
  report.load_seconds = load_seconds;
  report.run_seconds = seconds_since(run_start);
  report.prepared = prompts.prepared_images();
  run.progress.finish();
  audit(report.counts, files);

  const Clock::time_point publish_start = Clock::now();
  const std::lock_guard lock(run.watch.outputs());
  if (report.counts.ending == batch::Ending::complete) {
    files.note_texts(runner.take_texts());
    files.publish(report.counts.ok, report.counts.failed, 0);
  } else {
    files.keep();
  }
  report.publish_seconds = seconds_since(publish_start);
  add_measurements(*launched, fleet, report);
  const std::string report_text = batch::report_json(report);
  files.note_report(report_text);
  tell_end(options, report, files);
  write_report(options, report_text);
  sink->publish(runner.sample());
  return report.exit_status;
}

// Ends other processes with this one, in good order or not; `fleet` is null where there are none.
int run_together(processes::Fleet* fleet, CrashNotes& notes, const std::function<int()>& run) {
  try {
    const int status = run();
    if (fleet) fleet->end();
    return status;
  } catch (const Error& error) {
    // A process that is lost says nothing about the lines.
    const bool elsewhere = fleet && fleet->fault();
    if (error.code() == ExitCode::device_lost && !elsewhere) notes.mark();
    if (fleet) end_fleet(*fleet);
    throw;
  } catch (...) {
    if (fleet) end_fleet(*fleet);
    throw;
  }
}

// Ends a run whose output is there already: writes the report where it was not asked for before.
int end_finished(const RunOptions& options, const batch::Manifest& manifest) {
  forget_crash_notes(options.output);
  tell_finished(options, manifest);
  if (!options.report.empty()) {
    if (manifest.report.is_null()) {
      fail(ExitCode::foreign_output, "--report: {} keeps no report: it was not a run that ended it",
           batch::manifest_path(options.output));
    }
    files::write_file(options.report, manifest.report.dump() + "\n");
  }
  return status_of(manifest.failed);
}

// A run of this process, or of several of which it is the first; `fleet` may be null.
int run_here(const RunOptions& options, const Environment& environment, StatusSink& sink,
             processes::Fleet* fleet) {
  SignalFlags& signals = install_signal_handlers();
  note_unused(options);
  const DeviceChoice device = choose_device(options, environment, fleet);
  (void)default_fields(options, {});
  if (options.chat_template) batch::check_template(*options.chat_template);

  check_files(options, environment);
  files::InputFile input = files::InputFile::open(input_paths(options));
  if (options.inputs.empty() && input.is_terminal()) {
    fail(ExitCode::usage, "no input: give -i FILE, or pipe JSONL to standard input");
  }
  if (options.existing == files::Existing::refuse) batch::refuse_unknown_output(options.output);

  sink.begin(options.output);
  batch::Progress progress(progress_mode(options, environment), terminal_width(environment),
                           [&options](std::string_view bytes) {
                             if (!options.quiet) write_error_stream(bytes);
                           });
  Current current;
  current.sink = &sink;
  current.fleet = fleet;
  batch::Watch watch(progress, watch_options(options, signals, current, sink),
                     "checking the input");
  const ScannedInput scanned = scan(options, input);
  check_order(options, input);
  batch::RunFiles files(file_options(options, environment, device, input, scanned), &input);
  if (files.finished()) {
    if (fleet) fleet->end_idle();
    return end_finished(options, files.manifest());
  }
  tell_resumed(options, files);
  batch::RunnerOptions runner_options;
  runner_options.slice = scanned.slice;
  runner_options.total_lines = scanned.lines;
  runner_options.done = &files.done();
  runner_options.ids = &files.ids();
  runner_options.folder = files::scratch_folder_of(options.output);
  runner_options.output.model = model_name(options, files);
  CrashNotes notes(options.output, files);
  runner_options.in_flight = notes.notes();
  std::unique_ptr<Launch> launched;  // outlives messages on their way
  return run_together(fleet, notes, [&] {
    return run_lines(
        {options, environment, device, input, scanned, files, notes, progress, watch, current},
        std::move(runner_options), launched);
  });
}

// Does what --dry-run, --publish or --merge asks for, else a run. Returns the exit code.
int do_command(const RunOptions& given, const Environment& environment, bool follows,
               StatusSink& sink) {
  const int done = static_cast<int>(ExitCode::done);
  check_load_format(given, "plimsoll");
  if (!given.publish.empty()) return follows ? done : publish_what_is_there(given);
  if (!given.merge.empty()) return follows ? done : merge(given);
  check_run_options(given);
  RunOptions options = given;
  resolve_part(options, environment);
  if (options.dry_run) return follows ? done : dry_run(options, environment);
  const std::unique_ptr<processes::Fleet> fleet = join_fleet(options, environment);
  if (!fleet) return run_here(options, environment, sink, nullptr);
  if (fleet->process() > 0) return serve(options, environment, *fleet);
  try {
    return run_here(options, environment, sink, fleet.get());
  } catch (...) {
    end_fleet(*fleet);
  }
}

// The status of a process that a signal ended is this much more than the signal's number, as in
// shells.
constexpr int kKilled = 128;

}  // namespace

CLI::App* add_run_command(CLI::App& app, RunOptions& options) {
  CLI::App* command = app.add_subcommand("run", "batch generation over a JSONL file");
  add_help_flags(*command);
  declare_run_flags(*command, options);
  return command;
}

int run_command(const RunOptions& options) {
  const Environment environment = read_sound_environment();
  files::set_temporary_folder(environment.temporary_folder);
  const bool follows = is_follower(environment, options);
  StatusSink sink(follows ? RunOptions{} : options);
  try {
    const int status = do_command(options, environment, follows, sink);
    sink.end(status);
    return status;
  } catch (const files::BrokenPipe&) {
    sink.end(kKilled + SIGPIPE);
    throw;
  } catch (const std::exception&) {
    sink.end(static_cast<int>(failure_in_hand().code));
    throw;
  }
}

}  // namespace plimsoll::cli
