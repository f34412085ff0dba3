#include "cli/run/talk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal.h"
#include "launch/parameters.h"

namespace plimsoll::cli {

batch::ProgressMode progress_mode(const RunOptions& options, const Environment& environment) {
  if (options.quiet || options.progress == "none") return batch::ProgressMode::none;
  const bool bar =
      options.progress == "bar" || (options.progress == "auto" && can_redraw(environment));
  return bar ? batch::ProgressMode::bar : batch::ProgressMode::lines;
}

void note_unused(const RunOptions& options) {
  if (options.quiet) return;
  if (!options.ignored.empty()) {
    say(fmt::format("{}: for plan alone, without effect here", fmt::join(options.ignored, ", ")));
  }
  const std::vector<std::string> for_vllm = launch::given_for_vllm(options.launch);
  if (!for_vllm.empty())
    say(fmt::format("{}: without effect on our own engine", fmt::join(for_vllm, ", ")));
}

void tell_resumed(const RunOptions& options, const batch::RunFiles& files) {
  if (options.quiet) return;
  const batch::DoneLines& done = files.done();
  if (files.was_published()) {
    say(fmt::format("{} is {} again until all lines are there", options.output, files.kept_at()));
  }
  if (done.dropped_bytes > 0) {
    say(fmt::format("{} bytes of a line that was cut short were dropped", done.dropped_bytes));
  }
  if (done.ok + done.failed == 0) return;
  say(fmt::format("going on: {} lines are done already", done.ok + done.failed));
}

void tell_finished(const RunOptions& options, const batch::Manifest& manifest) {
  if (options.quiet) return;
  say(fmt::format("{}: is complete already ({} lines answered, {} failed); nothing to do",
                  options.output, manifest.ok, manifest.failed));
}

void tell_end(const RunOptions& options, const batch::RunReport& report,
              const batch::RunFiles& files) {
  if (options.quiet) return;
  for (const std::string& line : batch::summary_lines(report)) say(line);
  const batch::RunCounts& counts = report.counts;
  if (counts.ending == batch::Ending::complete) return;
  const auto why = batch::ending_reason(counts.ending);
  if (counts.ok + counts.failed == 0) {
    say(fmt::format("stopped early ({}) before the first line was finished", why));
    return;
  }
  say(fmt::format("stopped early ({}); the finished lines are in {}{}", why, files.kept_at(),
                  files.records() ? ", and the same command goes on" : ""));
}

}  // namespace plimsoll::cli
