// Requests to token ids: templates, tokenizer, the context's length, and how much may be generated.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch/answer_markers.h"
#include "batch/chat_prompt.h"
#include "batch/images/placeholders.h"
#include "batch/request_line.h"
#include "grammar/compiler.h"
#include "text/answer/answer.h"
#include "text/tokenizer.h"

namespace plimsoll::batch {

/// Treatment of a prompt that is longer than the context.
enum class LongPrompt : uint8_t { error, truncate_left, truncate_right, split };

struct PromptOptions {
  const text::Tokenizer* tokenizer = nullptr;  // null: prompts must be token ids
  int64_t max_model_len = 0;
  std::optional<int64_t> max_tokens_cap{};  // --max-tokens
  LongPrompt long_prompt = LongPrompt::error;
  int64_t split_overlap = 0;  // tokens that neighbouring chunks share
  /// Source of images; `counted`: their headers are read, and no pixels.
  std::shared_ptr<ImageLoader> images = nullptr;
  enum class Pixels : uint8_t { loaded, counted } pixels = Pixels::loaded;
  /// Compiles what answers must be; null: nothing is compiled, and constraints have no effect.
  std::shared_ptr<grammar::Compiler> grammars = nullptr;
  text::AnswerFormats formats = {};  // of the model's answers
};

/// One prompt of a line, ready for the engine.
struct Prompt {
  std::string text;                                  // for echo; empty unless asked
  text::Thinking thinking = text::Thinking::unsaid;  // of a chat: where its last words leave it
  std::vector<TokenIds> parts;                       // one, unless the prompt was split
  std::shared_ptr<const engine::Images> images = nullptr;  // of the only part; null: none
};

/// An image whose pixels may be on their way.
struct ComingImage {
  engine::Hash128 key;
  PixelsFuture pixels;
  std::vector<engine::ImageRun> runs;
};

struct BuiltRequest {
  std::vector<Prompt> prompts;
  /// Sampling parameters per part of each prompt, in order: the request's fields with max_tokens,
  /// bad words, logprobs and grammar resolved.
  std::vector<engine::SamplingParams> sampling;
  int64_t dropped_tokens = 0;       // cut from prompts by --long-prompt or truncate_prompt_tokens
  std::vector<ComingImage> coming;  // of the only prompt, until PromptBuilder::finish

  /// True when the pixels of all images are there.
  [[nodiscard]] bool is_ready() const;
};

class PromptBuilder {
 public:
  PromptBuilder(PromptOptions options, ChatOptions chat);

  /// Builds a request and waits for its images. Throws LineError.
  BuiltRequest build(const LineHead& head, const LineRequest& request);
  /// Builds a request whose images may still be on their way (BuiltRequest::is_ready). Throws
  /// LineError.
  BuiltRequest start(const LineHead& head, const LineRequest& request);
  /// Waits for the images of a started request. Throws LineError for those that cannot be read.
  void finish(BuiltRequest& built) const;
  /// True while the lines under way hold as many images as memory allows.
  [[nodiscard]] bool is_full() const { return options_.images && options_.images->is_full(); }
  [[nodiscard]] PreparedImages prepared_images() const {
    return options_.images ? options_.images->prepared() : PreparedImages{};
  }

 private:
  BuiltRequest build_any(const LineHead& head, const LineRequest& request);
  const text::Tokenizer& tokenizer(std::string_view needed_for) const;
  TokenIds encode_text(const std::string& text, text::AddSpecials add,
                       const std::vector<OpenedImage>& images) const;
  /// A chat's tokens, and what its last words say of reasoning.
  struct EncodedChat {
    TokenIds ids;
    text::Thinking thinking = text::Thinking::unsaid;
  };
  EncodedChat encode_chat(const OrderedJson& messages, const RequestFields& fields,
                          const std::vector<OpenedImage>& images);
  std::vector<OpenedImage> open_images(const LineRequest& request);
  /// Throws LineError where a prompt with images is too long, because nothing may be cut from it.
  void check_whole(const LineHead& head, const RequestFields& fields, size_t length) const;
  [[nodiscard]] std::vector<ComingImage> load_images(std::vector<OpenedImage> opened,
                                                     const ExpandedPrompt& prompt) const;
  int64_t room_for_prompt(const LineHead& head, const RequestFields& fields, size_t length) const;
  std::vector<TokenIds> split_ids(const TokenIds& ids, int64_t room) const;
  std::vector<TokenIds> split_chat(const LineRequest& request, size_t length, int64_t room);
  engine::SamplingParams sampling_params(const LineHead& head, const RequestFields& fields,
                                         size_t prompt_tokens, text::Thinking thinking) const;
  [[nodiscard]] std::shared_ptr<const grammar::CompiledGrammar> grammar_of(
      const RequestFields& fields) const;
  std::vector<TokenIds> bad_words(const std::vector<std::string>& words) const;

  PromptOptions options_;
  std::optional<Placeholders> placeholders_;  // of models with a tower
  ChatRenderer renderer_;
  AnswerMarkers markers_;
};

}  // namespace plimsoll::batch
