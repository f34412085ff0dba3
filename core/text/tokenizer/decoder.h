// The decoders of tokenizer.json, token by token: text comes out as soon as nothing that follows
// can change it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <variant>
#include <vector>

#include "text/tokenizer/normalizer.h"

namespace plimsoll::text {

struct ByteLevelDecode {};
struct ByteFallbackDecode {};
/// Joins all following tokens into one.
struct FuseDecode {};
struct StripDecode {
  char32_t content;
  size_t start;
  size_t stop;
};
struct MetaspaceDecode {
  char32_t replacement;
  bool drop_in_first;  // the scheme put one before the first token
};
struct WordPieceDecode {
  std::string prefix;
  bool cleanup;
};
struct BpeDecode {
  std::string suffix;
};
struct CtcDecode {
  std::string pad_token;
  std::string word_delimiter_token;
  bool cleanup;
};
struct ReplaceDecode {
  Pattern pattern;
  std::string content;
};
/// Joins tokens by spaces, as without a decoder.
struct SpacedDecode {};
/// Decodes as sentencepiece does: bytes one by one, the dummy space before the first piece dropped.
struct SentencePieceDecode {
  bool drop_first_space;
  bool drop_all_leading_spaces;
  std::string unknown;                       // this piece shows as " ⁇ "
  std::unordered_set<std::string> controls;  // control pieces show not at all
};

class Decoder {
 public:
  using Step = std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, StripDecode,
                            MetaspaceDecode, WordPieceDecode, BpeDecode, CtcDecode, ReplaceDecode,
                            SpacedDecode, SentencePieceDecode>;
  void add(Step step);
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// The bytes that a vocabulary token stands for within running text.
  [[nodiscard]] std::string token_bytes(std::string_view token) const;

 private:
  friend class DecodeStream;
  struct Placed {
    Step step;
    bool fused;  // sees one token in chunks; false: token by token
  };
  std::vector<Placed> steps_;
};

/// One decoding in progress. Cheap to copy; the decoder must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Decoder& decoder)
      : decoder_(&decoder), states_(decoder.steps_.size()) {}
  /// Decodes a token; appends to `out` the text that has become certain.
  void push(std::string_view token, std::string& out) { push(0, token, out); }
  void finish(std::string& out) { finish(0, out); }
  /// Decodes an added token, which stands in the text as it is, because sentencepiece does not know
  /// it.
  void push_added(std::string_view token, std::string& out);

 private:
  struct State {
    bool started = false;
    size_t count = 0;
    std::string held;
  };
  friend struct StepRunner;
  void push(size_t step, std::string_view token, std::string& out);
  void finish(size_t step, std::string& out);

  const Decoder* decoder_;
  std::vector<State> states_;
};

/// The value of "<0xE2>", or -1.
int byte_of_token(std::string_view token);

}  // namespace plimsoll::text
