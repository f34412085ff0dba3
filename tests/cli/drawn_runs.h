// Runs whose output, report and files are compared by digests.
#pragma once

#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "cli/program.h"
#include "digests.h"

namespace plimsoll::testing {

/// The text without the folders of this machine.
inline std::string without_folders(const test::Scratch& scratch, std::string text,
                                   std::map<std::string, std::string> folders = {}) {
  const std::string own = std::filesystem::path(scratch.path("")).parent_path();
  folders.insert({{own, "SCRATCH"}, {test::kModel, "MODEL"}});
  for (const auto& [from, to] : folders) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

/// The text without folders, numbers with a point (times, log probabilities) and sizes, in which
/// machines differ.
inline std::string plain(const test::Scratch& scratch, std::string text,
                         std::map<std::string, std::string> folders = {}) {
  text = without_folders(scratch, std::move(text), std::move(folders));
  static const std::regex numbers(R"((-?\d+\.\d+|-?\d+e-\d+|\d+(\.\d+)? ?([KMG]iB|[kMG]B)))");
  return std::regex_replace(text, numbers, "NUMBER");
}

/// The command where no variable of the caller's environment moves what it says.
inline std::string alone(const std::string& command) {
  return "unset ${!HF_*} ${!SLURM_*} ${!VLLM_*} OMP_NUM_THREADS SOURCE_DATE_EPOCH; "
         "export LC_ALL=C HOME=/home/user; " +
         command;
}

/// What a report says of lines and answers.
inline Json counts_of(const Json& all) {
  Json shown;
  for (const char* key :
       {"ending", "exit_status", "lines", "tools", "structured", "tokens", "seed"})
    if (all.contains(key)) shown[key] = all.at(key);
  if (shown.contains("tokens"))
    for (const char* key : {"prompt_per_second", "completion_per_second"})
      shown["tokens"].erase(key);
  if (shown.contains("structured")) shown["structured"].erase("compile_seconds");
  if (all.contains("order")) shown["order"] = all.at("order").at("asked");
  return shown;
}

/// A file without what differs from run to run: of a report all but counts, of a record the program
/// and its process, and the places of files.
inline std::string file_text(const std::string& text) {
  Json record;
  try {
    record = parse_json<Json>(text);
  } catch (const JsonError&) {
    return text;
  }
  if (record.contains("ending")) return counts_of(record).dump();
  if (!record.contains("job")) return text;
  if (record.value("report", Json()).is_object()) record["report"] = counts_of(record["report"]);
  for (const char* key : {"output_inode", "errors_inode", "output_bytes", "errors_bytes"})
    record.erase(key);
  record["job"].erase("version");
  for (const char* key : {"host", "pid", "threads"}) record["notes"].erase(key);
  return record.dump();
}

/// Names and contents of the files in a scratch folder but those that the test has `given`.
inline std::string files_of(const test::Scratch& scratch, const std::set<std::string>& given) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path("")))
    names.insert(entry.path().filename());
  for (const std::string& own : given) names.erase(own);
  std::string all = fmt::format("{}\n", fmt::join(names, " "));
  for (const std::string& name : names) all += name + ": " + file_text(scratch.read(name)) + "\n";
  return all;
}

/// What a run with "--report report" prints, reports and leaves.
inline Answered asked(const test::Scratch& scratch, const std::string& command,
                      const std::set<std::string>& given) {
  return answered(command, [&] {
    const test::Outcome outcome = test::shell(scratch, alone("rm -f report; " + command));
    return plain(scratch, fmt::format("{} {}\n{}\n{}", outcome.status, outcome.out, outcome.err,
                                      files_of(scratch, given)));
  });
}

}  // namespace plimsoll::testing
