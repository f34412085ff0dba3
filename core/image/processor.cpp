#include "image/processor.h"

#include <algorithm>

#include "image/processors/processors.h"

namespace plimsoll::image {

Layout Processor::video_layout(Size, int64_t) const {
  throw ImageError(code::no_images, "the model takes no videos");
}

Pixels Processor::make_video(std::span<const Image> frames) const {
  return {video_layout(frames.front().size, std::ssize(frames)), {}};
}

namespace {

Image whitened(Image image) {
  for (auto pixel = image.rgb.begin(); pixel != image.rgb.end(); pixel += 3) {
    if (std::equal(image.clear->begin(), image.clear->end(), pixel)) {
      std::fill_n(pixel, 3, uint8_t{255});
    }
  }
  return image;
}

}  // namespace

Pixels Processor::process(const Image& image) const {
  const bool whitens = image.clear.has_value() && clear_ == Clear::white;
  Pixels pixels = whitens ? make(whitened(image)) : make(image);
  pixels.tables = tables_;
  pixels.channel_run = run_;
  return pixels;
}

Pixels Processor::process_video(std::span<const Image> frames) const {
  Pixels pixels = make_video(frames);
  pixels.tables = tables_;
  pixels.channel_run = run_;
  return pixels;
}

std::unique_ptr<const Processor> make_processor(ProcessorKind kind, const PatchShape& patches,
                                                const Json& settings, const Json& overrides) {
  using namespace processors;
  switch (kind) {
    case ProcessorKind::qwen2_vl:
      return make_qwen2_vl(patches, settings, overrides);
    case ProcessorKind::gemma3:
      return make_gemma3(patches, settings, overrides);
    case ProcessorKind::clip:
      return make_clip(patches, settings, overrides);
    case ProcessorKind::siglip:
      return make_siglip(patches, settings, overrides);
    case ProcessorKind::idefics3:
      return make_idefics3(patches, settings, overrides);
    case ProcessorKind::internvl:
      return make_internvl(patches, settings, overrides);
  }
  return nullptr;
}

}  // namespace plimsoll::image
