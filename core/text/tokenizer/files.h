// Readers of the files that make a tokenizer. All throw Error(checkpoint_unusable) naming file and
// place.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/pipeline.h"

namespace plimsoll::text {

struct TokenizerConfig;

/// Loads a tokenizer from a model folder, or from a tokenizer.json or tokenizer.model file.
void load_tokenizer(const std::filesystem::path& folder_or_file, Pipeline& tokenizer);

void load_tokenizer_json(const std::filesystem::path& file, Pipeline& tokenizer);
/// Loads the text of a tokenizer.json; `name` is what messages call it.
void load_tokenizer_text(const std::string& text, const std::string& name, Pipeline& tokenizer);
/// Loads tokenizer.model: sentencepiece, or Llama 3's ranked byte strings (tiktoken). Without a
/// config it is the bare model, with no added tokens.
void load_tokenizer_model(const std::filesystem::path& file, const TokenizerConfig* config,
                          Pipeline& tokenizer);
void load_tiktoken(const std::filesystem::path& file, const std::string& text,
                   const TokenizerConfig* config, Pipeline& tokenizer);

/// Reads vocab.json: an object from token to id.
Vocabulary read_vocabulary(const std::filesystem::path& file);
/// Reads merges.txt: a pair a line; the first line may be "#version: 0.2".
MergeList read_merges(const std::filesystem::path& file);

/// A parsed tokenizer.json, its big tables kept out of the document.
struct TokenizerDocument {
  Json root;  // without model.vocab and model.merges
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, double>> pieces;  // Unigram's vocabulary
  MergeList merges;
  bool has_vocabulary = false;
  bool has_merges = false;
};
TokenizerDocument read_tokenizer_document(const std::filesystem::path& file);
TokenizerDocument parse_tokenizer_document(const std::string& text, const std::string& name);

/// Runs `read`, and adds the file's name to its exceptions about models, patterns and JSON.
void with_file_name(const std::filesystem::path& file, const std::function<void()>& read);

// The parts of tokenizer.json.
std::unique_ptr<Normalizer> parse_normalizer(const Json& json);
std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& json);
void parse_decoder(const Json& json, Decoder& decoder);
void parse_post_processor(const Json& json, PostProcessor& post_processor);
std::vector<AddedToken> parse_added_tokens(const Json& json);

}  // namespace plimsoll::text
