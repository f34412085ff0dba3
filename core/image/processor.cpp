#include "image/processor.h"

#include "image/processors/processors.h"

namespace plimsoll::image {

Layout Processor::video_layout(Size, int64_t) const {
  throw ImageError(code::unreadable, "the model takes no videos");
}

Pixels Processor::process_video(std::span<const Image> frames) const {
  return {video_layout(frames.front().size, std::ssize(frames)), {}};
}

void Processor::normalize(const Pixels& pixels, float* values) const {
  const auto* level = pixels.levels.data();
  const auto* end = level + pixels.levels.size();
  while (level != end) {
    for (const auto& table : tables_) {
      for (int64_t i = 0; i < run_; ++i) *values++ = table[*level++];
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
