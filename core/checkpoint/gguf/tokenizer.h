// The tokenizer and the chat templates in a GGUF file's metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/gguf/model.h"

namespace plimsoll::checkpoint::gguf {

/// The text of the tokenizer.json that gives the same ids, for the kinds "gpt2", "llama" and "t5".
/// Throws Error(checkpoint_unusable) naming the file and the key, for other kinds, for unknown
/// pre-tokenizers, and for lists that do not fit each other.
std::string tokenizer_json(const Model& model);

/// Chat templates by name; "default" is tokenizer.chat_template.
std::map<std::string, std::string> chat_templates(const Model& model);

/// Texts of the special tokens as templates see them: "bos_token", "eos_token", "unk_token",
/// "pad_token".
std::map<std::string, std::string> special_tokens(const Model& model);

/// Ids that end an answer: EOS, EOT, EOM, and control tokens whose names llama.cpp takes for an
/// end ("<|im_end|>"). Ascending; empty where the metadata name none.
std::vector<int64_t> end_tokens(const Model& model);

}  // namespace plimsoll::checkpoint::gguf
