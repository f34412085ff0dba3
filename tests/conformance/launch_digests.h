// What tests of launches that no reference has answered share: configs of every kind, and answers
// in words.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "digests.h"
#include "plan/report/report.h"
#include "vllm_config.h"
#include "vllm_releases.h"

namespace plimsoll::testing {

/// A launch with what `plan` makes of it: its answer as JSON, or its refusal.
template <typename Plan>
Answered answered(std::string launch, Plan&& plan) {
  try {
    return {std::move(launch), plan::to_json(plan())};
  } catch (const Error& error) {
    return {std::move(launch), fmt::format("{}", error.what())};
  } catch (const std::invalid_argument& error) {
    return {std::move(launch), fmt::format("refused: {}", error.what())};
  }
}

/// Configs by name: those of the folders, and of the rows of tests/data/families.
inline std::map<std::string, Json> configs() {
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

/// True for a config with an encoder for images, videos or sound.
inline bool sees_or_hears(const Json& config) {
  return config.dump().find("vision") != std::string::npos || config.contains("audio_config");
}

}  // namespace plimsoll::testing
