// GGUF files against transformers on the values that they hold (golden/gguf/README.md): every type,
// and an architecture for each way in which llama.cpp's converter stores a model.
#include <catch2/catch.hpp>

#include "checkpoint/gguf/tokenizer.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "text/tokenizer.h"

using namespace plimsoll;
using namespace plimsoll::testing;

TEST_CASE("GGUF models in float32") {
  for (const fs::path& folder : model_folders("gguf/run")) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      check_float32(subject);
    }
  }
}

namespace {

/// tokenizers.jsonl, and what its names are relative to; a plain clone has a few rows.
struct TokenizerRows {
  fs::path golden, data;
  std::vector<Json> rows;
};

TokenizerRows tokenizer_rows() {
  const auto larger = golden_folder();
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data";
  const bool all = larger && fs::exists(*larger / "gguf/tokenizers.jsonl");
  TokenizerRows found{all ? *larger : own / "golden", all ? *larger / "../data" : own, {}};
  std::ifstream lines(found.golden / "gguf/tokenizers.jsonl");
  for (std::string line; std::getline(lines, line);) found.rows.push_back(parse_json(line));
  return found;
}

}  // namespace

TEST_CASE("tokenizers in GGUF metadata give Hugging Face's ids") {
  const TokenizerRows found = tokenizer_rows();
  const Json texts = read_json_file(found.golden / "tokenizers/strings.json");
  const fs::path file = fs::temp_directory_path() / fmt::format("plimsoll-{}.gguf", getpid());
  REQUIRE(!found.rows.empty());
  for (const Json& row : found.rows) {
    const std::string name = row.at("tokenizer");
    INFO(name);
    fs::path from = found.data / name;
    if (!fs::exists(from)) from += ".xz";
    const Json pairs =
        tokenizer_pairs(parse_json(read_maybe_xz(from)), row.at("model"), row.at("pre"));
    Json all = Json::array({{"general.architecture", "string", "llama"}});
    for (const Json& pair : pairs) all.push_back(pair);
    std::ofstream(file, std::ios::binary)
        << gguf_bytes({{"seed", 0}, {"kv", all}, {"tensors", Json::array()}});
    const auto model = checkpoint::gguf::Model::open(file);
    const auto tokenizer =
        text::Tokenizer::parse(checkpoint::gguf::tokenizer_json(model), file.string());
    const Json golden = parse_json(
        read_maybe_xz(found.golden / "tokenizers" / row.at("golden").get<std::string>()));
    size_t unlike = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids = tokenizer.encode(texts[i].get<std::string>(), text::AddSpecials::no);
      if (Json(ids) == golden.at("rows").at(i).at("plain")) continue;
      if (++unlike <= 3) fmt::print("{}: text {} differs\n", name, i);
    }
    CHECK(unlike == 0);
  }
  fs::remove(file);
}
