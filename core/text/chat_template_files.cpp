// Which chat templates a model folder offers, and the choice among them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "text/chat_template.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{4} << 20;

// The `chat_template` of a JSON file: a string, or a list of {name, template}.
void add_from_json(const fs::path& file, std::map<std::string, std::string>& templates) {
  const Json document = read_json_file(file);
  if (!document.is_object())
    fail(ExitCode::checkpoint_unusable, "{}: not a JSON object", file.string());
  const auto at = document.find("chat_template");
  if (at == document.end() || at->is_null()) return;
  if (at->is_string()) {
    templates.emplace("default", at->get<std::string>());
    return;
  }
  const auto add = [&](const std::string& name, const Json& source) {
    if (!source.is_string()) {
      fail(ExitCode::checkpoint_unusable, "{}: the chat template \"{}\" is not a string",
           file.string(), name);
    }
    templates.emplace(name, source.get<std::string>());
  };
  if (at->is_object()) {
    for (const auto& [name, source] : at->items()) add(name, source);
    return;
  }
  if (!at->is_array())
    fail(ExitCode::checkpoint_unusable, "{}: chat_template is neither text nor a list",
         file.string());
  for (const Json& entry : *at) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template")) {
      fail(ExitCode::checkpoint_unusable,
           "{}: chat_template has an entry without name and template", file.string());
    }
    add(entry["name"].get<std::string>(), entry["template"]);
  }
}

}  // namespace

std::map<std::string, std::string> folder_templates(const fs::path& folder) {
  std::map<std::string, std::string> templates;
  std::error_code error;
  if (const fs::path file = folder / "chat_template.jinja"; fs::exists(file, error)) {
    templates.emplace("default", read_text_file(file, kMaxFileBytes));
  }
  const fs::path more = folder / "additional_chat_templates";
  for (const auto& entry : fs::directory_iterator(more, error)) {
    if (entry.path().extension() != ".jinja") continue;
    templates.emplace(entry.path().stem().string(), read_text_file(entry.path(), kMaxFileBytes));
  }
  if (!templates.empty()) return templates;
  // Older folders keep them in JSON.
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (const fs::path file = folder / name; templates.empty() && fs::exists(file, error))
      add_from_json(file, templates);
  }
  return templates;
}

const std::string& choose_template(const std::map<std::string, std::string>& templates,
                                   const std::string& wanted, bool has_tools) {
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& [name, source] : templates) all.push_back(name);
    return fmt::format("{}", fmt::join(all, ", "));
  };
  if (templates.empty()) {
    fail(ExitCode::usage, "the model has no chat template; give one with --chat-template FILE");
  }
  if (!wanted.empty()) {
    if (const auto at = templates.find(wanted); at != templates.end()) return at->second;
    fail(ExitCode::usage, "the model has no chat template named '{}'; it has: {}", wanted, names());
  }
  if (has_tools) {
    if (const auto at = templates.find("tool_use"); at != templates.end()) return at->second;
  }
  if (const auto at = templates.find("default"); at != templates.end()) return at->second;
  fail(ExitCode::usage,
       "the model has several chat templates and none is the default; choose one of: {}", names());
}

}  // namespace plimsoll::text
