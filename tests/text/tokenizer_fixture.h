// Small tokenizers written as JSON, in folders that go with the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace plimsoll::text {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll-text-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline Tokenizer load_json(const std::string& json) {
  const ScratchFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", json));
}

using Ids = std::vector<TokenId>;

inline Ids plain(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, AddSpecials::no);
}

}  // namespace plimsoll::text
