// The compiled attention kernels as a table: what each covers, and how it is launched. Plain C++;
// the kernels are in flash_kernel.cuh, one translation unit per row of the table.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "backend/cuda/flash_plan.h"
#include "base/dtype.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Value of masked scores, and start of running maxima, both negated. Its product with a scale
/// stays finite. It is a power of two, so that its product with any scale is exact: a multiply-add
/// that takes the product of a masked score from that of a masked maximum gives 0, where a rounded
/// product would leave up to 2^-24 of it, whose exponential is infinite. That occurs in rows whose
/// warp has only masked keys.
inline constexpr float kMaskedScore = 0x1p100f;

/// How far rows see. All but `own_past` take general units.
enum class FlashSight : uint8_t {
  own_past,  // up to themselves
  by_row,    // BatchMeta::seen_end
  all,       // all of their sequence: an image encoder's segments
};

/// Device pointers and numbers of one launch. Strides in elements. Arrays of items start at the
/// launch's first item.
struct FlashArguments {
  const void* q = nullptr;  // [T, heads, head_dim] in rows of q_stride
  int64_t q_stride = 0;
  const void* k = nullptr;  // block 0 of the layer: [kv_heads, block_size, head_dim]
  const void* v = nullptr;
  int64_t block_stride = 0;
  int64_t block_size = 16;
  const int32_t* block_table = nullptr;     // [B, stride], rows where page_start says
  const int32_t* page_start = nullptr;      // [B + 1]
  const int32_t* query_start = nullptr;     // [B + 1]
  const int32_t* context_length = nullptr;  // [B]
  int64_t sequences = 0;                    // B

  const int32_t* chunk_tokens = nullptr;
  const int32_t* item_sequence = nullptr;
  const int32_t* item_tile = nullptr;
  const int32_t* item_chunk = nullptr;
  const bool* item_valid = nullptr;
  const int32_t* output_start = nullptr;  // [B] partial rows; of a direct launch query_start

  void* out = nullptr;   // direct: [T, heads, head_dim] in the activations' type; split: [rows,
                         // heads, head_dim] f32
  float* lse = nullptr;  // split: [rows, heads], base 2
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window_left = -1;  // positions before a row's own that it sees; -1: all
  float soft_cap = 0;        // 0: none
  float scale = 1;           // of q.k, with the scale of stored keys
  float v_scale = 1;         // of stored values
  FlashSight sight = FlashSight::own_past;
  const int32_t* seen_end = nullptr;  // [T] of by_row
};

/// Shared memory of a multiprocessor: 160 KiB and more (sm_80, sm_90, sm_100), or less (sm_86,
/// sm_89, sm_120), which takes smaller KV tiles.
enum class FlashMemory : uint8_t { large, small };

/// Kernels of one combination of types and sizes.
struct FlashUnit {
  DType activation = DType::bf16;
  DType kv = DType::bf16;
  int64_t head_dim = 0;  // of the tiles
  /// Any head size up to head_dim (whole 16-byte pieces), windows and soft caps; else exactly
  /// head_dim, without those.
  bool general = false;
  /// Loads the kernels of all kinds for `memory` and raises their limit of shared memory. Once per
  /// device, before the first launch.
  cudaError_t (*prepare)(FlashMemory memory) = nullptr;
  /// Throws Error when the runtime refuses.
  void (*launch)(FlashKind kind, FlashMemory memory, const FlashArguments& arguments, int64_t items,
                 cudaStream_t stream) = nullptr;
};

/// All units of this build; none without FlashInfer.
std::span<const FlashUnit> flash_units();

}  // namespace plimsoll::kernels
