#include "image/processor.h"

#include "image/processors/processors.h"

namespace plimsoll::image {

Layout Processor::video_layout(Size, int64_t) const {
  throw ImageError(code::unreadable, "the model takes no videos");
}

Pixels Processor::make_video(std::span<const Image> frames) const {
  return {video_layout(frames.front().size, std::ssize(frames)), {}};
}

Pixels Processor::process(const Image& image) const {
  Pixels pixels = make(image);
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

void Pixels::write_values(int64_t first, int64_t count, float* to) const {
  const uint8_t* level = levels.data() + first;
  const uint8_t* end = level + count;
  while (level != end) {
    for (const auto& table : *tables) {
      for (int64_t i = 0; i < channel_run; ++i) *to++ = table[*level++];
    }
  }
}

void Pixels::write_patches(int64_t tile, int64_t patch, float* to) const {
  const int64_t height = layout.shape[2], width = layout.shape[3];
  const uint8_t* planes = levels.data() + tile * 3 * height * width;
  for (int64_t y = 0; y + patch <= height; y += patch) {
    for (int64_t x = 0; x + patch <= width; x += patch) {
      for (int64_t c = 0; c < 3; ++c) {
        const auto& table = (*tables)[static_cast<size_t>(c)];
        for (int64_t row = 0; row < patch; ++row) {
          const uint8_t* from = planes + (c * height + y + row) * width + x;
          for (int64_t i = 0; i < patch; ++i) *to++ = table[from[i]];
        }
      }
    }
  }
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
    case ProcessorKind::siglip:
      return make_clip(patches, settings, overrides);
    case ProcessorKind::idefics3:
      return make_idefics3(patches, settings, overrides);
    case ProcessorKind::internvl:
      return make_internvl(patches, settings, overrides);
  }
  return nullptr;
}

}  // namespace plimsoll::image
