// Tokens drawn where the logits are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/batch_meta.h"
#include "backend/footprint.h"
#include "backend/operands.h"
#include "backend/ops/op.h"

namespace plimsoll::backend::ops {

/// Changes logits [rows, vocab] f32 by batch.drawing's entries [first, first + rows), draws tokens
/// from them and writes the tokens to those entries of batch.drawn_on_device. Only where
/// Footprint::draws, and after Embed.
struct Draw {
  static constexpr const char* kName = "draw";
  Ref<BatchMeta> batch;
  View logits;
  int64_t first = 0;
  void check() const;
  [[nodiscard]] size_t workspace(const Footprint& footprint) const;
  [[nodiscard]] View written() const { return logits; }
};

}  // namespace plimsoll::backend::ops
