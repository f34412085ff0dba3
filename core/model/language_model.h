// The language model within a multimodal one: a text family's weight table below vLLM's
// `language_model`, and helpers that the multimodal families share.
#pragma once

#include <string>

#include "base/json.h"
#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Config of a multimodal model's text part, with the defaults of its class filled in.
struct TextPart {
  Json config;
  /// Prefix of the checkpoint's names of its tensors, before "model." and "lm_head.".
  std::string tensors = "language_model.";
};

/// True when the head shares the embeddings' table in vLLM: stated for the whole model, or (as
/// configs before transformers 5 do) for the text part.
bool is_tied_anywhere(const ConfigReader& config);

/// The text part as `make` builds it. `config` is the whole model's.
ModelSpec make_language_model(const ConfigReader& config, const TextPart& text,
                              ModelSpec (*make)(const ConfigReader&));

/// The text family that a text part names by its `architectures`, else its `model_type`. Throws
/// Error(checkpoint_unusable).
const Family& find_text_family(const ConfigReader& text);

/// Adds other spellings for vision_tower, multi_modal_projector and language_model: transformers
/// from 4.52 on puts them below "model.".
void add_newer_spellings(ModelSpec& spec);

/// Id of the image token that the config has under one of these keys; -1: it has none.
int32_t read_image_token(const ConfigReader& config, ConfigReader::Keys keys);

/// Ignores tensors whose names begin with `prefix`, in either spelling.
void ignore_tensors(ModelSpec& spec, const std::string& prefix);

}  // namespace plimsoll::model
