// Text to token ids and back, to the last id as Hugging Face tokenizers answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

using TokenId = int32_t;

enum class Specials { keep, skip };  // decoding: special tokens in the text, or not
enum class AddSpecials {
  no,
  yes
};  // encoding: run the post-processor's template (BOS, EOS ...), or not
/// Bytes of a text in which special-token text ("<|im_end|>") is text like any other.
struct PlainSpan {
  size_t begin = 0;
  size_t end = 0;
};
/// A span that makes the whole of any text plain.
inline constexpr PlainSpan kAllPlain{0, SIZE_MAX};

/// An immutable tokenizer; every method may be called from several threads at once.
class Tokenizer {
 public:
  /// Loads from a model folder (tokenizer.json; else vocab.json + merges.txt; else tokenizer.model,
  /// each with added_tokens.json, special_tokens_map.json and tokenizer_config.json where present),
  /// or from a tokenizer.json or tokenizer.model file itself. Throws Error(checkpoint_unusable)
  /// naming file and place.
  static Tokenizer load(const std::filesystem::path& folder_or_file);
  /// Makes a tokenizer of a tokenizer.json's text; `name` is what messages call it. Throws as
  /// load().
  static Tokenizer parse(const std::string& tokenizer_json, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Encodes a text. Special-token text in the input becomes that token, but not within `plain` (in
  /// ascending order). Throws TextError where `text` is not UTF-8, or costs more than a text may.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, AddSpecials add,
                                            std::span<const PlainSpan> plain = {}) const;
  /// Ranges of special-token text in a text that other text will follow: text that would become
  /// control tokens, and text at the end that could.
  [[nodiscard]] std::vector<PlainSpan> special_text(std::string_view text) const;
  /// Decodes ids. Ids outside the vocabulary decode to nothing. The result is valid UTF-8 (U+FFFD
  /// where bytes do not form text).
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, Specials specials) const;

  /// One more than the largest id.
  [[nodiscard]] int64_t vocab_size() const;
  [[nodiscard]] bool is_special(TokenId id) const;
  /// The vocabulary's own spelling ("Ġthe", "▁the", "<|im_end|>"); empty when there is no such id.
  [[nodiscard]] std::string token(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view token) const;
  /// Raw bytes that the id stands for within running text, for logprobs' `bytes` ("Ġthe" -> " the",
  /// "<0xE2>" -> "\xE2").
  [[nodiscard]] std::string token_bytes(TokenId id) const;

 private:
  friend class Detokenizer;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Decodes a growing list of ids piece by piece: never half a character, and the pieces joined are
/// `decode(all ids)`. Text that later ids may still change is held back: an unfinished character, a
/// run of byte tokens.
class Detokenizer {
 public:
  /// `prompt` gives the context that the first new ids are decoded in (word-start spaces). The
  /// tokenizer must outlive this.
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, Specials specials);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();
  /// Takes an id and returns the text that has become certain with it; may be empty.
  std::string push(TokenId id);
  /// The text that finish() would return now; later ids may yet change it.
  [[nodiscard]] std::string pending() const;
  /// The text that is still held back at the end (U+FFFD for broken characters).
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads bos_token, eos_token, unk_token, pad_token, ... of tokenizer_config.json and
/// special_tokens_map.json as text, strings or {"content": ...}: what chat templates see. Missing
/// files give an empty map.
std::map<std::string, std::string> special_token_texts(const std::filesystem::path& folder);

}  // namespace plimsoll::text
