// Token ids and decoded text against Hugging Face tokenizers' own, for every tokenizer and text of
// the golden results.
#include <catch2/catch.hpp>
#include <iostream>

#include "base/error.h"
#include "base/json.h"
#include "conformance/golden.h"
#include "text/tokenizer.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::text;
namespace fs = std::filesystem;

// A folder of its own that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "plimsoll-tokenizers-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { fs::remove_all(path_); }
  [[nodiscard]] fs::path unpack(const fs::path& file) const {
    fs::path name = file.filename();
    if (name.extension() == ".xz") name = name.stem();
    std::ofstream(path_ / name, std::ios::binary) << testing::read_maybe_xz(file);
    return path_ / name;
  }

 private:
  fs::path path_;
};

std::vector<std::string> texts(const fs::path& golden) {
  return Json::parse(testing::read_file(golden / "tokenizers" / "strings.json"))
      .get<std::vector<std::string>>();
}

fs::path data_file(const fs::path& golden, const Json& entry) {
  fs::path file = golden / ".." / "data" / entry.at("tokenizer").get<std::string>();
  if (!fs::exists(file)) file += ".xz";
  return file;
}

void compare(const Tokenizer& tokenizer, const std::string& text, const Json& row) {
  const auto plain = tokenizer.encode(text, AddSpecials::no);
  if (row.contains("special")) {
    const auto special = tokenizer.encode(text, AddSpecials::yes);
    CHECK(special == row.at("special").get<std::vector<TokenId>>());
    CHECK(tokenizer.decode(row.at("special").get<std::vector<TokenId>>(), Specials::skip) ==
          row.at("decoded_skip").get<std::string>());
  }
  CHECK(plain == row.at("plain").get<std::vector<TokenId>>());
  CHECK(tokenizer.decode(row.at("plain").get<std::vector<TokenId>>(), Specials::keep) ==
        row.at("decoded").get<std::string>());
}

void compare_all(const fs::path& golden, const fs::path& expected) {
  const Json entry = Json::parse(testing::read_maybe_xz(expected));
  const std::vector<std::string> inputs = texts(golden);
  const TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.unpack(data_file(golden, entry)));
  const Json& rows = entry.at("rows");
  REQUIRE(rows.size() == inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO(expected.filename().string() << ", text " << i << ": " << inputs[i].substr(0, 200));
    compare(tokenizer, inputs[i], rows[i]);
  }
}

std::vector<fs::path> packed_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".xz") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST_CASE("token ids and text are Hugging Face's") {
  const auto golden = testing::golden_folder();
  if (!golden) {
    WARN("no golden results: PLIMSOLL_GOLDEN names their folder");
    return;
  }
  for (const fs::path& folder :
       {*golden / "tokenizers", *golden / "tokenizers" / "sentencepiece"}) {
    for (const fs::path& file : packed_files(folder)) {
      DYNAMIC_SECTION(file.filename().string()) {
        compare_all(*golden, file);
      }
    }
  }
}

TEST_CASE("what the reference refuses is refused") {
  const auto golden = testing::golden_folder();
  if (!golden || !fs::exists(*golden / ".." / "data" / "tokenizers")) return;
  const fs::path data = *golden / ".." / "data" / "tokenizers";
  for (const char* file : {"added-tokens/tokenizer.json", "tiny-hf/test_hf_tokenizer.json"}) {
    if (!fs::exists(data / file)) continue;
    INFO(file);
    CHECK_THROWS_AS(Tokenizer::load(data / file), Error);
  }
}

}  // namespace
