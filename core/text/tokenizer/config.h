// Files beside the vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/pipeline.h"

namespace plimsoll::text {

struct TokenizerConfig {
  std::string tokenizer_class;  // without "Fast"; empty when no file names one
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_prefix_space;
  std::optional<bool> legacy;
  std::vector<std::pair<TokenId, AddedToken>> added;  // by id
  std::map<std::string, AddedToken> named;            // "bos_token" -> the token
  std::vector<AddedToken> extra;                      // further special tokens

  [[nodiscard]] const AddedToken* find_named(const std::string& name) const;
};

/// Reads the files of a folder. Missing files leave fields empty. config.json's model_type stands
/// in for a missing class.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

/// The ids of tokens whose ids the files fix: assigned anew, or as listed.
enum class AddedIds { assigned, as_listed };
/// Adds the config's tokens: under the ids that the reference assigns (after those of
/// tokenizer.json), or under the listed ids.
void add_config_tokens(const TokenizerConfig& config, AddedIds ids, Pipeline& tokenizer);
/// Puts BOS and EOS around every text, in place of the post-processor.
void set_bos_eos(const TokenizerConfig& config, bool add_bos, bool add_eos, Pipeline& tokenizer);

}  // namespace plimsoll::text
