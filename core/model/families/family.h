// One table of all architectures, a row each: what describes the model, what vLLM builds around its
// language model, and what `plan` alone counts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/config_view.h"
#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

enum class FamilyKind : uint8_t { text, multimodal };

/// Which config says whether vLLM's class ties the head to the token table.
enum class Tying : uint8_t { config, text_config, never };

/// Encoders and projectors that vLLM builds beside a language model; core/vllm/towers counts them.
// clang-format off
enum class Tower : uint8_t {
  none, aria, audio_flamingo, bagel, bee, blip2, cohere, deepseek_ocr, deepseek_ocr2, deepseek_vl2,
  dots, eagle, ernie, gemma3, gemma3n, gemma4, gemma4_unified, glm, glm4v, glm_asr, glm_next,
  glm_ocr, granite_speech, h2o, hyperclova, idefics3, intern, intern_hf, isaac, keye, keye15, kimi,
  lfm2, llama3v, llama4, llava, llava_next, llava_onevision, llava_video, locate_anything, logics,
  minicpm, minicpm46, minicpm_omni, minimax, mistral, molmo, molmo2, moon, muse, nemotron,
  nemotron_hybrid, nvlm, ovis, ovis25, paddle, paligemma, perception, phi3, phi4_senses, pixtral,
  qwen2, qwen2_5, qwen3, qwen3_5, qwen3_asr, qwen3_omni, qwen_audio, qwen_omni, rvl, skywork, step3,
  ultravox, voxtral, whisper, xgen,
};
// clang-format on

/// What stands in place of an output projection in a class of vLLM's that answers with vectors or
/// classes.
enum class PoolingHead : uint8_t {
  by_name,  // as the ending of the class's name says
  masked,   // BERT's head over masked tokens
  tokens,   // weights and vectors of tokens
  value,    // one layer that ranks divide
  classes,  // classes beside the output projection
  normed,   // classes of texts or tokens, as the name says, behind a dense layer and a norm
  reward,   // two layers that ranks divide
  steps,    // two such layers, and classes of each step, for which prompts are read as a whole
};

/// Layers of a model that predict further tokens (multi-token prediction); core/vllm/shapes/mtp.cpp
/// says what each kind has.
enum class Predictors : uint8_t {
  none,
  appended,
  deepseek_v4,
  glm5_next,
  qwen3_next,
  qwen3_5,
  qwen4_exp
};

/// What is quantized in the model's checkpoints beside what their quantization config says.
enum class Codes : uint8_t {
  as_stated,
  fp4_experts,    // experts, where all else is fp8 and the config does not say (DeepSeek-V4)
  experts_alone,  // MXFP4 of compressed-tensors is that of experts (Kimi K3)
};

/// What the layers of a language model read.
enum class Transformer : uint8_t {
  decoder,
  encoder,          // whole prompts; it keeps no cache and generates nothing
  encoder_decoder,  // tokens, and what an encoder made of sound
};

/// Modalities that one tower reads; unused entries are nullptr.
using Modalities = std::array<const char*, 3>;

/// Whether a multimodal model's output is the embedding's table where the outer config does not
/// say.
enum class Tied : uint8_t {
  as_text,  // as the language model's config has it
  usually,  // its class of configs ties the two
  never,    // it has a head of its own, whatever the config says
  by_text,  // as the language model's config has it, whatever the outer one says
  either,   // where one of the two configs says so
};

/// What vLLM's class of a multimodal architecture builds around its language model.
struct Wrapper {
  Tower tower = Tower::none;
  Modalities modalities = {"image", "video"};  // the tower is left out where none is wanted
  std::string_view language = "";              // its language model; empty: as the config says
  Tied tied = Tied::as_text;
  /// The language model by the config's own version; nullptr: `language`.
  std::string_view (*language_of)(const ConfigView& config) = nullptr;
  bool both_widths = false;        // the stated width is of gate and up together
  bool counted_positions = false;  // in time, height and width never exceed the count of tokens
  bool in_sections = false;     // has positions in time, height and width, whatever the config says
  bool whole_videos = false;    // reads an item at once: steps hold the largest by default
  bool optional_tower = false;  // serves language models without a tower too
  bool always_tower = false;    // its weights are there whatever modalities are wanted
};

struct Family {
  std::string_view architecture = "";  // in config.json's `architectures`; empty: of a type alone
  std::string_view model_type = "";    // for configs without `architectures`; may be empty
  /// Describes the model; nullptr: the row is a wrapper, a head or a type, which stands on another.
  ModelSpec (*make)(const ConfigReader& config) = nullptr;
  FamilyKind kind = FamilyKind::text;
  /// Keys of kinds of attention that the family computes, in spaces; other keys are refused.
  std::string_view features = "";
  Tying tying = Tying::config;
  Wrapper wrapper = {};
  PoolingHead head = PoolingHead::by_name;
  /// Architecture of the layers of a head that drafts from another model's hidden states (EAGLE).
  std::string_view draft_layers = "";
  Predictors predictors = Predictors::none;
  Transformer transformer = Transformer::decoder;
  Codes codes = Codes::as_stated;
  /// True where `plan` alone counts what `make` describes: it lacks what `run` would compute.
  bool counted = false;

  [[nodiscard]] constexpr bool is_served() const { return make != nullptr && !counted; }
};

/// All rows, sorted by architecture.
std::span<const Family> families();

/// The row of an architecture; nullptr: none, or no name.
const Family* find_architecture(std::string_view architecture);

/// The row of a text model's `model_type`; nullptr: none, or no type.
const Family* find_type(std::string_view model_type);

/// Name of the row by which a mixture of experts of an unknown architecture is counted.
inline constexpr std::string_view kUnknownMixture = "a mixture of experts";

}  // namespace plimsoll::model
