#include "cli/run/used_files.h"

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "files/names.h"

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

// A model that is not there is the launch's to tell.
void add_model(const std::string& model, const checkpoint::HubCache& cache,
               std::vector<files::UsedFile>& used) {
  try {
    add_folder(checkpoint::find_model(model, cache), used);
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
  files::check_folder(path);
  for (const char* suffix : suffixes) used.push_back({role, path + suffix, Use::write});
}

}  // namespace

void check_files(const RunOptions& options, const Environment& environment) {
  std::vector<files::UsedFile> used{{"-i", options.input, Use::read}};
  add_if_file("--chat-template", options.chat_template_given, used);
  const checkpoint::HubCache cache{environment.hub_cache};
  add_model(options.model, cache, used);
  if (!options.tokenizer.empty()) add_model(options.tokenizer, cache, used);
  if (files::is_folder(options.generation_config)) add_folder(options.generation_config, used);
  add_written("-o", options.output,
              {".part", ".ordered.part", ".run.json", ".run.json.part", ".running"}, used);
  add_written("--errors", options.errors, {".part", ".ordered.part"}, used);
  add_written("--report", options.report, {".part"}, used);
  add_written("--metrics-file", options.metrics_file, {".part"}, used);
  files::check_distinct(used);
}

}  // namespace plimsoll::cli
