#include "text/tokenizer.h"

#include <algorithm>

#include "text/budget.h"
#include "text/text_error.h"
#include "text/tokenizer/files.h"
#include "text/tokenizer/pipeline.h"

namespace plimsoll::text {

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder_or_file) {
  auto impl = std::make_unique<Impl>();
  load_tokenizer(folder_or_file, *impl);
  impl->added.finish();
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::parse(const std::string& tokenizer_json, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  load_tokenizer_text(tokenizer_json, name, *impl);
  impl->added.finish();
  return Tokenizer(std::move(impl));
}

// Tokens that are matched in the raw text cut it first; each section between them is normalised,
// cut at the tokens that are matched in normalised text, and the rest is pre-tokenised.
std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecials add,
                                       std::span<const PlainSpan> plain) const {
  // PCRE2 skips its own check of UTF-8, so the text is checked here.
  if (!is_valid_utf8(text)) refuse_text("the text is not valid UTF-8");
  const TextBudget budget(text.size());
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  std::vector<Section> sections;
  impl_->added.split(text, AddedTokens::Stage::raw, plain, sections);
  for (const Section& section : sections) {
    if (section.token) {
      ids.push_back(*section.token);
    } else {
      // A normalised section has its bytes elsewhere, so one that touches plain text is plain as a
      // whole.
      const bool touched = overlaps(plain, section.begin, section.end);
      impl_->encode_section(text.substr(section.begin, section.end - section.begin),
                            section.begin == 0, {&kAllPlain, touched ? size_t{1} : 0}, ids);
    }
  }
  return impl_->post_processor.apply(std::move(ids), add);
}

std::vector<PlainSpan> Tokenizer::special_text(std::string_view text) const {
  return impl_->added.special_text(text);
}

void Pipeline::encode_section(std::string_view text, bool at_origin,
                              std::span<const PlainSpan> plain, std::vector<TokenId>& ids) const {
  NormalizedText normalized{std::string(text), at_origin, utf8_length(text[0])};
  if (normalizer) normalizer->apply(normalized);
  std::vector<Section> sections;
  added.split(normalized.text, AddedTokens::Stage::normalized, plain, sections);
  const bool from_first = at_origin && normalized.head > 0;
  if (sections.size() == 1 && !sections[0].token) {
    normalized.at_origin = from_first;
    encode_words(std::move(normalized), ids);
    return;
  }
  for (const auto& [begin, end, token] : sections) {
    if (token) {
      ids.push_back(*token);
      continue;
    }
    const bool at_head = begin < normalized.head;
    encode_words(
        {normalized.text.substr(begin, end - begin), at_head && at_origin,
         at_head ? std::min(normalized.head, end) - begin : utf8_length(normalized.text[begin])},
        ids);
  }
}

void Pipeline::encode_words(NormalizedText text, std::vector<TokenId>& ids) const {
  if (text.text.empty()) return;
  PreTokenized words;
  words.text = std::move(text.text);
  words.pieces.push_back({0, words.text.size(), text.at_origin, text.head});
  if (pre_tokenizer) pre_tokenizer->apply(words);
  for (const Piece& piece : words.pieces) {
    if (piece.begin < piece.end) model->tokenize(words.view(piece), ids);
  }
}

std::optional<std::string_view> Pipeline::spelling(TokenId id) const {
  if (const std::string* text = added.spelling(id)) return *text;
  if (!model->vocabulary().contains(id)) return std::nullopt;
  return model->vocabulary().token(id);
}

void Pipeline::decode(TokenId id, Specials specials, DecodeStream& stream, std::string& out) const {
  if (const std::string* text = added.spelling(id)) {
    if (specials == Specials::keep || !added.is_special_text(*text)) stream.push_added(*text, out);
  } else if (model->vocabulary().contains(id)) {
    const std::string_view token = model->vocabulary().token(id);
    if (specials == Specials::keep || !added.is_special_text(token)) stream.push(token, out);
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids, Specials specials) const {
  const TextBudget budget(ids.size());
  std::string out;
  DecodeStream stream(impl_->decoder);
  for (const TokenId id : ids) impl_->decode(id, specials, stream, out);
  stream.finish(out);
  return out;
}

int64_t Tokenizer::vocab_size() const {
  return std::max(impl_->model->vocabulary().end_id(), impl_->added.end_id());
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = impl_->added.token(id);
  return token && token->special;
}

std::string Tokenizer::token(TokenId id) const {
  if (const AddedToken* token = impl_->added.token(id)) return token->content;
  return std::string(impl_->model->vocabulary().token(id));
}

std::optional<TokenId> Tokenizer::token_id(std::string_view token) const {
  const auto added = impl_->added.find(token);
  return added ? added : impl_->model->vocabulary().find(token);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  if (is_special(id)) return impl_->added.token(id)->content;
  const auto text = impl_->spelling(id);
  return text ? impl_->decoder.token_bytes(*text) : "";
}

}  // namespace plimsoll::text
