// transformers without paged attention, by hand, and hints for the paged cache.
#include <catch2/catch.hpp>
#include <string>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

/// Llama 3.1 8B: 32 layers, 8 KV heads of 128, 128256 tokens; bfloat16.
Answer ask_generate(std::vector<std::string> words, Json changes = Json::object(),
                    Json fields = Json::object(), double free_gib = 60) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/tests/data/engines/configs/meta-llama__Meta-Llama-3.1-8B.json");
  config.merge_patch(changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.fields = std::move(fields);
  question.gpu = &hardware::find_gpu("h100");
  question.free = FreeMemory{78, free_gib};
  return find_engine("transformers")->ask(question);
}

}  // namespace

TEST_CASE("generate() keeps every token of every sequence, and copies a cache that grows") {
  constexpr int64_t kToken = 2 * 8 * 128 * 2;  // K and V in one layer
  struct Row {
    const char* name;
    std::vector<std::string> words;
    Json changes;
    int64_t cache, steps;
  };
  const Json windows = {
      {"num_hidden_layers", 3},
      {"sliding_window", 100},
      {"layer_types", {"full_attention", "sliding_attention", "sliding_attention"}}};
  const Row rows[] = {
      {"a growing cache",
       {"dynamic", "4", "1000"},
       Json::object(),
       4 * 1000 * 32 * kToken,
       4 * 128256 * (4 + 2) + 4 * 1000 * kToken},
      {"a static cache",
       {"static", "4", "1000"},
       Json::object(),
       4 * 1000 * 32 * kToken,
       4 * 128256 * (4 + 2)},
      {"windows", {"static", "1", "1000"}, windows, (1000 + 2 * 100) * kToken, 128256 * (4 + 2)},
      {"longer windows", {"static", "1", "50"}, windows, 3 * 50 * kToken, 128256 * (4 + 2)},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Answer answer = ask_generate({"--cache-implementation", row.words[0], "--batch-size",
                                        row.words[1], "--max-length", row.words[2]},
                                       row.changes);
    CHECK(!answer.refused);
    CHECK(answer.figures.kv_bytes == row.cache);
    CHECK(answer.figures.runtime_bytes == row.steps);
    CHECK(answer.figures.kv_tokens == std::stoll(row.words[1]) * std::stoll(row.words[2]));
    CHECK(answer.figures.running == std::stoll(row.words[1]));
    CHECK(answer.figures.context == std::stoll(row.words[2]));
    CHECK(answer.figures.block_tokens == 1);
  }
}

TEST_CASE("generate() is refused from the first byte that is not free") {
  const auto is_refused = [](double free_gib) {
    const Answer answer = ask_generate(
        {"--cache-implementation", "static", "--batch-size", "1", "--max-length", "8192"},
        Json::object(), Json::object(), free_gib);
    return answer.refused && answer.refused->stage == "memory";
  };
  const double needed = (8192.0 * 32 * 4096 + 128256 * 6) / 0x1p30;
  CHECK(!is_refused(needed));
  CHECK(is_refused(needed - 0x1p-30));
}

TEST_CASE("ranks of transformers divide the KV heads") {
  CHECK(!ask_generate({"--tensor-parallel-size", "8"}).refused);
  const Answer answer = ask_generate({"--tensor-parallel-size", "16"});
  REQUIRE(answer.refused);
  CHECK(answer.refused->words ==
        "ValueError: Number of key value heads 8 must be divisible by tensor parallel size 16.");
}

TEST_CASE("hints of lengths and requests shape the paged cache") {
  const auto resolved = [](const Json& fields) {
    return ask_generate({}, Json::object(), fields).resolved;
  };
  const auto hinted = [&](int64_t prompt, int64_t answer) {
    return resolved({{"page_size", 32},
                     {"hints",
                      {{"max_prompt_length", prompt},
                       {"max_generated_length", answer}}}})["max_blocks_per_request"];
  };
  CHECK(hinted(32, 32) == 4);  // two blocks and one, an even number
  CHECK(hinted(64, 32) == 4);
  CHECK(hinted(64, 33) == 6);
  CHECK(resolved({{"hints", {{"num_requests", 5}}}})["max_requests_per_batch"] == 5);
  CHECK(resolved({{"max_requests_per_batch", 9},
                  {"hints", {{"num_requests", 5}}}})["max_requests_per_batch"] == 9);
}
