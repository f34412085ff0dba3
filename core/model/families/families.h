// One function per family: config.json's numbers to a ModelSpec. A new family is one file here and
// a line in families.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

ModelSpec make_llama(const ConfigReader& config);
ModelSpec make_mistral(const ConfigReader& config);
ModelSpec make_mixtral(const ConfigReader& config);
ModelSpec make_qwen2(const ConfigReader& config);
ModelSpec make_qwen3(const ConfigReader& config);
ModelSpec make_qwen3_moe(const ConfigReader& config);
ModelSpec make_gemma2(const ConfigReader& config);
ModelSpec make_gemma3(const ConfigReader& config);
ModelSpec make_phi3(const ConfigReader& config);
ModelSpec make_opt(const ConfigReader& config);
ModelSpec make_gpt2(const ConfigReader& config);
ModelSpec make_internlm2(const ConfigReader& config);

// Multimodal models: one of the text families with a vision tower.
ModelSpec make_gemma3_multimodal(const ConfigReader& config);
ModelSpec make_internvl(const ConfigReader& config);
ModelSpec make_llava(const ConfigReader& config);
ModelSpec make_qwen2_5_vl(const ConfigReader& config);

enum class FamilyKind : uint8_t { text, multimodal };

struct Family {
  std::string_view architecture;  // in config.json's `architectures`
  std::string_view model_type;    // for configs without `architectures`; may be empty
  ModelSpec (*make)(const ConfigReader& config);
  FamilyKind kind = FamilyKind::text;
};

/// All families, sorted by architecture.
std::span<const Family> families();

}  // namespace plimsoll::model
