// Decode attention by XQA: which kernel a layer has, and the launch.
#pragma once

#include <cstdint>

#include "kernels/attention/flash_attention.h"
#include "kernels/attention/xqa_kernel.h"

namespace plimsoll::kernels {

/// That for a size of heads and types of activations and cache, or nothing.
const XqaUnit* find_xqa_unit(int64_t head_dim, DType activation, DType kv);

/// Whether the blocks of a layer are pages as the kernels count them: 16 tokens, whole rows of
/// head_dim elements apart.
bool xqa_covers(const PagedLayer& layer, const model::AttentionSpec& spec, DType kv);

/// What XQA wants beside a layer.
struct XqaCall {
  const XqaUnit* unit = nullptr;
  int64_t sequences = 0;  // B, of one row each
  int64_t table_stride = 0;
  int64_t parts = 1;  // xqa_parts
  float k_scale = 1, v_scale = 1;
  uint32_t* counters = nullptr;  // XqaArguments
  std::byte* scratch = nullptr;
};

/// Enqueues the launch.
void xqa_attention(const PagedLayer& layer, const XqaCall& call, const model::AttentionSpec& spec,
                   cudaStream_t stream);

}  // namespace plimsoll::kernels
