#include "cli/run/used_files.h"

#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/lower_case.h"
#include "checkpoint/find_model.h"
#include "checkpoint/gguf/model.h"
#include "files/names.h"
#include "files/packing.h"

namespace plimsoll::cli {
namespace {

using files::Use;

// More files than any model has.
constexpr size_t kMostFiles = 100'000;

void add_folder(const std::filesystem::path& folder, std::vector<files::UsedFile>& used) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end && used.size() < kMostFiles; at.increment(error)) {
    used.push_back({"the model's", at->path().string(), Use::read});
  }
}

// Adds a model's files. A missing model is no error here: the launch reports it.
void add_model(const std::string& model, const checkpoint::ModelStores& stores,
               std::vector<files::UsedFile>& used) {
  try {
    const std::filesystem::path found = checkpoint::find_model(model, stores);
    if (!checkpoint::gguf::is_gguf_path(found)) return add_folder(found, used);
    const auto parts = checkpoint::gguf::Model::open(found);
    for (const auto& file : parts.files())
      used.push_back({"the model's", file->path().string(), Use::read});
  } catch (const Error&) {
  }
}

void add_if_file(const std::string& role, const std::string& path,
                 std::vector<files::UsedFile>& used) {
  if (files::exists(path) && !files::is_folder(path)) used.push_back({role, path, Use::read});
}

// A file that comes to be under other names first.
void add_written(const std::string& role, const std::string& path,
                 std::initializer_list<const char*> suffixes, std::vector<files::UsedFile>& used) {
  if (path.empty()) return;
  used.push_back({role, path, Use::write});
  if (files::is_stream(path)) return;
  files::packing_for(path);  // refuses what it does not write
  files::check_name(path);
  for (const char* suffix : suffixes) {
    files::check_name(path + suffix);
    used.push_back({role, path + suffix, Use::write});
  }
}

void check_folder_of(const std::string& path) {
  if (!path.empty() && !files::is_stream(path)) files::check_folder(path);
}

// Refuses a name by which a user expects a table.
void check_output_name(const char* flag, const std::string& path) {
  for (const char* table : {".csv", ".tsv", ".parquet", ".xlsx"}) {
    if (!lower_case(path).ends_with(table)) continue;
    fail(ExitCode::usage,
         "{} {}: would hold JSON lines; give it another name, and make the table of it: "
         "mlr --ijsonl --ocsv flatten FILE",
         flag, path);
  }
}

/// The file that a link names, which need not be there.
std::filesystem::path named_file(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // Linux follows as many
  std::error_code none;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, none); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, none);
  return std::filesystem::weakly_canonical(path, none);
}

// Refuses a link that a finished output would take the place of.
void check_link(const RunOptions& options, const char* flag, const std::string& path) {
  std::error_code none;
  const bool is_link = std::filesystem::is_symlink(path, none) && !files::is_stream(path);
  if (options.existing == files::Existing::replace && is_link) {
    fail(ExitCode::usage,
         "{} {}: is a link, which the output would replace; give the file's name: {}", flag, path,
         named_file(path).string());
  }
}

void add_outputs(const RunOptions& options, std::vector<files::UsedFile>& used) {
  check_output_name("-o", options.output);
  check_output_name("--errors", options.errors);
  // A finished output and its file of errors may lie in folders that cannot be written to.
  if (!files::exists(options.output) || !files::exists(options.output + ".run.json")) {
    check_folder_of(options.output);
    check_folder_of(options.errors);
  }
  add_written("-o", options.output,
              {".part", ".part.xxh3", ".ordered.part", ".run.json", ".run.json.part", ".run.texts",
               ".run.texts.part", ".running"},
              used);
  add_written("--errors", options.errors, {".part", ".part.xxh3", ".ordered.part"}, used);
}

/// Refuses a file with two roles, and outputs that would replace a link.
void check_roles(const RunOptions& options, const std::vector<files::UsedFile>& used) {
  files::check_distinct(used);
  check_link(options, "-o", options.output);
  check_link(options, "--errors", options.errors);
}

/// Refuses to replace a file that is neither empty nor begins as the files that a flag writes, and
/// any that a run has its record beside: those are answers.
void check_replaced(const char* flag, const std::string& path, std::string_view start) {
  if (path.empty() || files::is_stream(path)) return;
  const auto is_foreign = [&](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string head(start.size(), '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    return in.gcount() > 0 && head != start;
  };
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const bool of_a_run = files::exists(path + ".run.json");
  if (!of_a_run && !(regular && is_foreign(path))) return;
  fail(ExitCode::foreign_output, "{} {}: {}; name another file, or move this one away", flag, path,
       of_a_run ? "is the output of a run" : "is no earlier file of this flag");
}

}  // namespace

void check_files(const RunOptions& options, const Environment& environment) {
  std::vector<files::UsedFile> used;
  for (const std::string& input : input_paths(options)) used.push_back({"-i", input, Use::read});
  add_if_file("--chat-template", options.chat_template_given, used);
  add_if_file("--structured-outputs", options.structured_outputs, used);
  add_model(options.model, environment.stores, used);
  const std::string& draft = options.launch.args.draft_model;
  if (!draft.empty()) add_model(draft, environment.stores, used);
  if (!options.tokenizer.empty()) add_model(options.tokenizer, environment.stores, used);
  if (files::is_folder(options.generation_config)) add_folder(options.generation_config, used);
  add_outputs(options, used);
  check_folder_of(options.report);
  check_folder_of(options.metrics_file);
  add_written("--report", options.report, {".part"}, used);
  add_written("--metrics-file", options.metrics_file, {".part"}, used);
  check_roles(options, used);
  check_replaced("--report", options.report, "{\"schema_version\":");
  check_replaced("--metrics-file", options.metrics_file, "# HELP plimsoll_");
}

void check_merge_files(const RunOptions& options) {
  std::vector<files::UsedFile> used;
  for (const std::string& part : options.merge) used.push_back({"--merge", part, Use::read});
  add_outputs(options, used);
  check_roles(options, used);
}

}  // namespace plimsoll::cli
