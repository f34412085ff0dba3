#include "plan/plimsoll/image_room.h"

#include "backend/cpu/cpu_backend.h"
#include "engine/vision/image_fault.h"

namespace plimsoll::plan::own {

ImageRoom::ImageRoom(const model::ModelSpec& spec, engine::EngineLayout layout,
                     std::unique_ptr<backend::Footprint> card)
    : vision_(spec.vision),
      layout_(std::move(layout)),
      card_(std::move(card)),
      backend_(card_ ? *card_ : backend::cpu_footprint()) {
  backend_.use_scratch(scratch_);
  memory::Arena weights = memory::Arena::counting();
  tower_.emplace(spec, layout_.dtype, backend_, weights);
  embeddings_ = {nullptr, backend_.footprint().activation_dtype(layout_.dtype),
                 layout_.images->cache_tokens, spec.hidden_size, spec.hidden_size};
}

std::optional<engine::RequestOutput::Failure> ImageRoom::find_fault(const engine::Images& images) {
  return engine::find_image_fault(images, layout_, tower_, embeddings_);
}

}  // namespace plimsoll::plan::own
