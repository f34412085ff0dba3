#include "batch/files/publish.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "batch/files/run_files.h"
#include "files/identity.h"

namespace plimsoll::batch {
namespace {

// The input, if it can be read again and is unchanged; else nullopt.
std::optional<files::InputFile> same_input(const Manifest& manifest) {
  const auto paths = manifest.notes.value("inputs", std::vector<std::string>());
  if (paths.empty() || std::ranges::count(paths, "-") > 0) return std::nullopt;
  try {
    files::InputFile input = files::InputFile::open(paths);
    if (!input.is_regular()) return std::nullopt;
    const std::string digest = files::digest_of(input);
    if (manifest.job.at("input").at("xxh3") != digest) return std::nullopt;
    return input;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// True where the run has journals: its failed lines may be all that it has so far.
bool has_journals(const std::string& path, const Manifest& manifest) {
  if (files::exists(path + ".part")) return true;
  const auto errors = manifest.notes.find("errors");
  if (errors == manifest.notes.end() || !errors->is_string()) return false;
  const auto name = errors->get<std::string>();
  return !name.empty() && files::exists(name + ".part");
}

}  // namespace

Published publish_what_is_there(const std::string& path) {
  std::optional<Manifest> manifest = read_manifest(manifest_path(path));
  const bool part = manifest && has_journals(path, *manifest);
  if (!manifest || (!part && !files::exists(path))) {
    constexpr std::string_view kPart = ".part";
    const bool is_part = path.ends_with(kPart) && files::exists(path);
    fail(ExitCode::foreign_output,
         "{}: there is no run to publish ({} and {}.part are looked for){}", path,
         manifest_path(path), path,
         is_part ? "; give the name of its output, " + path.substr(0, path.size() - kPart.size())
                 : "");
  }
  Published published;
  if (!part) {
    published.manifest = std::move(*manifest);
    return published;
  }
  RunFilesOptions options;
  options.output = path;
  options.job = manifest->job;
  options.notes = manifest->notes;
  try {
    options.errors = manifest->notes.at("errors").get<std::string>();
    options.resume.max_line_bytes = manifest->job.at("max_line_bytes").get<size_t>();
    options.resume.slice = slice_of(manifest->job);
  } catch (const Json::exception&) {
    fail(ExitCode::foreign_output, "{}: is no whole record of a run", manifest_path(path));
  }
  std::optional<files::InputFile> input = same_input(*manifest);
  RunFiles files(std::move(options), input ? &*input : nullptr);
  published.in_order = input.has_value();
  published.dropped_bytes = files.done().dropped_bytes;
  if (!files.finished()) {
    const DoneLines& done = files.done();
    const uint64_t missing = done.lines - done.ok - done.failed;
    // Without the input nobody knows how many lack: the run is not complete.
    files.publish(done.ok, done.failed, input ? missing : std::max<uint64_t>(missing, 1));
  }
  published.manifest = files.manifest();
  return published;
}

}  // namespace plimsoll::batch
