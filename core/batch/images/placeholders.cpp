#include "batch/images/placeholders.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"
#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

using model::VisionKind;

constexpr std::string_view kInternVlText = "<image>", kInternVlEmbedded = "<IMG_CONTEXT>";

[[noreturn]] void refuse_count(size_t placeholders, const std::string& placeholder,
                               const std::vector<OpenedImage>& images) {
  const std::string& field = images.front().field;
  throw LineError(
      code::bad_field,
      fmt::format("{}: the prompt has {} ({}) for {}", field, counted(placeholders, "placeholder"),
                  placeholder, counted(images.size(), "image")),
      field);
}

}  // namespace

std::string Placeholders::token_text(int32_t token) const {
  std::string text = tokenizer_ != nullptr && token >= 0 ? tokenizer_->token(token) : std::string();
  if (!text.empty()) return text;
  throw LineError(code::no_images, "the model's config and tokenizer name no placeholder for it");
}

int32_t Placeholders::embedded_token(MediaKind kind) const {
  int32_t token = kind == MediaKind::video ? vision_.video_token : vision_.image_token;
  if (vision_.kind == VisionKind::internvl && tokenizer_ != nullptr) {
    token = tokenizer_->token_id(kInternVlEmbedded).value_or(-1);
  }
  if (token >= 0) return token;
  throw LineError(code::no_images, "the model's config and tokenizer name no placeholder for it");
}

bool Placeholders::is_framed() const {
  return vision_.kind == VisionKind::gemma3 || vision_.kind == VisionKind::idefics3 ||
         vision_.kind == VisionKind::internvl;
}

std::string Placeholders::text_of(MediaKind kind) const {
  if (vision_.kind == VisionKind::internvl) return std::string(kInternVlText);
  if (vision_.kind == VisionKind::gemma3) return token_text(vision_.begin_token);
  return token_text(embedded_token(kind));
}

std::vector<int32_t> Placeholders::encode(const std::string& text) const {
  return tokenizer_->encode(text, text::AddSpecials::no);
}

// ---- what becomes of a placeholder ----

/// Rows of tiles, a line end behind each, another before the whole image.
std::string Placeholders::tiles_of_idefics3(const image::Layout& layout) const {
  const std::string around = "<fake_token_around_image>";
  const std::string embedded = token_text(vision_.image_token);
  std::string text;
  for (int64_t row = 1; row <= layout.rows; ++row) {
    for (int64_t column = 1; column <= layout.columns; ++column) {
      text += fmt::format("{}<row_{}_col_{}>{}", around, row, column, embedded);
    }
    text += '\n';
  }
  return fmt::format("{}{}{}<global-img>{}{}", text, layout.rows > 0 ? "\n" : "", around, embedded,
                     around);
}

std::string Placeholders::spelling(const image::Layout& layout) const {
  if (vision_.kind == VisionKind::idefics3) return tiles_of_idefics3(layout);
  if (vision_.kind == VisionKind::internvl) return fmt::format("<img>{}</img>", kInternVlEmbedded);
  std::string one = fmt::format("\n\n{}{}{}\n\n", token_text(vision_.begin_token),
                                token_text(vision_.image_token), token_text(vision_.end_token));
  if (layout.tiles == 1) return one;
  std::string crops = one;
  for (int64_t i = 2; i < layout.tiles; ++i) crops += " " + one;
  return fmt::format(
      "Here is the original image {} and here are some crops to help you see better "
      "{}",
      one, crops);
}

std::string Placeholders::spell_text(const std::string& text,
                                     const std::vector<OpenedImage>& images) const {
  if (images.empty() || !is_framed()) return text;
  const std::string placeholder = text_of(MediaKind::image);
  const std::vector<size_t> places = find_all(text, placeholder);
  // InternVL's is a text like any other: those that nothing belongs to stay one.
  const bool enough = vision_.kind == VisionKind::internvl ? places.size() >= images.size()
                                                           : places.size() == images.size();
  if (!enough) refuse_count(places.size(), placeholder, images);
  std::string spelled;
  size_t at = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    spelled += text.substr(at, places[i] - at) + spelling(images[i].layout);
    at = places[i] + placeholder.size();
  }
  return spelled + text.substr(at);
}

size_t Placeholders::line_ends(int32_t token) const {
  const std::string text = tokenizer_->decode({&token, 1}, text::Specials::keep);
  return std::ranges::all_of(text, [](char c) { return c == '\n'; }) ? text.size() : 0;
}

void Placeholders::append(std::vector<int32_t>& to, std::span<const int32_t> ids) const {
  size_t before = 0, behind = 0, taken = 0;
  while (taken < ids.size() && line_ends(ids[taken]) > 0) behind += line_ends(ids[taken++]);
  size_t kept = to.size();
  while (behind > 0 && kept > 0 && line_ends(to[kept - 1]) > 0) before += line_ends(to[--kept]);
  if (before > 0) {
    to.resize(kept);
    const std::vector<int32_t> merged = encode(std::string(before + behind, '\n'));
    to.insert(to.end(), merged.begin(), merged.end());
    ids = ids.subspan(taken);
  }
  to.insert(to.end(), ids.begin(), ids.end());
}

std::vector<int32_t> Placeholders::spell_ids(const std::vector<int32_t>& ids,
                                             const std::vector<OpenedImage>& images) const {
  if (images.empty() || !is_framed()) return ids;
  if (tokenizer_ == nullptr) {
    throw LineError(code::bad_field,
                    "prompt_token_ids: images need the tokenizer, and --skip-tokenizer-init "
                    "leaves it out",
                    "prompt_token_ids");
  }
  const bool internvl = vision_.kind == VisionKind::internvl;
  std::vector<int32_t> placeholder = encode(text_of(MediaKind::image));
  if (internvl && find_all(ids, placeholder).empty()) {
    placeholder = {embedded_token(MediaKind::image)};
  } else if (!internvl) {
    placeholder = {vision_.kind == VisionKind::gemma3 ? vision_.begin_token : vision_.image_token};
  }
  const std::vector<size_t> places = find_all(ids, placeholder);
  if (places.size() != images.size()) {
    refuse_count(places.size(), text_of(MediaKind::image), images);
  }
  std::vector<int32_t> spelled;
  size_t at = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    append(spelled, std::span(ids).subspan(at, places[i] - at));
    append(spelled, encode(spelling(images[i].layout)));
    at = places[i] + placeholder.size();
  }
  append(spelled, std::span(ids).subspan(at));
  return spelled;
}

// ---- a token for each embedding ----

ExpandedPrompt Placeholders::expand(const std::vector<int32_t>& spelled,
                                    const std::vector<OpenedImage>& images) const {
  ExpandedPrompt prompt;
  if (images.empty()) return {spelled, {}};
  prompt.runs.resize(images.size());
  const bool tiled = vision_.kind == VisionKind::gemma3 || vision_.kind == VisionKind::idefics3;
  struct Next {
    int32_t token;
    MediaKind kind;
    size_t image = 0;
    int64_t embedding = 0;  // of the image
    size_t met = 0;
  };
  std::vector<Next> kinds;
  for (const MediaKind kind : {MediaKind::image, MediaKind::video}) {
    if (std::ranges::find(images, kind, &OpenedImage::kind) == images.end()) continue;
    kinds.push_back({embedded_token(kind), kind});
  }
  for (const int32_t id : spelled) {
    const auto next = std::ranges::find(kinds, id, &Next::token);
    if (next == kinds.end()) {
      prompt.ids.push_back(id);
      continue;
    }
    ++next->met;
    while (next->image < images.size() && images[next->image].kind != next->kind) {
      ++next->image;
    }
    if (next->image == images.size()) continue;  // too many: refused below
    const image::Layout& layout = images[next->image].layout;
    const int64_t count = tiled ? layout.tokens / layout.tiles : layout.tokens;
    prompt.runs[next->image].push_back({std::ssize(prompt.ids), count, next->embedding});
    prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(count), id);
    next->embedding += count;
    if (next->embedding == layout.tokens) {
      ++next->image;
      next->embedding = 0;
    }
  }
  for (const Next& next : kinds) {
    size_t expected = 0;
    for (const OpenedImage& image : images) {
      if (image.kind != next.kind) continue;
      expected += tiled ? static_cast<size_t>(image.layout.tiles) : 1;
    }
    if (next.met != expected) {
      refuse_count(next.met, tokenizer_ ? text_of(next.kind) : std::to_string(next.token), images);
    }
  }
  return prompt;
}

}  // namespace plimsoll::batch
