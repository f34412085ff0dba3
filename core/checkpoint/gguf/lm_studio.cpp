#include "checkpoint/gguf/lm_studio.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/header.h"
#include "checkpoint/gguf/model.h"

namespace plimsoll::checkpoint::gguf {
namespace {

/// Two or three parts, of which none leads out of the store.
bool is_store_path(const std::filesystem::path& path) {
  const auto parts = std::distance(path.begin(), path.end());
  return (parts == 2 || parts == 3) && std::ranges::none_of(path, [](const auto& part) {
           return part.empty() || part.string().front() == '.' || part.string().front() == '/';
         });
}

}  // namespace

std::filesystem::path find_lm_studio(const std::string& name, const std::filesystem::path& store) {
  if (!is_store_path(name)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{}: no name of an LM Studio model; expected PUBLISHER/MODEL or "
         "PUBLISHER/MODEL/FILE.gguf",
         shown_name(name));
  }
  const std::filesystem::path found = store / name;
  std::error_code error;
  const auto status = std::filesystem::status(found, error);
  if (!store.empty() && std::filesystem::is_regular_file(status)) return found;
  if (store.empty() || !std::filesystem::is_directory(status)) {
    fail(ExitCode::checkpoint_unusable,
         "lmstudio:{} is not among LM Studio's models ({}); get it with: lms get {}", name,
         store.string(), name);
  }
  if (std::filesystem::exists(found / "config.json", error)) return found;
  const auto model = find_in_folder(found);
  if (!model) {
    fail(ExitCode::checkpoint_unusable, "{}: has neither a GGUF file nor a config.json",
         found.string());
  }
  return *model;
}

}  // namespace plimsoll::checkpoint::gguf
