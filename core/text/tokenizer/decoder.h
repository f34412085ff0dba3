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
/// From here on all tokens are one.
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
/// Without a decoder tokens are joined by spaces.
struct SpacedDecode {};
/// sentencepiece's own way: bytes one by one, the dummy space before the first piece dropped.
struct SentencePieceDecode {
  bool drop_first_space;
  bool drop_all_leading_spaces;
  std::string unknown;                       // this piece shows as " ⁇ "
  std::unordered_set<std::string> controls;  // these not at all
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
    bool fused;  // whether it sees one token in chunks, or token by token
  };
  std::vector<Placed> steps_;
};

/// One decoding in progress. Cheap to copy; the decoder must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Decoder& decoder)
      : decoder_(&decoder), states_(decoder.steps_.size()) {}
  /// Appends to `out` what has become certain.
  void push(std::string_view token, std::string& out) { push(0, token, out); }
  void finish(std::string& out) { finish(0, out); }
  /// An added token: sentencepiece does not know those, they stand in the text as they are.
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
