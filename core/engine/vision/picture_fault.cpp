#include "engine/vision/picture_fault.h"

#include <fmt/format.h>

namespace plimsoll::engine {
namespace {

bool has_room(const Picture& picture, const EngineLayout& layout, VisionTower& tower,
              backend::View embeddings) {
  if (picture.tokens() > layout.pictures->cache_tokens) return false;
  const VisionTower::Memory needed =
      tower.memory_for(picture.pixels->layout, embeddings.slice_rows(0, picture.tokens()));
  return needed.scratch <= layout.scratch_bytes && needed.staging <= layout.picture_staging_bytes;
}

}  // namespace

std::optional<RequestOutput::Failure> find_picture_fault(const Pictures& pictures,
                                                         const EngineLayout& layout,
                                                         std::optional<VisionTower>& tower,
                                                         backend::View embeddings) {
  if (!tower) return RequestOutput::Failure{"no_images", "the launch has no vision tower"};
  for (const Picture& picture : pictures.items) {
    if (!has_room(picture, layout, *tower, embeddings)) {
      return RequestOutput::Failure{
          "image_too_large",
          fmt::format("an image becomes {} embeddings, and the launch has room for pictures of {}: "
                      "--mm-processor-kwargs of the launch make room for larger ones",
                      picture.tokens(), layout.pictures->largest())};
    }
    for (const PictureRun& run : picture.runs) {
      if (!pictures.two_way || run.count <= layout.limits.batched_tokens) continue;
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
