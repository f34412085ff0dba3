// The language model within a multimodal one: a text family's weight table below vLLM's
// `language_model`, and what the multimodal families share beside it.
#pragma once

#include <string>

#include "base/json.h"
#include "model/config_reader.h"
#include "model/families/families.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// The config of a multimodal model's text part, with what its class takes for missing keys.
struct TextPart {
  Json config;
  /// How the checkpoint's names of its tensors begin, before "model." and "lm_head.".
  std::string tensors = "language_model.";
};

/// Whether the head shares the embeddings' table, as vLLM finds it: stated for the whole model, or
/// (as configs before transformers 5 do) for the text part.
bool is_tied_anywhere(const ConfigReader& config);

/// The text part as `make` builds it. `config` is the whole model's.
ModelSpec make_language_model(const ConfigReader& config, const TextPart& text,
                              ModelSpec (*make)(const ConfigReader&));

/// The text family that a text part names by its `architectures`, else its `model_type`. Throws
/// Error(checkpoint_unusable).
const Family& find_text_family(const ConfigReader& text);

/// Other spellings of a checkpoint of vision_tower, multi_modal_projector and language_model:
/// transformers from 4.52 on puts them below "model.".
void add_newer_spellings(ModelSpec& spec);

/// The id of a token of pictures that the config names under one of these keys; -1: it names none.
int32_t read_picture_token(const ConfigReader& config, ConfigReader::Keys keys);

/// Lets tensors be whose names begin with `prefix`, in either spelling.
void ignore_tensors(ModelSpec& spec, const std::string& prefix);

}  // namespace plimsoll::model
