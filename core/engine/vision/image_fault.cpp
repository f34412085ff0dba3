#include "engine/vision/image_fault.h"

#include <fmt/format.h>

namespace plimsoll::engine {
namespace {

bool has_room(const Image& image, const EngineLayout& layout, VisionTower& tower,
              backend::View embeddings) {
  if (image.tokens() > layout.images->cache_tokens) return false;
  const VisionTower::Memory needed =
      tower.memory_for(image.pixels->layout, embeddings.slice_rows(0, image.tokens()));
  return needed.scratch <= layout.scratch_bytes && needed.staging <= layout.image_staging_bytes;
}

}  // namespace

std::optional<RequestOutput::Failure> find_image_fault(const Images& images,
                                                       const EngineLayout& layout,
                                                       std::optional<VisionTower>& tower,
                                                       backend::View embeddings) {
  if (!tower) return RequestOutput::Failure{"no_images", "the launch has no vision tower"};
  for (const Image& image : images.items) {
    if (!has_room(image, layout, *tower, embeddings)) {
      return RequestOutput::Failure{
          "image_too_large",
          fmt::format("an image becomes {} embeddings, and the launch has room for images of {}: "
                      "--mm-processor-kwargs of the launch make room for larger ones",
                      image.tokens(), layout.images->largest())};
    }
    for (const ImageRun& run : image.runs) {
      if (!images.two_way || run.count <= layout.limits.batched_tokens) continue;
      return RequestOutput::Failure{
          "image_too_large",
          fmt::format("an image's {} tokens see each other and are computed in one step, which has "
                      "{}: widen --max-num-batched-tokens",
                      run.count, layout.limits.batched_tokens)};
    }
  }
  return std::nullopt;
}

}  // namespace plimsoll::engine
