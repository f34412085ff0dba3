// A launch of an engine that is not ours, as it is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/gguf/model.h"
#include "hardware/gpu_catalogue.h"

namespace plimsoll::engines {

/// Bytes of a GiB, in which the engines count memory.
inline constexpr double kGib = 0x1p30;

/// Free memory of the cards in GiB, the least over ranks, as the engines measure it.
struct FreeMemory {
  double before = 0;              // before the weights are loaded; 0: not stated
  double after = 0;               // when the cache is sized
  std::vector<double> each = {};  // `after` of every card, where it was stated card by card
};

/// A card as llama.cpp sees it.
struct Card {
  std::string name;         // "CUDA0"
  int64_t total_bytes = 0;  // as the driver says it
  int64_t free_bytes = 0;   // before anything is loaded
};

struct Question {
  const Json* config = nullptr;    // config.json, with the quantization of a file beside it
  std::string config_path;         // for messages
  std::string model;               // as the engine is told: SGLang looks for names in it
  std::string version;             // of the engine; empty: the newest known
  std::vector<std::string> words;  // the engine's own flags with their values
  Json fields;                     // --engine-args: fields of a Python config; null: none
  Json file_fields;                // of a YAML file that the command line names; null: none
  std::map<std::string, std::string> variables;  // of the launch's environment
  const hardware::Gpu* gpu = nullptr;
  /// Total of a card in bytes, as nvidia-smi prints it, or as CUDA has it (transformers); 0: the
  /// card's own.
  int64_t card_bytes = 0;
  std::optional<FreeMemory> free;
  const checkpoint::gguf::Model* gguf = nullptr;  // llama.cpp's model
  std::vector<Card> cards;                        // llama.cpp's; empty: it runs on the host
  /// Reads the config of a draft model by what a flag names; throws Error.
  std::function<Json(const std::string&)> read_config;

  /// Total of a card in GiB, as stated, or as CUDA has it; 0: not known.
  [[nodiscard]] double total_gib() const {
    if (card_bytes > 0) return static_cast<double>(card_bytes) / kGib;
    return gpu != nullptr ? static_cast<double>(gpu->visible_bytes()) / kGib : 0;
  }
};

}  // namespace plimsoll::engines
