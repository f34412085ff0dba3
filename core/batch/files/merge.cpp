#include "batch/files/merge.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "batch/digest.h"
#include "batch/files/record.h"
#include "batch/line_reader.h"

namespace plimsoll::batch {
namespace {

struct Part {
  std::string path;
  Manifest manifest;
  uint64_t first = 0;  // line
  uint64_t count = 0;
  uint64_t of = 0;  // lines of the input
};

// More than any line of ours has.
constexpr size_t kLongestRecord = size_t{1} << 30;

void read_lines(Part& part) {
  try {
    const OrderedJson& job = part.manifest.job;
    part.of = job.at("lines").at("of").get<uint64_t>();
    const Slice slice = slice_of(job);
    part.first = slice.first;
    part.count = slice.count;
  } catch (const Json::exception&) {
    fail(ExitCode::foreign_output, "{}: is no record of a part of a regular input",
         manifest_path(part.path));
  }
}

Part read_part(const std::string& path) {
  const std::optional<Manifest> manifest = read_manifest(manifest_path(path));
  if (!manifest) {
    fail(ExitCode::foreign_output, "{}: is no output of a run: {} is missing", path,
         manifest_path(path));
  }
  if (manifest->state != RunState::complete || !files::exists(path)) {
    fail(ExitCode::stopped_resumable, "{}: has not ended; its own command goes on with it", path);
  }
  Part part{.path = path, .manifest = *manifest};
  read_lines(part);
  return part;
}

// The job without its slice of lines: equal for all parts of one run.
OrderedJson without_lines(OrderedJson job) {
  job.erase("lines");
  return job;
}

// Parts lie side by side from the first line of the input to its last.
void check_whole(const std::vector<Part>& parts) {
  uint64_t next = 0;
  const std::string* before = nullptr;
  for (const Part& part : parts) {
    if (part.first < next) {
      fail(ExitCode::foreign_output,
           "{}: holds lines that {} holds too: parts of another split, or one of them twice",
           part.path, *before);
    }
    if (part.first > next) {
      fail(ExitCode::foreign_output, "lines {} to {} are in none of the parts; they come before {}",
           next + 1, part.first, part.path);
    }
    next = part.first + part.count;
    before = &part.path;
  }
  if (next < parts.back().of) {
    fail(ExitCode::foreign_output, "lines {} to {} are in none of the parts; they come after {}",
         next + 1, parts.back().of, parts.back().path);
  }
}

std::vector<Part> read_parts(const std::vector<std::string>& paths) {
  std::vector<Part> parts;
  for (const std::string& path : paths) parts.push_back(read_part(path));
  for (const Part& part : parts) {
    const std::string differs =
        difference(without_lines(parts.front().manifest.job), without_lines(part.manifest.job));
    if (differs.empty() && part.of == parts.front().of) continue;
    fail(ExitCode::foreign_output, "{}: is of another run than {} ({})", part.path,
         parts.front().path, differs.empty() ? "lines.of" : differs);
  }
  // Empty parts stand before the line at which they are.
  std::ranges::sort(parts, [](const Part& a, const Part& b) {
    return std::pair(a.first, a.count) < std::pair(b.first, b.count);
  });
  check_whole(parts);
  return parts;
}

class Merge {
 public:
  Merge(RunFiles& files, const std::string& folder) : files_(files), seen_(folder) {}

  void add(const Part& part) {
    const Merged before = counts;
    copy(part.path, files_.output(), slot_);
    if (files_.errors()) {
      copy(part.manifest.notes.value("errors", std::string()), *files_.errors(), errors_slot_);
    }
    const uint64_t ok = counts.ok - before.ok;
    const uint64_t failed = counts.failed - before.failed;
    if (ok == part.manifest.ok && failed == part.manifest.failed) return;
    fail(
        ExitCode::foreign_output,
        "{}: holds {} answers and {} failures, and its record says {} and {}; it was changed since",
        part.path, ok, failed, part.manifest.ok, part.manifest.failed);
  }

  Merged counts;

 private:
  void copy(const std::string& path, Output& to, uint64_t& slot) {
    files::InputFile file = files::InputFile::open(path);
    LineReader reader(file, kLongestRecord);
    Line line;
    while (true) {
      const LineReader::Got got = reader.next(line, -1);
      if (got == LineReader::Got::end) return;
      if (got == LineReader::Got::nothing_yet) continue;
      const std::optional<Record> record = read_record(line.text);
      if (!record || seen_.insert(key_of(*record), 1) != 0) {
        fail(ExitCode::foreign_output, "{}, line {}: {}", path, line.number,
             record ? "is the record of a line that has one already" : "is no record of a run");
      }
      ++(record->failed ? counts.failed : counts.ok);
      to.put(slot++, line.text + "\n");
    }
  }

  RunFiles& files_;
  DigestTable seen_;
  uint64_t slot_ = 0;
  uint64_t errors_slot_ = 0;
};

// The texts of all lines; none where a part has none.
std::optional<files::PagedArray<uint64_t>> texts_of(const std::vector<Part>& parts,
                                                    const std::string& folder) {
  files::PagedArray<uint64_t> all(folder);
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    if (part.manifest.texts != part.count || !has_texts(texts_path(part.path), part.count))
      return std::nullopt;
    const std::optional<files::PagedArray<uint64_t>> texts = texts_of_run(part.path, part.manifest);
    for (uint64_t line = 0; line < part.count; ++line) all.push_back((*texts)[line]);
  }
  return all;
}

RunFilesOptions files_of(const MergeOptions& options, const Part& first) {
  RunFilesOptions files;
  files.output = options.output;
  files.errors = options.errors;
  files.existing = options.existing;
  files.job = first.manifest.job;
  files.job["lines"] = lines_json({}, first.of);
  files.notes = first.manifest.notes;
  files.notes["errors"] = options.errors;
  if (files::is_stream(options.output) || files::exists(options.output)) return files;
  // Joining costs little: what was interrupted begins anew.
  const std::optional<Manifest> before = read_manifest(manifest_path(options.output));
  if (before && before->job == files.job) files.existing = files::Existing::replace;
  return files;
}

}  // namespace

Merged merge_parts(const MergeOptions& options) {
  const std::vector<Part> parts = read_parts(options.parts);
  const bool apart = parts.front().manifest.job.value("errors", false);
  if (apart == options.errors.empty()) {
    fail(ExitCode::usage, "--merge: the parts have their failed lines {}; {} --errors FILE",
         apart ? "in files of their own" : "in their outputs", apart ? "give" : "leave out");
  }
  RunFiles files(files_of(options, parts.front()), nullptr);
  if (files.finished()) {
    return {.ok = files.manifest().ok, .failed = files.manifest().failed, .was_there = true};
  }
  Merge merge(files, files::scratch_folder_of(options.output));
  for (const Part& part : parts) merge.add(part);
  auto texts = texts_of(parts, files::scratch_folder_of(options.output));
  if (texts) files.note_texts(std::move(*texts));
  files.publish(merge.counts.ok, merge.counts.failed, 0);
  return merge.counts;
}

}  // namespace plimsoll::batch
