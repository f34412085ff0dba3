#include "checkpoint/read_model.h"

#include "base/error.h"
#include "checkpoint/gguf/config.h"

namespace plimsoll::checkpoint {

Json read_config(const std::filesystem::path& path) {
  if (!gguf::is_gguf_path(path)) return model::read_config(path);
  return gguf::make_config(gguf::Model::open(path));
}

model::ModelFolder read_model(const std::filesystem::path& folder_or_file) {
  if (!gguf::is_gguf_path(folder_or_file)) return model::read_model_folder(folder_or_file);
  model::ModelFolder folder{.config = checkpoint::read_config(folder_or_file), .spec = {}};
  try {
    folder.spec = model::make_model_spec(folder.config);
  } catch (const Error& error) {
    fail(error.code(), "{}: its metadata, read as a config.json: {}", folder_or_file.string(),
         error.what());
  }
  return folder;
}

}  // namespace plimsoll::checkpoint
