// Layout of a stage's tensors in files: parts, headers, order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shard/layout.h"

namespace plimsoll::shard {

/// One file of every rank of a stage: names, shapes and so headers are equal on all of them.
struct PartPlan {
  std::vector<const ShardTensor*> tensors;  // in the order of their bytes
  std::string header = {};                  // 8 bytes of length, JSON, padding to a multiple of 8
  int64_t data_bytes = 0;

  [[nodiscard]] int64_t bytes() const { return static_cast<int64_t>(header.size()) + data_bytes; }
};

/// Fills parts in walk order as vLLM's save_model does: a part is closed when the next tensor would
/// exceed `max_bytes` of payload, so an oversized first tensor leaves an empty part before it.
std::vector<PartPlan> plan_parts(const Stage& stage, std::optional<int64_t> max_bytes);

/// A safetensors header as the safetensors crate writes it, without metadata.
std::string safetensors_header(const std::vector<const ShardTensor*>& tensors);

}  // namespace plimsoll::shard
