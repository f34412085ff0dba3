// Scales and zero points of a block's outputs, as floats in shared memory: loaded for a span of
// inputs at a time and converted from any type, so that products do not depend on types.
#pragma once

#include "kernels/products/packed/kernels.h"
#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {

/// Chunks of a span; a multiple of the warps that share a strip.
inline constexpr int64_t kSpanChunks = 32;
inline constexpr int64_t kSpanSteps =
    kSpanChunks * backend::cuda::kChunkInputs / backend::cuda::kStepInputs;

__device__ inline int64_t chunks_of(const backend::cuda::PackedMatrix& layout) {
  constexpr int64_t kSteps = backend::cuda::kChunkInputs / backend::cuda::kStepInputs;
  return (layout.steps + kSteps - 1) / kSteps;
}
__device__ inline int64_t last_strip(const backend::cuda::PackedMatrix& layout) {
  return (layout.rows - 1) / backend::cuda::kStripRows;
}

/// A scale that is a number by itself.
__device__ inline float plain_scale(const std::byte* scales, int64_t i, model::ScaleType type) {
  switch (type) {
    case model::ScaleType::f16:
      return __half2float(reinterpret_cast<const __half*>(scales)[i]);
    case model::ScaleType::bf16:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(scales)[i]);
    case model::ScaleType::e4m3:
      return to_float(reinterpret_cast<const __nv_fp8_e4m3*>(scales)[i]);
    case model::ScaleType::e8m0: {
      const uint32_t exponent = reinterpret_cast<const uint8_t*>(scales)[i];
      // 2^-127 is no normal float.
      return __uint_as_float(exponent == 0 ? 1u << 22 : exponent << 23);
    }
    default:
      return reinterpret_cast<const float*>(scales)[i];
  }
}

/// Scale of output `row` and group `group`, whose byte lies at `i` (model::NestedScales).
__device__ inline float nested_scale(const PackedParameters& p, const std::byte* matrix, int64_t i,
                                     int64_t row, int64_t group) {
  const auto* numbers = reinterpret_cast<const float*>(matrix + p.layout.nested);
  const auto* place = reinterpret_cast<const backend::cuda::NestedPlace*>(numbers + 256);
  const auto* absmax = reinterpret_cast<const float*>(place + 1);
  const auto code = static_cast<uint8_t>((matrix + p.layout.scales)[i]);
  const int64_t number = place->first + min(row, p.layout.rows - 1) * place->stride + group;
  const int64_t block = min(number / p.packing.absmax_share(), p.layout.nested_blocks - 1);
  return numbers[code] * absmax[block] + place->offset;
}

/// [strips][groups of the span][16] floats, then as many zero points or minimums.
struct StagedScales {
  float* scales;
  uint32_t* zeros;  // as Codes' readers take them; the bits of minimums
  int first_group;  // of the span
  int groups;
  uint32_t same_zero = 0;
  bool has_zeros;

  __device__ StagedScales(const PackedParameters& p, int64_t first_chunk, int strips, float* shared)
      : scales(shared), has_zeros(p.packing.zeros) {
    const int64_t first = first_chunk * (kSpanSteps / kSpanChunks);
    const int64_t end = min(p.layout.steps, first + kSpanSteps);
    const int64_t steps = p.layout.group_steps > 0 ? p.layout.group_steps : p.layout.steps;
    first_group = static_cast<int>(first / steps);
    groups = static_cast<int>((end - 1) / steps - first_group) + 1;
    zeros = reinterpret_cast<uint32_t*>(scales + strips * groups * backend::cuda::kStripRows);
  }
  /// Selects a warp's strip; `same`: the zero point where groups have none.
  __device__ void choose(int strip, uint32_t same) {
    scales += strip * groups * backend::cuda::kStripRows;
    zeros += strip * groups * backend::cuda::kStripRows;
    same_zero = same;
  }
  /// Scale of the lane's row `half`: row g or g + 8.
  __device__ float scale(int group, int half) const { return scales[place(group, half)]; }
  __device__ uint32_t zero(int group, int half) const {
    return has_zeros ? zeros[place(group, half)] : same_zero;
  }
  __device__ float minimum(int group, int half) const {
    return __uint_as_float(zeros[place(group, half)]);
  }

  static size_t bytes(const PackedParameters& p, int strips) {
    const int64_t steps = p.layout.group_steps > 0 ? p.layout.group_steps : p.layout.steps;
    const int64_t most = std::min(p.layout.groups, kSpanSteps / steps + 2);
    return static_cast<size_t>(strips * most * backend::cuda::kStripRows) * sizeof(float) *
           (p.packing.zeros || p.packing.has_minimums() ? 2 : 1);
  }

 private:
  __device__ static int place(int group, int half) {
    return group * static_cast<int>(backend::cuda::kStripRows) + half * 8 +
           static_cast<int>(threadIdx.x % 32 / 4);
  }
};

/// Fills `staged`, by all threads of the block.
template <typename Reader, typename Codes>
__device__ void stage_scales(const PackedParameters& p, const std::byte* matrix,
                             const StagedScales& staged, int strips) {
  constexpr int kRows = static_cast<int>(backend::cuda::kStripRows);
  const int each = staged.groups * kRows;
  for (int i = static_cast<int>(threadIdx.x); i < strips * each;
       i += static_cast<int>(blockDim.x)) {
    const int64_t strip = min(int64_t{blockIdx.x} * strips + i / each, last_strip(p.layout));
    const int64_t group = int64_t{staged.first_group} + i % each / kRows;
    if (Codes::kHasMinimums || p.packing.scale == model::ScaleType::blocks) {
      const std::byte* const own = matrix + p.layout.scales + strip * p.layout.strip_scales;
      const GgmlScale<float> both = scale_of_block(own, p.blocks, group, i % kRows);
      staged.scales[i] = both.scale;
      if (Codes::kHasMinimums) staged.zeros[i] = __float_as_uint(both.minimum);
      continue;
    }
    const int64_t of_strip = (p.layout.groups * strip + group) * kRows + i % kRows;
    staged.scales[i] = p.packing.scale == model::ScaleType::nested
                           ? nested_scale(p, matrix, of_strip, strip * kRows + i % kRows, group)
                           : plain_scale(matrix + p.layout.scales, of_strip, p.packing.scale);
    if (!Codes::kHasZeros || !p.packing.zeros) continue;
    const auto point = static_cast<uint8_t>((matrix + p.layout.zeros)[of_strip]);
    staged.zeros[i] = Reader::zero(static_cast<int>(p.packing.zero) + point);
  }
}

/// Group of a step.
struct StepGroups {
  int steps;      // of a group
  float inverse;  // of steps: a division for each chunk would cost more than its products

  __device__ explicit StepGroups(const backend::cuda::PackedMatrix& layout)
      : steps(static_cast<int>(layout.group_steps > 0 ? layout.group_steps : layout.steps)),
        inverse(1.f / static_cast<float>(steps)) {}
  /// Exact below 2^21 steps: the half keeps the quotient from whole numbers by more than two
  /// roundings.
  __device__ int of(int step) const {
    return static_cast<int>((static_cast<float>(step) + 0.5f) * inverse);
  }
};

/// The groups of successive steps, counted from the first of the span.
struct GroupWalk {
  int local;

  __device__ GroupWalk(const StepGroups& groups, const StagedScales& scales, int step)
      : steps_(groups.steps) {
    const int group = groups.of(step);
    local = group - scales.first_group;
    left_ = (group + 1) * steps_ - step;
  }
  /// Passes `steps` steps, up to the last group of the span: a chunk may have more steps than there
  /// are inputs for.
  __device__ void pass(int steps, const StagedScales& scales) {
    left_ -= steps;
    if (left_ > 0) return;
    local = min(local + 1, scales.groups - 1);
    left_ = steps_;
  }

 private:
  int steps_, left_;
};

}  // namespace plimsoll::kernels
