#include "cli/run/actions.h"

#include <fmt/format.h>

#include "base/error.h"
#include "batch/chat_prompt.h"
#include "batch/files/existing_output.h"
#include "batch/files/merge.h"
#include "batch/files/publish.h"
#include "checkpoint/find_model.h"
#include "cli/plan/command.h"
#include "cli/run/account.h"
#include "cli/run/fleet.h"
#include "cli/run/job.h"
#include "cli/run/launch.h"
#include "cli/run/scan.h"
#include "cli/run/used_files.h"
#include "cli/terminal.h"

namespace plimsoll::cli {

int publish_what_is_there(const RunOptions& options) {
  const batch::Published published = batch::publish_what_is_there(options.publish);
  const batch::Manifest& manifest = published.manifest;
  if (!options.quiet) {
    say(published.in_order
            ? fmt::format("{}: {} lines answered, {} failed, {} missing", options.publish,
                          manifest.ok, manifest.failed, manifest.missing)
            : fmt::format("{}: {} lines answered, {} failed; the input is not there as it was, so "
                          "lines keep the order in which they were finished, and how many are "
                          "missing is not known",
                          options.publish, manifest.ok, manifest.failed));
  }
  if (manifest.missing > 0) return static_cast<int>(ExitCode::stopped_resumable);
  return status_of(manifest.failed);
}

int merge(const RunOptions& options) {
  check_merge_files(options);
  const batch::Merged merged = batch::merge_parts({.parts = options.merge,
                                                   .output = options.output,
                                                   .errors = options.errors,
                                                   .existing = options.existing});
  if (!options.quiet) {
    say(fmt::format("{}: {} lines answered, {} failed, of {} parts{}",
                    options.output == "-" ? "standard output" : options.output, merged.ok,
                    merged.failed, options.merge.size(),
                    merged.was_there ? "; it was there already" : ""));
  }
  return status_of(merged.failed);
}

namespace {

/// Refuses files that the run would refuse to write, and changes none.
void check_outputs(const RunOptions& options, const Environment& environment,
                   const DeviceChoice& device) {
  check_files(options, environment);
  if (options.existing == files::Existing::replace) return;
  batch::refuse_unknown_output(options.output);
  if (files::is_stream(options.output) || !files::exists(batch::manifest_path(options.output))) {
    if (!options.errors.empty()) batch::refuse_unknown_output(options.errors);
    if (!files::is_stream(options.output)) batch::refuse_unrecorded_lines(options.output);
    return;
  }
  files::InputFile input = files::InputFile::open(input_paths(options));
  batch::refuse_stream(options.output, options.errors, input);
  if (!input.is_regular()) return;
  RunOptions silent = options;
  silent.quiet = true;  // the plan tells what is wrong with lines
  const ScannedInput scanned = scan(silent, input);
  batch::refuse_other_run({.output = options.output,
                           .errors = options.errors,
                           .job = describe_job(options, environment, device, input, scanned),
                           .resume = {.slice = {}, .failed = options.retry_failed}});
}

}  // namespace

int dry_run(const RunOptions& options, const Environment& environment) {
  const DeviceChoice device = choose_device(
      options, environment, CardPlace{.processes = sharing_processes(options, environment)});
  // A plan takes a config.json alone, and a template when a chat asks for it; a run refuses both.
  (void)checkpoint::find_model(options.model, environment.stores);
  if (options.chat_template) batch::check_template(*options.chat_template);
  check_outputs(options, environment, device);
  PlanOptions plan = *options.plan;
  plan.model = options.model;
  plan.engine = "plimsoll";
  plan.launch = options.launch;
  plan.run = options;
  if (options.plan_as_json) plan.format = PlanFormat::json;
  plan.has_prompts = true;
  check_answers(plan);
  if (device.card && plan.gpu.empty()) plan.gpu = "auto";
  plan.on_host = plan.gpu.empty();
  const plan::PlanResult result = show_plan(plan);
  if (!result.fits.value_or(true)) return static_cast<int>(ExitCode::does_not_fit);
  const plan::PromptFigures& lines = *result.prompts;
  return status_of(lines.bad_lines + lines.duplicate_ids + lines.over_context);
}

}  // namespace plimsoll::cli
