// Where pictures stand in prompts: placeholders as people write them, and what becomes of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "batch/pictures/picture_loader.h"
#include "text/tokenizer.h"

namespace plimsoll::batch {

/// A prompt with all its embeddings' positions.
struct ExpandedPrompt {
  std::vector<int32_t> ids;
  std::vector<std::vector<engine::PictureRun>> runs;  // of each picture, as they were given
};

/// Where `part`, which is not empty, begins in a text; places don't overlap.
std::vector<size_t> find_all(const std::string& text, const std::string& part);

class Placeholders {
 public:
  /// `tokenizer` may be null: prompts are ids, of the models that spell a placeholder as one token.
  Placeholders(const model::VisionSpec& vision, const text::Tokenizer* tokenizer)
      : vision_(vision), tokenizer_(tokenizer) {}

  /// What stands for a picture in a text; where the model has none LineError(no_images).
  [[nodiscard]] std::string text_of(MediaKind kind) const;
  /// A text with placeholders as one where every tile's embeddings stand as one token. Throws
  /// LineError(bad_field) where there are not as many as pictures.
  [[nodiscard]] std::string spell_text(const std::string& text,
                                       const std::vector<OpenedPicture>& pictures) const;
  /// Likewise for ids.
  [[nodiscard]] std::vector<int32_t> spell_ids(const std::vector<int32_t>& ids,
                                               const std::vector<OpenedPicture>& pictures) const;
  /// A spelled prompt with a token for each embedding. Throws LineError(bad_field) as above.
  [[nodiscard]] ExpandedPrompt expand(const std::vector<int32_t>& spelled,
                                      const std::vector<OpenedPicture>& pictures) const;

 private:
  /// The token that an embedding takes the place of.
  [[nodiscard]] int32_t embedded_token(MediaKind kind) const;
  /// Whether a picture becomes more than its embeddings.
  [[nodiscard]] bool is_framed() const;
  /// What becomes of one placeholder, a token for every tile.
  [[nodiscard]] std::string spelling(const image::Layout& layout) const;
  [[nodiscard]] std::string tiles_of_idefics3(const image::Layout& layout) const;
  [[nodiscard]] std::string token_text(int32_t token) const;
  [[nodiscard]] std::vector<int32_t> encode(const std::string& text) const;
  /// Behind `to`; line ends that meet become one token, as they would in a text.
  void append(std::vector<int32_t>& to, std::span<const int32_t> ids) const;
  [[nodiscard]] size_t line_ends(int32_t token) const;

  const model::VisionSpec& vision_;
  const text::Tokenizer* tokenizer_;
};

}  // namespace plimsoll::batch
