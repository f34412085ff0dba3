// Decode steps by XQA, TensorRT-LLM's attention kernels for one query row a sequence
// (kernels/attention/xqa_kernel.cuh): what they compute, into how many parts a sequence's keys are
// cut, and what memory that wants. Plain host code, no CUDA.
//
// A thread block reads every parts-th tile of a sequence's keys for all query heads of one KV head.
// Where there are several parts, the last block that is ready merges them: it knows by a counter of
// the sequence and KV head, which is 0 before a launch and after it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/flash_plan.h"

namespace plimsoll::backend::cuda {

inline constexpr int64_t kXqaPage = 16;       // tokens of a KV block
inline constexpr int64_t kXqaTile = 256;      // tokens that a block reads at a time
inline constexpr int64_t kMostXqaGroup = 16;  // query heads of a KV head
/// Sequences of a launch: the third dimension of a grid.
inline constexpr int64_t kMostXqaSequences = 65535;

/// Whether a layer's attention is what the kernels compute: heads of 64, 128 or 256 columns that
/// see all of their past, and nothing else.
bool xqa_computes(const FlashShape& shape);

/// What a launch depends on beside the batch.
struct XqaLimits {
  int64_t sequences = 0;  // B
  int64_t context = 0;    // tokens of the longest sequence
  int64_t blocks = 0;     // thread blocks that a card runs at one time; 0: it takes no XQA
};
/// `capability` 90: 9.0, where two thread blocks share a multiprocessor over a cache of 8 bits with
/// heads of up to 128 columns; all others take more than half of its shared memory (143 KB and more
/// of 227). With fixed splits (FlashLimits) there is no XQA, whose parts depend on the batch.
XqaLimits xqa_limits(const FlashLimits& limits, const FlashShape& shape, DType cache,
                     int32_t capability);

/// Parts of each sequence in a step of so many: as many as fill the card once, and at most one for
/// each tile. It depends on the number of sequences alone, so that a step may be recorded.
///
/// Example: 4 sequences with 8 KV heads on 264 blocks: 8 parts of each, 256 blocks.
int64_t xqa_parts(int64_t sequences, const XqaLimits& limits, const FlashShape& shape);

/// Partial results of a step in bytes, at most: results in 16 bits, their largest scores and sums
/// of weights. Zero where no step has several parts.
size_t xqa_scratch_bytes(const XqaLimits& limits, const FlashShape& shape);
/// Of one part.
constexpr size_t xqa_part_bytes(int64_t head_dim) {
  constexpr size_t kSums = 2 * 32 * sizeof(float);
  return kSums + static_cast<size_t>(kMostXqaGroup * head_dim) * 2;
}
/// Counters, of 32 bits: kv_heads of each sequence.
size_t xqa_counter_bytes(const XqaLimits& limits, const FlashShape& shape);

}  // namespace plimsoll::backend::cuda
