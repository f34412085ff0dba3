#include "checkpoint/gguf/lm_studio.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/trim.h"
#include "checkpoint/gguf/header.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/ollama.h"

namespace plimsoll::checkpoint::gguf {
namespace {

namespace fs = std::filesystem;

/// "publisher/model", or with a GGUF file behind it: nothing that leads out of the store.
bool is_store_path(const fs::path& path) {
  const auto parts = std::distance(path.begin(), path.end());
  const bool is_file = parts == 3 && path.extension() == ".gguf";
  return (parts == 2 || is_file) && std::ranges::all_of(path, [](const fs::path& part) {
           return is_plain_name(part.string());
         });
}

/// LM Studio's models; empty where there is no user.
fs::path store_of(const fs::path& home) {
  if (home.empty()) return {};
  constexpr size_t kLongestPath = 4096;
  std::error_code error;
  fs::path folder = home / ".lmstudio";
  const fs::path pointer = home / ".lmstudio-home-pointer";
  if (fs::is_regular_file(pointer, error)) {
    const std::string pointed = read_text_file(pointer, kLongestPath);
    const std::string_view path =
        trimmed(std::string_view(pointed).substr(0, pointed.find('\n')), " \r");
    if (!path.empty()) folder = path;
  } else if (!fs::exists(folder, error)) {
    folder = home / ".cache/lm-studio";
  }
  return folder / "models";
}

}  // namespace

fs::path find_lm_studio(const std::string& name, const fs::path& home) {
  if (!is_store_path(name)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{}: no name of an LM Studio model; expected PUBLISHER/MODEL or "
         "PUBLISHER/MODEL/FILE.gguf",
         shown_name(name));
  }
  const fs::path store = store_of(home);
  fs::path found = store / name;
  const fs::path model = found.extension() == ".gguf" ? found.parent_path() : found;
  std::error_code error;
  const auto status = fs::status(found, error);
  if (!store.empty() && fs::is_regular_file(status)) return found;
  if (store.empty() || !fs::is_directory(status)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{} is not among LM Studio's models ({}); get it with: lms get {}", name,
         store.empty() ? "HOME is not set" : store.string(),
         model.lexically_relative(store).string());
  }
  if (fs::exists(found / "config.json", error)) return found;
  const auto in_folder = find_in_folder(found);
  if (!in_folder) {
    fail(ExitCode::checkpoint_unusable, "{}: has neither a GGUF file nor a config.json",
         found.string());
  }
  return *in_folder;
}

}  // namespace plimsoll::checkpoint::gguf
