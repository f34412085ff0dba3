#include "checkpoint/gguf/lm_studio.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/header.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/ollama.h"

namespace plimsoll::checkpoint::gguf {
namespace {

/// "publisher/model", or with a GGUF file behind it: nothing that leads out of the store.
bool is_store_path(const std::filesystem::path& path) {
  const auto parts = std::distance(path.begin(), path.end());
  const bool is_file = parts == 3 && path.extension() == ".gguf";
  return (parts == 2 || is_file) &&
         std::ranges::all_of(
             path, [](const std::filesystem::path& part) { return is_plain_name(part.string()); });
}

}  // namespace

std::filesystem::path find_lm_studio(const std::string& name, const std::filesystem::path& store) {
  if (!is_store_path(name)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{}: no name of an LM Studio model; expected PUBLISHER/MODEL or "
         "PUBLISHER/MODEL/FILE.gguf",
         shown_name(name));
  }
  std::filesystem::path found = store / name;
  const std::filesystem::path model = found.extension() == ".gguf" ? found.parent_path() : found;
  std::error_code error;
  const auto status = std::filesystem::status(found, error);
  if (!store.empty() && std::filesystem::is_regular_file(status)) return found;
  if (store.empty() || !std::filesystem::is_directory(status)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{} is not among LM Studio's models ({}); get it with: lms get {}", name,
         store.empty() ? "HOME is not set" : store.string(),
         model.lexically_relative(store).string());
  }
  if (std::filesystem::exists(found / "config.json", error)) return found;
  const auto in_folder = find_in_folder(found);
  if (!in_folder) {
    fail(ExitCode::checkpoint_unusable, "{}: has neither a GGUF file nor a config.json",
         found.string());
  }
  return *in_folder;
}

}  // namespace plimsoll::checkpoint::gguf
