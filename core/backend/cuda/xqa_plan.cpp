#include "backend/cuda/xqa_plan.h"

#include <algorithm>

#include "base/rounding.h"

namespace plimsoll::backend::cuda {

bool xqa_computes(const FlashShape& shape) {
  return shape.hopper && shape.window == 0 && shape.group() <= kMostXqaGroup;
}

XqaLimits xqa_limits(const FlashLimits& limits, const FlashShape& shape, DType cache,
                     int32_t capability) {
  if (limits.fixed_split > 0 || limits.cuts == FlashLimits::Cuts::never || !xqa_computes(shape) ||
      limits.sequences > kMostXqaSequences)
    return {};
  const bool shares = capability >= 90 && shape.head_dim <= 128 && dtype_size(cache) == 1;
  const int64_t blocks = shares ? 2 : 1;
  return {limits.sequences, limits.context, blocks * limits.multiprocessors};
}

int64_t xqa_parts(int64_t sequences, const XqaLimits& limits, const FlashShape& shape) {
  const int64_t fill = limits.blocks / (sequences * shape.kv_heads);
  return std::max<int64_t>(1, std::min(fill, divide_up(limits.context, kXqaTile)));
}

size_t xqa_scratch_bytes(const XqaLimits& limits, const FlashShape& shape) {
  if (limits.blocks < 2 * shape.kv_heads) return 0;
  return static_cast<size_t>(limits.blocks) * xqa_part_bytes(shape.head_dim);
}

size_t xqa_counter_bytes(const XqaLimits& limits, const FlashShape& shape) {
  if (limits.blocks == 0) return 0;
  return static_cast<size_t>(limits.sequences * shape.kv_heads) * sizeof(uint32_t);
}

}  // namespace plimsoll::backend::cuda
