// GGUF files against transformers on the values that they hold (golden/gguf/README.md): every type,
// and an architecture for each way in which llama.cpp's converter stores a model.
#include <catch2/catch.hpp>
#include <map>

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
      check_gguf_float32(subject);
    }
  }
}

namespace {

/// Rows of logits that a model gives a prompt in float32.
std::vector<Logits> logits_of(const fs::path& model) {
  auto [config, spec] = checkpoint::read_model(model);
  auto tensors = checkpoint::Checkpoint::open(model);
  checkpoint::resolve_stored(tensors, spec);
  checkpoint::resolve_kept(config, &tensors, {}, spec);
  const std::unique_ptr<backend::Backend> backend = cpu_backend();
  Ids prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.push_back((i * i * 37 + 5) % 251);
  ModelRunner runner(spec, checkpoint::WeightReader(tensors, spec), *backend, DType::f32,
                     {.length = std::ssize(prompt), .sequences = 1});
  return runner.run(std::vector<Feed>{{0, prompt}});
}

}  // namespace

TEST_CASE("a checkpoint and the GGUF file made of it give the same answers") {
  const fs::path pairs = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/gguf/pairs";
  const fs::path out = fs::temp_directory_path() / fmt::format("plimsoll-pair-{}", getpid());
  size_t count = 0;
  for (const auto& pair : fs::directory_iterator(pairs)) {
    INFO(pair.path().filename().string());
    fs::create_directories(out);
    fs::copy_file(pair.path() / "config.json", out / "config.json");
    write_tensors(pair.path() / "checkpoint.json", out / "model.safetensors");
    const fs::path file = out / "model.gguf";
    std::ofstream(file, std::ios::binary)
        << gguf_bytes(read_json_file(pair.path() / "recipe.json"));
    const std::vector<Logits> of_file = logits_of(file);
    fs::remove(file);
    const std::vector<Logits> of_folder = logits_of(out);
    REQUIRE(of_file.size() == of_folder.size());
    double worst = 0;
    for (size_t i = 0; i < of_file.size(); ++i) {
      worst =
          std::max(worst, relative_error(of_file[i], {of_folder[i].begin(), of_folder[i].end()}));
    }
    CHECK(worst <= 1e-6);
    fs::remove_all(out);
    ++count;
  }
  CHECK(count >= 18);
}

TEST_CASE("a row of a GGUF model has the same bits in any chunk and any batch") {
  using enum quantization::Activations;
  const auto activations = GENERATE(whole, rounded_blocks);
  for (const fs::path& folder : model_folders("gguf/run")) {
    const std::string name = folder.filename();
    if (name != "llama_q4_k" && name != "mixtral" && name != "gemma2") continue;
    INFO(name << (activations == whole ? "" : ", inputs rounded"));
    Subject subject(folder, cpu_backend(), activations);
    ModelRunner runner = subject.runner(DType::f32);
    std::vector<Logits> alone, chunked;
    std::vector<Feed> together;
    for (size_t i = 0; i < subject.golden.cases.size(); ++i) {
      const Ids& prompt = subject.golden.cases[i].prompt;
      const auto sequence = static_cast<int32_t>(i);
      together.push_back({sequence, prompt});
      runner.restart();
      for (Logits& row : runner.run(std::vector<Feed>{{sequence, prompt}}))
        alone.push_back(std::move(row));
      runner.restart();
      for (size_t first = 0; first < prompt.size(); first += 17) {
        const size_t last = std::min(prompt.size(), first + 17);
        const Feed feed{sequence, Ids(prompt.begin() + static_cast<std::ptrdiff_t>(first),
                                      prompt.begin() + static_cast<std::ptrdiff_t>(last))};
        for (Logits& row : runner.run(std::vector<Feed>{feed})) chunked.push_back(std::move(row));
      }
    }
    CHECK((chunked == alone));
    runner.restart();
    CHECK((runner.run(together) == alone));
  }
}

TEST_CASE("inputs rounded to int8 change the logits of packed GGUF models, and by little") {
  for (const fs::path& folder : model_folders("gguf/run")) {
    const std::string name = folder.filename();
    if (name != "llama_q4_k" && name != "llama_q8_0" && name != "llama_f32") continue;
    INFO(name);
    const auto logits = [&](quantization::Activations activations) {
      Subject subject(folder, cpu_backend(), activations);
      ModelRunner runner = subject.runner(DType::f32);
      return runner.run(std::vector<Feed>{{0, subject.golden.cases[0].prompt}});
    };
    const auto whole = logits(quantization::Activations::rounded);
    const auto rounded = logits(quantization::Activations::rounded_blocks);
    double worst = 0;
    for (size_t i = 0; i < whole.size(); ++i)
      worst = std::max(worst, relative_error(rounded[i], {whole[i].begin(), whole[i].end()}));
    // An input is off by at most 1/254 of the largest beside it, in each of some twenty products.
    CHECK(worst < 0.1);
    CHECK((worst > 1e-5) == (name != "llama_f32"));
  }
}

TEST_CASE("GGUF models in the half type that their files ask for") {
  for (const fs::path& folder : model_folders("gguf/run")) {
    const std::string name = folder.filename();
    if (name != "llama_q4_k" && name != "mixtral" && name != "qwen35") continue;
    Subject subject(folder, cpu_backend());
    CHECK(subject.half_type() == DType::bf16);
    check_half(subject);
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

TEST_CASE("texts lose a first space only where the GGUF file's tokenizer puts one before them") {
  const fs::path file = fs::temp_directory_path() / fmt::format("plimsoll-{}.gguf", getpid());
  for (const char* kind : {"llama", "t5"}) {
    for (const Json& prefixed : {Json(false), Json(true), Json()}) {
      INFO(kind << ", add_space_prefix " << prefixed);
      Json pairs = {{"general.architecture", "string", "llama"},
                    {"tokenizer.ggml.model", "string", kind},
                    {"tokenizer.ggml.tokens", "[string]", {"\u2581you", "you"}},
                    {"tokenizer.ggml.scores", "[f32]", {-1.0, -2.0}}};
      if (!prefixed.is_null())
        pairs.push_back({"tokenizer.ggml.add_space_prefix", "bool", prefixed});
      std::ofstream(file, std::ios::binary)
          << gguf_bytes({{"seed", 0}, {"kv", pairs}, {"tensors", Json::array()}});
      const auto model = checkpoint::gguf::Model::open(file);
      const auto tokenizer =
          text::Tokenizer::parse(checkpoint::gguf::tokenizer_json(model), file.string());
      const auto decoded = [&](const Ids& ids) {
        return tokenizer.decode(ids, text::Specials::keep);
      };
      CHECK(decoded({0, 0}) == (prefixed == false ? " you you" : "you you"));
      CHECK(decoded({1, 0}) == "you you");
    }
  }
  fs::remove(file);
}

TEST_CASE("byte-level tokenizers of GGUF files split texts as their pre-tokenizer's name says") {
  // How "1234\n" is cut where numbers that lie together are one token: by digits, by threes.
  const std::map<std::string, std::vector<std::string>> pieces = {
      {"gpt-2", {"1234", "\n"}},
      {"trillion", {"1234", "\n"}},
      {"falcon-h1", {"123", "4", "\n"}},
      {"glm5", {"123", "4", "\n"}},
      {"kormo", {"1", "2", "3", "4", "\n"}},
      {"kanana2", {"123", "4", "\n"}},
      {"mellum2", {"1", "2", "3", "4", "\n"}},
      {"joyai-llm", {"123", "4", "\n"}},
      {"bailingmoe2", {"1", "2", "3", "4", "\n"}},
      {"exaone-moe", {"1", "2", "3", "4", "\n"}},
      {"seed-coder", {"1", "2", "3", "4", "\n"}},
      {"minicpm5", {"123", "4", "\n"}},
      {"jais-2", {"123", "4", "\n"}},
      {"deepseek-coder", {"1", "2", "3", "4", "\n"}}};
  const Json tokens = {"1", "2", "3", "4", "12", "123", "1234", "\u010a", "a", "b", "ab", "\u0120"};
  const fs::path file = fs::temp_directory_path() / fmt::format("plimsoll-{}.gguf", getpid());
  for (const auto& [name, wanted] : pieces) {
    INFO(name);
    const Json pairs = {{"general.architecture", "string", "llama"},
                        {"tokenizer.ggml.model", "string", "gpt2"},
                        {"tokenizer.ggml.pre", "string", name},
                        {"tokenizer.ggml.tokens", "[string]", tokens},
                        {"tokenizer.ggml.merges", "[string]", {"1 2", "12 3", "123 4", "a b"}}};
    std::ofstream(file, std::ios::binary)
        << gguf_bytes({{"seed", 0}, {"kv", pairs}, {"tensors", Json::array()}});
    const auto model = checkpoint::gguf::Model::open(file);
    const auto tokenizer =
        text::Tokenizer::parse(checkpoint::gguf::tokenizer_json(model), file.string());
    Ids ids;
    for (const std::string& piece : wanted) {
      const Json token = piece == "\n" ? Json("\u010a") : Json(piece);
      ids.push_back(static_cast<int32_t>(std::ranges::find(tokens, token) - tokens.begin()));
    }
    CHECK(tokenizer.encode("1234\n", text::AddSpecials::no) == ids);
    CHECK(tokenizer.encode("ab", text::AddSpecials::no) == Ids{10});
  }
  fs::remove(file);
}

TEST_CASE("headers of real models have the tensors that our plan of them needs") {
  const auto larger = golden_folder();
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/engines/headers";
  const bool all = larger && fs::exists(*larger / "gguf/plan/headers");
  const fs::path file = fs::temp_directory_path() / fmt::format("plimsoll-{}.gguf", getpid());
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(all ? *larger / "gguf/plan/headers" : own)) {
    INFO(entry.path().filename().string());
    const Json recipe = read_json_file(entry.path());
    const bool needs_data = std::ranges::any_of(recipe.at("tensors"), [](const Json& tensor) {
      return tensor.at("name") == "rope_factors_long.weight";  // factors: zeros in a header's file
    });
    if (needs_data) continue;
    write_gguf_header(recipe, file);
    auto [config, spec] = checkpoint::read_model(file);
    auto checkpoint = checkpoint::Checkpoint::open(file);
    checkpoint::resolve_stored(checkpoint, spec);
    CHECK_NOTHROW(checkpoint::WeightReader(checkpoint, spec));
    ++count;
  }
  CHECK(count >= 11);
  fs::remove(file);
}
