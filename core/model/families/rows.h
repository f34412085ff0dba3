// Words of the table of architectures (families.cpp), for its rows to be short. Internal to it.
#pragma once

#include "model/families/family.h"

namespace plimsoll::model {

inline constexpr FamilyKind kText = FamilyKind::text;
inline constexpr std::string_view kLatents = " kv_lora_rank q_lora_rank ";
inline constexpr std::string_view kChunks =
    " attention_chunk_size no_rope_layers use_qk_norm ";  // Llama 4
inline constexpr Tying kOwnHead = Tying::never;
inline constexpr Tying kByText = Tying::text_config;
inline constexpr Modalities kSight = {"image", "video"};
inline constexpr Modalities kImages = {"image"};
inline constexpr Modalities kVideos = {"video"};
inline constexpr Modalities kChunksOfVideo = {"vision_chunk"};
inline constexpr Modalities kSound = {"audio"};
inline constexpr Modalities kSenses = {"image", "video", "audio"};

/// A multimodal family that `run` serves.
constexpr Family multimodal(std::string_view architecture, std::string_view model_type,
                            ModelSpec (*make)(const ConfigReader&), const Wrapper& wrapper,
                            std::string_view features = "", Tying tying = Tying::config) {
  return {architecture, model_type, make, FamilyKind::multimodal, features, tying, wrapper};
}

/// A multimodal architecture that `plan` alone counts.
constexpr Family wrapper(std::string_view architecture, const Wrapper& wrapper) {
  return {.architecture = architecture, .kind = FamilyKind::multimodal, .wrapper = wrapper};
}

/// A language model whose description `plan` alone counts.
constexpr Family counted(std::string_view architecture, std::string_view model_type,
                         ModelSpec (*make)(const ConfigReader&), const Wrapper& wrapper = {},
                         Transformer transformer = Transformer::decoder) {
  return {.architecture = architecture,
          .model_type = model_type,
          .make = make,
          .wrapper = wrapper,
          .transformer = transformer,
          .counted = true};
}

/// An encoder, which `plan` alone counts, and the head of its class.
constexpr Family encoder(std::string_view architecture, ModelSpec (*make)(const ConfigReader&),
                         PoolingHead head = PoolingHead::by_name) {
  return {.architecture = architecture,
          .make = make,
          .head = head,
          .transformer = Transformer::encoder,
          .counted = true};
}

/// A class of vLLM's with a head of its own, whose config says what it stands on.
constexpr Family pooling(std::string_view architecture, PoolingHead head) {
  return {.architecture = architecture, .head = head};
}

/// A head that drafts for models whose layers are those of `layers`.
constexpr Family draft(std::string_view architecture, std::string_view layers) {
  return {.architecture = architecture, .draft_layers = layers};
}

/// A model with layers that predict further tokens.
constexpr Family predicting(Predictors predictors, Family row) {
  row.predictors = predictors;
  return row;
}

/// A model whose quantization config does not say all.
constexpr Family coded(Codes codes, Family row) {
  row.codes = codes;
  return row;
}

/// A `model_type` that no class is named after.
constexpr Family type_of(std::string_view model_type, std::string_view language) {
  return {.architecture = "", .model_type = model_type, .wrapper = {.language = language}};
}

}  // namespace plimsoll::model
