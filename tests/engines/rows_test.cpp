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

void check_rows(const std::string& name, size_t least) {
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
    if (answer.refused && row.contains("stage")) CHECK(answer.refused->stage == row["stage"]);
    if (!row.contains("sizing") || !row["sizing"].is_object() || !row["sizing"].contains("says"))
      continue;
    CHECK(answer.says == row["sizing"]["says"].get<std::vector<std::string>>());
  }
}

}  // namespace

TEST_CASE("SGLang's own functions are met in every field") {
  check_rows("sglang", 40);
}

TEST_CASE("LMDeploy's own functions are met in every field") {
  check_rows("lmdeploy", 25);
}

TEST_CASE("transformers' own functions are met in every field") {
  check_rows("transformers", 15);
}
