#include "text/tokenizer_files.h"

#include "base/error.h"

namespace plimsoll::text {

void load_tokenizer(const std::filesystem::path& path, Pipeline& tokenizer) {
  if (!std::filesystem::is_directory(path)) {
    load_tokenizer_json(path, tokenizer);
    return;
  }
  load_tokenizer_json(path / "tokenizer.json", tokenizer);
}

}  // namespace plimsoll::text
