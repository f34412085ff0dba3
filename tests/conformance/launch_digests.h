// Shared by tests of launches that no reference has answered: configs of every kind, and plans as
// text.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "digests.h"
#include "engines/question.h"
#include "hardware/gpu_catalogue.h"
#include "plan/report/report.h"
#include "vllm/shapes/model_shape.h"
#include "vllm/shapes/rank_weights.h"
#include "vllm_config.h"

namespace plimsoll::testing {

/// A plan in each form that `plan` prints, and each of its parts explained.
inline std::string reports_of(const plan::PlanResult& result) {
  constexpr int kColumns = 80;
  std::string text = plan::to_text(result, kColumns) + plan::to_args(result) +
                     plan::to_log(result) + plan::to_html(result);
  for (const plan::PlanPart& part : result.parts) text += plan::explain_part(result, part.name);
  return text;
}

/// A launch with what `plan` makes of it: its answer as JSON, and with `reports` in every other
/// form, or its refusal.
template <typename Plan>
Answered planned(std::string launch, Plan&& plan, bool reports = false) {
  return answered(std::move(launch), [&] {
    const plan::PlanResult result = plan();
    return plan::to_json(result) + (reports ? reports_of(result) : "");
  });
}

/// A question to another engine about a launch without flags on a card.
inline engines::Question question_of(const std::string& name, const Json& config,
                                     const char* card) {
  engines::Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.model = name;
  question.gpu = &hardware::find_gpu(card);
  return question;
}

inline std::map<std::string, Json> read_configs() {
  std::map<std::string, Json> configs;
  for (const char* folder : {"configs", "vllm/configs", "engines/configs"})
    for (const auto& entry : fs::directory_iterator(kData / folder))
      if (entry.path().extension() == ".json")
        configs.emplace(entry.path().stem(), test::vllm_config(entry.path()));
  for (const char* rows : {"families", "changed", "items"}) {
    std::ifstream file(kData / "families" / fmt::format("{}.jsonl", rows));
    for (std::string line; std::getline(file, line);) {
      const Json row = parse_json<Json>(line);
      if (row.contains("config"))
        configs.emplace(fmt::format("{}-{}", rows, row["name"].get<std::string>()), row["config"]);
    }
  }
  return configs;
}

/// Configs by name: those of the folders, and of the rows of tests/data/families.
inline const std::map<std::string, Json>& configs() {
  static const std::map<std::string, Json> all = read_configs();
  return all;
}

/// What vLLM's class makes of a config on one rank.
inline vllm::ModelShape shape_of(const Json& config) {
  const quantization::Quantization plain;
  vllm::RankWeights weights(1, 2, plain);
  return vllm::build_shape({config, "config.json"}, {}, weights);
}

/// True for a config with an encoder for images, videos or sound whose items are counted.
inline bool sees_or_hears(const Json& config) {
  try {
    const vllm::ModelShape shape = shape_of(config);
    return shape.vision.kind != vllm::VisionShape::Kind::none || shape.sound.tokens > 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace plimsoll::testing
