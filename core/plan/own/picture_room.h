// Pictures that a planned launch refuses, by the engine's own rule.
#pragma once

#include <memory>
#include <optional>

#include "backend/counting.h"
#include "engine/layout.h"
#include "engine/request.h"

namespace plimsoll::plan::own {

/// A launch's tower over counting arenas.
class PictureRoom {
 public:
  /// `layout` is the layout of the pipeline's first stage, with pictures; `card` null: sizes of the
  /// host.
  PictureRoom(const model::ModelSpec& spec, engine::EngineLayout layout,
              std::unique_ptr<backend::Footprint> card);

  [[nodiscard]] std::optional<engine::RequestOutput::Failure> find_fault(
      const engine::Pictures& pictures);

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
