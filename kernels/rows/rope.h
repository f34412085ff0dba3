// Rotary position embedding, the norms of q and k heads, and the writing of the KV cache.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// A RopeTable on the device.
struct RopeFrequencies {
  const float* inverse = nullptr;  // [rotary_dim / 2]
  float scale = 1;
};

/// Ends of the sections of speeds, each of which has its own kind of position (RopeSpec::sections).
struct RopeSections {
  static constexpr int kMost = 3;
  int32_t ends[kMost] = {};
  int32_t count = 0;  // 0: there is one kind
};

/// A RopeSpec on the device.
struct RopeOnDevice {
  RopeFrequencies usual, for_long;  // for_long: none but with longrope
  RopeSections sections{};
};

/// out [T, rotary_dim] f32: cos, then sin of position * inverse frequency, times scale. Sequences
/// with the long flag use the long table where there is one; positions are of several kinds where
/// rope and batch have them; padding rows become zeros.
void rope_angles(const View& out, const RopeOnDevice& rope, const DeviceBatch& batch,
                 cudaStream_t stream);

/// A norm's weight or bias over heads.
struct HeadVector {
  Vector values{};
  int64_t head_stride = 0;  // elements from a head's to the next one's; 0: all heads share it
};

/// qkv [T, (H + 2K) d], in place: clamp, norms and rotation of q and k in the spec's order, growth
/// of q; then k and v of each row into its slot of the cache. Nothing is stored for padding rows.
struct RopeAndStore {
  View qkv;
  View angles{};  // [T, rotary_dim] f32; none: no rotation
  const model::AttentionSpec* spec = nullptr;
  HeadVector q_norm{}, q_bias{};  // used where the spec has the norm
  HeadVector k_norm{}, k_bias{};
  const backend::KvLayer* cache = nullptr;
};
void rope_and_store(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream);
/// Widest head.
inline constexpr int64_t kMaxHeadDim = 256;

}  // namespace plimsoll::kernels
