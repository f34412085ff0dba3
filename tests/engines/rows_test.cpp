// Launches that the engines' own functions have answered: every field equal. tests/against/engines
// runs whole files of such rows.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <string>

#include "engines/engine.h"
#include "model/config.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

const std::string kRows = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/";

std::vector<Json> rows_of(const std::string& engine) {
  std::ifstream file(kRows + engine + ".jsonl");
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(parse_json<Json>(line));
  return rows;
}

/// A published config, with ModelOpt's file beside it as read_config would take it.
Json config_beside(const std::string& name) {
  Json config = read_json_file(kRows + "configs/" + name + ".json");
  const std::string beside = kRows + "configs/hf_quant_config/" + name + ".json";
  if (std::ifstream(beside) && !config.contains("quantization_config"))
    config["quantization_config"] = read_json_file(beside);
  return config;
}

/// The question that a row asks (README of the rows: "How a row is asked").
Question question_of(const Json& row, const Json& config) {
  Question question;
  question.config = &config;
  question.config_path = row["config"].get<std::string>();
  question.model = question.config_path;
  question.gpu = &hardware::find_gpu(row["card"].get<std::string>());
  if (row.contains("card_mib")) question.card_bytes = row["card_mib"].get<int64_t>() << 20;
  if (row.contains("args") && row["args"].is_array()) {
    question.words = row["args"].get<std::vector<std::string>>();
  } else {
    question.fields = row.contains("args") ? row["args"] : row["cb"];
    for (const char* key : {"flash_mla", "speculative", "attn", "tp", "hints", "processors"})
      if (row.contains(key) && !row[key].is_null()) question.fields[key] = row[key];
  }
  const auto number = [&](const char* key) {
    return row.contains(key) && row[key].is_number() ? row[key].get<double>() : 0.0;
  };
  if (row.contains("total")) question.card_bytes = std::llround(number("total") * kGib);
  const double after = number("free_after_gib") + number("free");
  if (after > 0) question.free = FreeMemory{number("free_before_gib"), after};
  return question;
}

/// Fields of `wanted` that differ in `found`, with both values.
std::string differences(const Json& wanted, const OrderedJson& found) {
  std::string text;
  if (!wanted.is_object()) return text;
  for (const auto& [key, value] : wanted.items()) {
    if (key == "says") continue;
    const Json given = found.is_object() && found.contains(key) ? Json(found[key]) : Json("absent");
    if (given != value)
      text += key + ": " + value.dump() + " is wanted, not " + given.dump() + "\n";
  }
  return text;
}

/// Bytes that reports show of a rank, each from fields that the engine's own functions have met.
struct Shown {
  int64_t tokens = 0, kv = 0, states = 0, steps = 0, beside = 0;
};
using Show = Shown(const Answer& answer, const Json& row);

Shown sglang_shows(const Answer& answer, const Json&) {
  const OrderedJson &resolved = answer.resolved, &sizing = answer.sizing;
  const int64_t tokens = sizing["max_total_num_tokens"];
  const double cell = sizing["cell_bytes"];
  Shown shown{.tokens = tokens, .kv = answer.figures.kv_bytes};
  shown.beside = sizing["request_table_bytes"];
  if (sizing.contains("full_bytes_per_layer")) {
    const auto part = [&](const char* held, const char* bytes, const char* layers) {
      return sizing[held].get<int64_t>() * sizing[bytes].get<int64_t>() *
             resolved[layers].get<int64_t>();
    };
    shown.kv = part("full_tokens", "full_bytes_per_layer", "full_layers") +
               part("sliding_tokens", "sliding_bytes_per_layer", "sliding_layers");
  } else if (!sizing.contains("c4_tokens")) {  // a page is kept beside the tokens
    const int64_t held = tokens + resolved["page_size"].get<int64_t>();
    shown.kv = std::llround(cell * static_cast<double>(held));
  }
  if (sizing.contains("state_slots"))
    shown.states = (sizing["state_slots"].get<int64_t>() + 1) *
                   sizing["state_bytes_per_request"].get<int64_t>();
  return shown;
}

Shown lmdeploy_shows(const Answer& answer, const Json&) {
  const OrderedJson& sizing = answer.sizing;
  const OrderedJson& drafts = sizing["draft_block_bytes"];
  const int64_t block =
      sizing["block_bytes"].get<int64_t>() + (drafts.is_null() ? 0 : drafts.get<int64_t>());
  return {.tokens = sizing["tokens"],
          .kv = sizing["num_gpu_blocks"].get<int64_t>() * block,
          .states = sizing["state_bytes"],
          .steps = sizing["runtime_bytes"]};
}

/// Two sectors are kept beside the cache's. A step has masks of two bytes where attention is not
/// flash: of all tokens and its own, for each of its tokens, each kind of layers and each batch.
Shown transformers_shows(const Answer& answer, const Json& row) {
  const OrderedJson& sizing = answer.sizing;
  const int64_t sector = sizing["bytes_per_sector"];
  const int64_t batch = sizing["max_batch_tokens"], tokens = sizing["capacity_tokens"];
  const int64_t batches = answer.resolved["use_async_batching"].get<bool>() ? 2 : 1;
  const auto kinds = static_cast<int64_t>(sizing["attention_types"].size());
  const bool flash = row["attn"].get<std::string>().starts_with("flash");
  const int64_t masks = flash ? 0 : 2 * batches * kinds * batch * (tokens + batch);
  return {.tokens = tokens,
          .kv = sizing["cache_bytes"].get<int64_t>() + 2 * sector,
          .steps = batch * sizing["bytes_per_batch_token"].get<int64_t>() + masks};
}

void check_shown(const Shown& shown, const Figures& figures) {
  CHECK(figures.kv_tokens == shown.tokens);
  CHECK(figures.kv_bytes == shown.kv);
  CHECK(figures.state_bytes == shown.states);
  CHECK(figures.runtime_bytes == shown.steps);
  CHECK(figures.beside_bytes == shown.beside);
}

void check_rows(const std::string& name, size_t least, Show* show) {
  const std::vector<Json> rows = rows_of(name);
  REQUIRE(rows.size() >= least);
  for (const Json& row : rows) {
    INFO(row["config"] << " " << row["card"] << " " << row.value("args", Json()).dump());
    const Json config = config_beside(row["config"].get<std::string>());
    const Answer answer = find_engine(name)->ask(question_of(row, config));
    CHECK(differences(row.value("resolved", Json()), answer.resolved) == "");
    CHECK(differences(row.value("sizing", Json()), answer.sizing) == "");
    CHECK((answer.refused ? answer.refused->words : "") ==
          (row.contains("refused") && row["refused"].is_string() ? row["refused"].get<std::string>()
                                                                 : ""));
    if (!answer.refused && !answer.sizing.is_null()) check_shown(show(answer, row), answer.figures);
    if (answer.refused && row.contains("stage")) CHECK(answer.refused->stage == row["stage"]);
    if (!row.contains("sizing") || !row["sizing"].is_object() || !row["sizing"].contains("says"))
      continue;
    CHECK(answer.says == row["sizing"]["says"].get<std::vector<std::string>>());
  }
}

}  // namespace

TEST_CASE("SGLang's own functions are met in every field") {
  check_rows("sglang", 40, sglang_shows);
}

TEST_CASE("LMDeploy's own functions are met in every field") {
  check_rows("lmdeploy", 25, lmdeploy_shows);
}

TEST_CASE("transformers' own functions are met in every field") {
  check_rows("transformers", 15, transformers_shows);
}
