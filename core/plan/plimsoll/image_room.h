// Images that a planned launch refuses, by the engine's own rule.
#pragma once

#include <memory>
#include <optional>

#include "backend/counting.h"
#include "engine/layout.h"
#include "engine/request.h"

namespace plimsoll::plan::own {

/// A launch's tower over counting arenas.
class ImageRoom {
 public:
  /// `layout` is the layout of the pipeline's first stage, with images; `card` null: sizes of the
  /// host.
  ImageRoom(const model::ModelSpec& spec, engine::EngineLayout layout,
            std::unique_ptr<backend::Footprint> card);

  [[nodiscard]] std::optional<engine::RequestOutput::Failure> find_fault(
      const engine::Images& images);

 private:
  std::shared_ptr<const model::VisionSpec> vision_;  // the tower's
  engine::EngineLayout layout_;
  std::unique_ptr<backend::Footprint> card_;
  backend::CountingBackend backend_;
  memory::Arena scratch_ = memory::Arena::counting();
  std::optional<engine::VisionTower> tower_;
  backend::View embeddings_;
};

}  // namespace plimsoll::plan::own
