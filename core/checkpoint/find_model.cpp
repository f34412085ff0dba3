#include "checkpoint/find_model.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/nearest_name.h"
#include "checkpoint/gguf/lm_studio.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/ollama.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOllama = "ollama:";
constexpr std::string_view kLmStudio = "lmstudio:";
constexpr std::string_view kRepository = "models--";  // how the cache's folders of models begin

struct HubId {
  std::string name;      // "org/name" or "name"
  std::string revision;  // empty: main
};

bool is_name(std::string_view text) {
  constexpr std::string_view kExtra = "-_.";
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         text.find("..") == std::string_view::npos && text.find("--") == std::string_view::npos &&
         std::ranges::all_of(text, [&](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  kExtra.find(c) != std::string_view::npos;
         });
}

// A branch, tag, commit or "refs/pr/N"; every part is a name.
bool is_revision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!is_name(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::optional<HubId> parse_hub_id(std::string_view model) {
  const size_t at = model.find('@');
  const std::string_view name = model.substr(0, at);
  const std::string_view revision =
      at == std::string_view::npos ? std::string_view() : model.substr(at + 1);
  if (at != std::string_view::npos && !is_revision(revision)) return std::nullopt;
  const size_t slash = name.find('/');
  const bool named = slash == std::string_view::npos
                         ? is_name(name)
                         : is_name(name.substr(0, slash)) && is_name(name.substr(slash + 1));
  if (!named) return std::nullopt;
  return HubId{std::string(name), std::string(revision)};
}

std::string download_command(const HubId& id, const std::string& wanted) {
  std::string command = "hf download " + id.name;
  if (!wanted.empty()) command += " " + wanted;
  if (!id.revision.empty()) command += " --revision " + id.revision;
  return command;
}

// The commit that refs/REVISION names; the revision itself where there is no such file.
std::string commit_of(const fs::path& repository, const std::string& revision) {
  const fs::path file = repository / "refs" / revision;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return revision;
  std::string commit = read_text_file(file, 4096);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) {
    commit.pop_back();
  }
  if (!is_name(commit)) {
    fail(ExitCode::checkpoint_unusable, "{}: names no commit", file.string());
  }
  return commit;
}

// The only snapshot of a repository whose refs are gone.
std::string only_snapshot(const fs::path& snapshots) {
  std::error_code error;
  std::string found;
  for (fs::directory_iterator at(snapshots, error), end; !error && at != end; at.increment(error)) {
    if (!found.empty()) return "";
    found = at->path().filename().string();
  }
  return found;
}

// The id of a model in the cache that differs from `escaped` in upper and lower case alone; empty:
// there is none.
std::string spelled_otherwise(const fs::path& hub, const std::string& escaped) {
  std::error_code error;
  for (fs::directory_iterator at(hub, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (lower_case(name) != lower_case(escaped)) continue;
    name.erase(0, kRepository.size());
    if (const size_t dashes = name.find("--"); dashes != std::string::npos)
      name.replace(dashes, 2, "/");
    return name;
  }
  return "";
}

// True for a name by which a user means a file of this machine, not a hub id.
bool is_file_name(std::string_view model) {
  constexpr std::string_view kEnds[] = {".gguf", ".json", ".safetensors"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return model.ends_with(end); });
}

// The folder or model's file beside which `path` would lie and whose name it may mean, misspelt;
// empty: there is none.
std::string meant_path(const fs::path& path) {
  constexpr size_t kMostNames = 10'000;
  const fs::path folder = path.parent_path();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end;
       !error && at != end && names.size() < kMostNames; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code unreadable;
    if (at->is_directory(unreadable) || is_file_name(name)) names.push_back(name);
  }
  const std::string wanted = path.filename().string();
  const std::string_view nearest =
      nearest_name(wanted, std::vector<std::string_view>(names.begin(), names.end()));
  return nearest.empty() ? "" : (folder / nearest).string();
}

/// The cache's folder of the model.
fs::path repository_of(const HubId& id, const fs::path& hub) {
  std::string escaped = std::string(kRepository) + id.name;
  if (const size_t slash = escaped.find('/'); slash != std::string::npos)
    escaped.replace(slash, 1, "--");
  return hub / escaped;
}

fs::path find_in_cache(const HubId& id, const fs::path& hub, const std::string& wanted) {
  if (hub.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "{} is not a folder, and there is no Hugging Face cache to look it up in: set HF_HOME or "
         "HF_HUB_CACHE",
         id.name);
  }
  const fs::path repository = repository_of(id, hub);
  const fs::path snapshots = repository / "snapshots";
  const std::string revision = id.revision.empty() ? "main" : id.revision;
  std::string commit = commit_of(repository, revision);
  if (id.revision.empty() && commit == revision) commit = only_snapshot(snapshots);
  std::error_code error;
  fs::path folder = snapshots / commit;
  if (commit.empty() || commit.find('/') != std::string::npos || !fs::is_directory(folder, error)) {
    const bool is_there = fs::exists(repository, error);
    const std::string other =
        is_there ? "" : spelled_otherwise(hub, repository.filename().string());
    if (!other.empty()) {
      fail(ExitCode::checkpoint_unusable,
           "{} is not in the Hugging Face cache ({}), which holds {}: give it that name", id.name,
           hub.string(), other);
    }
    const std::string meant = id.revision.empty() ? meant_path(id.name) : "";
    fail(ExitCode::checkpoint_unusable,
         "{}{} is neither a folder nor in the Hugging Face cache ({}){} get it with: {}", id.name,
         id.revision.empty() ? "" : "@" + id.revision, hub.string(),
         meant.empty() ? ";" : did_you_mean(meant) + " Else", download_command(id, wanted));
  }
  if (!fs::exists(folder / "config.json", error)) {
    fail(ExitCode::checkpoint_unusable,
         "{} is in the Hugging Face cache without its config.json ({}); complete it with: {}",
         id.name, folder.string(), download_command(id, wanted));
  }
  return folder;
}

// The hub id in an address of a model's page, or in "org/name/"; empty: it has none.
std::string id_within(std::string_view model) {
  std::string_view rest = model;
  const auto take = [&](std::string_view start) {
    const bool begins = rest.starts_with(start);
    if (begins) rest.remove_prefix(start.size());
    return begins;
  };
  if (!take("https://")) take("http://");
  take("www.");
  const bool is_address = take("huggingface.co/") || take("hf.co/");
  if (!is_address) rest = model;
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return "";
  const size_t end = rest.find('/', slash + 1);
  if (!is_address && end + 1 != rest.size()) return "";
  const std::string id(rest.substr(0, end));
  return parse_hub_id(id) ? id : "";
}

}  // namespace

fs::path find_model(const std::string& model, const ModelStores& stores,
                    const std::string& wanted) {
  std::error_code error;
  fs::path path(model);
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    if (!fs::exists(path / "config.json", error)) return gguf::find_in_folder(path).value_or(path);
    return path;
  }
  if (gguf::is_gguf_path(path)) return path;
  if (fs::exists(status)) {
    fail(ExitCode::checkpoint_unusable,
         "{} is a file; expected a model's folder, a GGUF file or a hub id", model);
  }
  if (model.starts_with(kOllama))
    return gguf::find_ollama(model.substr(kOllama.size()), stores.ollama);
  if (model.starts_with(kLmStudio))
    return gguf::find_lm_studio(model.substr(kLmStudio.size()), stores.home);
  if (error == std::errc::too_many_symbolic_link_levels) {
    fail(ExitCode::checkpoint_unusable, "{}: its symbolic links form a loop", model);
  }
  const auto id = parse_hub_id(model);
  if (is_file_name(model) && !(id && fs::exists(repository_of(*id, stores.hub), error)))
    fail(ExitCode::checkpoint_unusable, "{}: no such file{}", model,
         did_you_mean(meant_path(path)));
  if (id) return find_in_cache(*id, stores.hub, wanted);
  if (const std::string within = id_within(model); !within.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "{}: no such folder; for the hub's model of that name give its id, {}", model, within);
  }
  fail(ExitCode::checkpoint_unusable,
       "{}: no such folder, and not a hub id like org/name or org/name@revision{}", model,
       did_you_mean(meant_path(path)));
}

}  // namespace plimsoll::checkpoint
