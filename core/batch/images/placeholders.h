// Places of images in prompts: placeholders as people write them, and the tokens they become.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "batch/images/image_loader.h"
#include "text/tokenizer.h"

namespace plimsoll::batch {

/// A prompt with the positions of all its embeddings.
struct ExpandedPrompt {
  std::vector<int32_t> ids;
  /// Runs of embeddings, for each image in the order given.
  std::vector<std::vector<engine::ImageRun>> runs;
};

/// Places in a text, or in token ids, where `part`, which is not empty, begins; places don't
/// overlap.
template <class Sequence>
std::vector<size_t> find_all(const Sequence& text, const Sequence& part) {
  std::vector<size_t> places;
  auto at = text.begin();
  while ((at = std::search(at, text.end(), part.begin(), part.end())) != text.end()) {
    places.push_back(static_cast<size_t>(at - text.begin()));
    at += std::ssize(part);
  }
  return places;
}

class Placeholders {
 public:
  /// `tokenizer` may be null: prompts are ids, of the models that spell a placeholder as one token.
  Placeholders(const model::VisionSpec& vision, const text::Tokenizer* tokenizer)
      : vision_(vision), tokenizer_(tokenizer) {}

  /// Placeholder of an image in a text. Throws LineError(no_images) where the model has none.
  [[nodiscard]] std::string text_of(MediaKind kind) const;
  /// Text with each placeholder spelled out: one token for every tile's embeddings. Throws
  /// LineError(bad_field) where there are not as many placeholders as images.
  [[nodiscard]] std::string spell_text(const std::string& text,
                                       const std::vector<OpenedImage>& images) const;
  /// Token ids with each placeholder spelled out, as spell_text() does it for a text.
  [[nodiscard]] std::vector<int32_t> spell_ids(const std::vector<int32_t>& ids,
                                               const std::vector<OpenedImage>& images) const;
  /// Expands a spelled prompt to one token for each embedding. Throws LineError(bad_field) where
  /// placeholders and images differ in number.
  [[nodiscard]] ExpandedPrompt expand(const std::vector<int32_t>& spelled,
                                      const std::vector<OpenedImage>& images) const;

 private:
  /// The token that an embedding takes the place of.
  [[nodiscard]] int32_t embedded_token(MediaKind kind) const;
  /// True when an image is spelled with more tokens than its embeddings.
  [[nodiscard]] bool is_framed() const;
  /// Spelling of one placeholder: a token for every tile, and the tokens around them.
  [[nodiscard]] std::string spelling(const image::Layout& layout) const;
  [[nodiscard]] std::string tiles_of_idefics3(const image::Layout& layout) const;
  [[nodiscard]] std::string token_text(int32_t token) const;
  [[nodiscard]] std::vector<int32_t> encode(const std::string& text) const;
  /// Appends `ids` to `to`; line ends that meet become one token, as they would in a text.
  void append(std::vector<int32_t>& to, std::span<const int32_t> ids) const;
  [[nodiscard]] size_t line_ends(int32_t token) const;

  const model::VisionSpec& vision_;
  const text::Tokenizer* tokenizer_;
};

}  // namespace plimsoll::batch
