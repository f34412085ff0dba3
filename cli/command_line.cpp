#include <algorithm>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/completion/completion.h"
#include "cli/doctor/command.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/plan/command.h"
#include "cli/run/command.h"
#include "cli/run/fleet.h"
#include "cli/shard/command.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "files/output_file.h"

namespace plimsoll::cli {
namespace {

/// Refuses an empty text as the value of a flag: mostly a shell variable that is not set.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") == values.end()) continue;
    throw Error(ExitCode::usage, option->get_name() + std::string(kEmpty));
  }
}

int dispatch(std::vector<std::string> arguments, std::string_view commit) {
  CLI::App app("", "");
  add_help_flags(app);
  app.add_flag_callback(
      "--version", [commit] { throw HelpWanted{version_text(commit)}; },
      "version, commit, compiler, instruction sets, libraries");
  add_completion_flag(app);
  app.require_subcommand(1);
  RunOptions run_options;
  run_options.build = build_name(commit);
  const CLI::App* run = add_run_command(app, run_options);
  PlanOptions plan_options;
  const CLI::App* plan = add_plan_command(app, plan_options);
  ShardOptions shard_options;
  const CLI::App* shard = add_shard_command(app, shard_options);
  DoctorOptions doctor_options;
  const CLI::App* doctor = add_doctor_command(app, doctor_options);
  const std::string misspelt = misspelt_command(arguments, app);
  if (!misspelt.empty()) throw Error(ExitCode::usage, misspelt);
  try {
    arguments = expand_pasted_line(std::move(arguments), plan_options);
    arguments = take_engine_words(std::move(arguments), plan_options);
    for (const CLI::App* command : {run, plan, shard, doctor}) {
      if (arguments.empty() || arguments.front() != command->get_name()) continue;
      const std::string misplaced = misplaced_value(arguments, *command);
      if (!misplaced.empty()) throw Error(ExitCode::usage, misplaced);
    }
    // CLI11 takes the first from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = run->parsed()      ? *run
                              : plan->parsed()   ? *plan
                              : shard->parsed()  ? *shard
                              : doctor->parsed() ? *doctor
                                                 : app;
    throw Error(ExitCode::usage, explain(error, command, arguments));
  }
  for (const CLI::App* command : {run, plan, shard, doctor}) {
    if (command->parsed()) refuse_empty_values(*command);
  }
  if (run->parsed() && !run_options.quiet) {
    for (const std::string& note : misspelt_variables(*run)) say(note);
  }
  const bool by_one = plan->parsed() || shard->parsed();
  if (by_one && is_follower(read_environment())) return 0;
  if (doctor->parsed()) return doctor_command(doctor_options);
  if (shard->parsed()) return shard_command(shard_options);
  return plan->parsed() ? plan_command(plan_options) : run_command(run_options);
}

/// Runs the command, or prints the help that is asked for. Returns the exit status.
int answer(const std::vector<std::string>& arguments, std::string_view commit) {
  try {
    return dispatch(arguments, commit);
  } catch (const HelpWanted& help) {
    std::fputs(help.text.c_str(), stdout);
    return static_cast<int>(ExitCode::done);
  }
}

}  // namespace

int run_program(int argc, char** argv, std::string_view commit) {
  // A file over the limit of its size is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  if (argc == 1) {
    std::fputs(std::string(short_help("")).c_str(), stderr);
    return static_cast<int>(ExitCode::usage);
  }
  try {
    const int status = answer(rewrite_arguments({argv + 1, argv + argc}), commit);
    flush_output();
    return status;
  } catch (const files::BrokenPipe&) {
    die_by_signal(SIGPIPE);
  } catch (const std::exception&) {
    const Failure failure = failure_in_hand();
    say(failure.text);
    return static_cast<int>(failure.code);
  }
}

}  // namespace plimsoll::cli
