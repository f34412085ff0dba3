// Token ids and decoded text against Hugging Face tokenizers' own, for every tokenizer and text of
// the golden results.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"
#include "conformance/golden.h"
#include "text/tokenizer.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::text;
namespace fs = std::filesystem;

struct Places {
  fs::path golden;
  fs::path data;  // what an entry's "tokenizer" is relative to
};

/// The golden results; a plain clone holds its own.
Places places() {
  if (const auto folder = testing::golden_folder()) return {*folder, *folder / ".." / "data"};
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "data";
  return {own / "golden", own};
}

/// A folder that goes with the test.
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
  /// The file without its ".xz".
  [[nodiscard]] fs::path unpack(const fs::path& file) const {
    const fs::path name = file.extension() == ".xz" ? file.stem() : file.filename();
    std::ofstream(path_ / name, std::ios::binary) << testing::read_maybe_xz(file);
    return path_ / name;
  }

 private:
  fs::path path_;
};

struct Golden {
  std::string name;
  Json rows;
  std::vector<std::string> texts;
  Tokenizer tokenizer;
};

Golden load(const fs::path& expected) {
  const Places where = places();
  Json entry = Json::parse(testing::read_maybe_xz(expected));
  const Json texts = Json::parse(testing::read_file(where.golden / "tokenizers" / "strings.json"));
  fs::path file = where.data / entry.at("tokenizer").get<std::string>();
  if (!fs::exists(file)) file += ".xz";
  const TemporaryFolder folder;
  return {expected.stem().stem().string(), std::move(entry.at("rows")),
          texts.get<std::vector<std::string>>(), Tokenizer::load(folder.unpack(file))};
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  const fs::path tokenizers = places().golden / "tokenizers";
  for (const fs::path& folder : {tokenizers, tokenizers / "sentencepiece"}) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".xz") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::vector<TokenId> ids_of(const Json& row, const char* name) {
  return row.at(name).get<std::vector<TokenId>>();
}

/// Text of tokens decoded piece by piece; fails on a piece that is no whole text.
std::string piece_by_piece(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                           Specials specials) {
  Detokenizer detokenizer(tokenizer, {}, specials);
  std::string all;
  const auto take = [&](const std::string& piece) {
    CHECK_NOTHROW(Json(piece).dump());  // which refuses broken UTF-8
    all += piece;
  };
  for (const TokenId id : ids) take(detokenizer.push(id));
  take(detokenizer.finish());
  return all;
}

void compare(const Tokenizer& tokenizer, const std::string& text, const Json& row) {
  const auto plain = ids_of(row, "plain");
  CHECK(tokenizer.encode(text, AddSpecials::no) == plain);
  CHECK(tokenizer.decode(plain, Specials::keep) == row.at("decoded").get<std::string>());
  CHECK(piece_by_piece(tokenizer, plain, Specials::keep) == row.at("decoded").get<std::string>());
  if (!row.contains("special")) return;  // sentencepiece alone adds none
  const auto special = ids_of(row, "special");
  CHECK(tokenizer.encode(text, AddSpecials::yes) == special);
  CHECK(tokenizer.decode(special, Specials::skip) == row.at("decoded_skip").get<std::string>());
  CHECK(piece_by_piece(tokenizer, special, Specials::skip) ==
        row.at("decoded_skip").get<std::string>());
}

TEST_CASE("token ids and text are Hugging Face's") {
  for (const fs::path& file : golden_files()) {
    DYNAMIC_SECTION(file.filename().string()) {
      const Golden golden = load(file);
      REQUIRE(golden.rows.size() == golden.texts.size());
      for (size_t i = 0; i < golden.texts.size(); ++i) {
        INFO(golden.name << ", text " << i << ": " << golden.texts[i].substr(0, 200));
        compare(golden.tokenizer, golden.texts[i], golden.rows[i]);
      }
    }
  }
}

TEST_CASE("any ids decode to the same text at once and piece by piece") {
  for (const fs::path& file : golden_files()) {
    DYNAMIC_SECTION(file.filename().string()) {
      const Golden golden = load(file);
      uint64_t state = 1;
      const auto next = [&](uint64_t below) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
      };
      for (int round = 0; round < 200; ++round) {
        std::vector<TokenId> ids(next(30));
        // Small ids too: there the bytes and special tokens are. Beyond the vocabulary there is
        // nothing to decode.
        const auto end = static_cast<uint64_t>(golden.tokenizer.vocab_size()) + 2;
        for (TokenId& id : ids)
          id = static_cast<TokenId>(next(next(2) == 0 ? std::min<uint64_t>(300, end) : end));
        for (const Specials specials : {Specials::keep, Specials::skip}) {
          CHECK(piece_by_piece(golden.tokenizer, ids, specials) ==
                golden.tokenizer.decode(ids, specials));
        }
      }
    }
  }
}

TEST_CASE("what the reference refuses is refused") {
  for (const char* file : {"added-tokens/tokenizer.json", "tiny-hf/test_hf_tokenizer.json"}) {
    const fs::path path = places().data / "tokenizers" / file;
    if (!fs::exists(path)) continue;
    INFO(file);
    CHECK_THROWS_AS(Tokenizer::load(path), Error);
  }
}

}  // namespace
