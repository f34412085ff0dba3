#include "batch/files/same_run.h"

namespace plimsoll::batch {
namespace {

/// Takes over the settings that may change when only failed lines are answered again: the input,
/// where the texts of all lines are known, and the flags that made lines fail.
void allow_corrections(OrderedJson& then, const OrderedJson& now, bool texts_known) {
  const auto allow = [&](const char* key) {
    const OrderedJson::json_pointer at(key);
    if (then.contains(at) && now.contains(at)) then[at] = now[at];
  };
  if (texts_known) {
    for (const char* key : {"/input", "/lines"}) allow(key);
  }
  if (then.value("strict", false)) allow("/strict");
  const auto longest = [](const OrderedJson& job) {
    return job.value("max_line_bytes", uint64_t{0});
  };
  if (longest(then) < longest(now)) allow("/max_line_bytes");
  if (then.value("/answers/long_prompt"_json_pointer, "") == "error") {
    for (const char* key : {"/answers/long_prompt", "/answers/split_overlap"}) allow(key);
  }
}

// Whether a slice begins where the one before did and has no fewer lines.
bool goes_further(const OrderedJson& then, const OrderedJson& now) {
  if (!then.contains("lines") || !now.contains("lines")) return false;
  const Slice before = slice_of(then);
  const Slice after = slice_of(now);
  return before.first == after.first && before.count <= after.count;
}

}  // namespace

std::string difference_from_run(const Manifest& run, const OrderedJson& job, Failed failed,
                                const std::string& texts) {
  OrderedJson then = run.job;
  try {
    if (failed == Failed::retry) allow_corrections(then, job, has_texts(texts, run.texts));
    if (goes_further(then, job)) then["lines"] = job["lines"];
  } catch (const Json::exception&) {
    // Another form differs from the job.
  }
  return difference(then, job);
}

std::string cure_of(std::string_view difference, Failed failed, const Manifest& run,
                    const std::string& texts) {
  if (difference.starts_with("input.") && failed == Failed::retry) {
    if (run.texts > 0 && !has_texts(texts, run.texts))
      return "put " + texts + " back, which tells corrected lines, or give its own input";
    const bool complete = run.state == RunState::complete;
    if (complete && run.failed == 0 && !is_part(run.job))
      return "give its own input (no line of it failed, so that there is none to correct)";
    if (complete && run.texts == 0)
      return "give its own input (which lines of another were corrected cannot be told: --publish "
             "ended this run or a part of it, and keeps no digests of lines)";
    return "give the input as it was until the run has ended; then --retry-failed takes corrected "
           "lines";
  }
  const bool may_be_corrected =
      run.state == RunState::complete && run.failed > 0 && has_texts(texts, run.texts);
  if (difference.starts_with("input.") && may_be_corrected)
    return "give its own input, or answer failed lines that were corrected with --retry-failed";
  if (difference.starts_with("version:")) return "go on with the build that began it";
  if (difference.starts_with("launch.cpu_isa:")) return "pin the instruction set with --cpu-isa";
  return "give the same command";
}

}  // namespace plimsoll::batch
