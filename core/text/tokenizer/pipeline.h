// A tokenizer as tokenizer.json describes it; the readers of other files fill in this form too.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace plimsoll::text {

struct Pipeline {
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<Model> model;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;

  void encode_section(std::string_view text, bool at_origin, std::span<const PlainSpan> plain,
                      std::vector<TokenId>& ids) const;
  void encode_words(NormalizedText text, std::vector<TokenId>& ids) const;
  /// The text of a token that decoding sees: an added token's, else the vocabulary's. None for
  /// unknown ids.
  [[nodiscard]] std::optional<std::string_view> spelling(TokenId id) const;
  /// Passes the token to the stream, unless `specials` leaves it out.
  void decode(TokenId id, Specials specials, DecodeStream& stream, std::string& out) const;
};

struct Tokenizer::Impl : Pipeline {};

}  // namespace plimsoll::text
