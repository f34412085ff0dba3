// How one linear layer's or one expert block's weight is stored in device memory, in bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/amount.h"

namespace plimsoll::plan {

enum class WeightFormat : uint8_t {
  plain,        // elements of the model's dtype
  fp8,          // one byte per weight, scales by `Scales`
  int8,         // likewise
  awq,          // int4 packed along the output, zero points and scales by group
  gptq,         // packed along the input, zero points and scales by group, one index per input
  packed,       // compressed-tensors' pack-quantized: scales by group, zero points if asymmetric
  nvfp4,        // 4 bits, an fp8 scale for each group of 16, float32 scales per matrix
  mxfp4,        // 4 bits, an 8-bit exponent for each group of 32
  bitsandbytes  // 4 or 8 bits; its constants are kept outside the parameters
};

enum class Scales : uint8_t { tensor, channel, block };

/// One scheme for one module; what a field means depends on `format`.
struct WeightScheme {
  WeightFormat format = WeightFormat::plain;
  Scales scales = Scales::tensor;
  int64_t bits = 16;
  int64_t group = 0;      // weights sharing a scale; 0: the whole input
  int64_t block_out = 0;  // of Scales::block
  int64_t block_in = 0;
  int64_t scale_bytes = 4;    // of one block scale
  bool static_input = false;  // a float32 activation scale is stored beside each matrix
  bool zero_points = false;
  bool ordered_groups = false;        // gptq's desc_act: every rank holds every group's scale
  bool refine_expert_blocks = false;  // block scales are refined when a rank's slice cuts a block
  bool check_merged = false;          // fused matrices must begin on a block
  bool unused_input = false;  // an activation scale of the model's dtype is loaded and dropped

  [[nodiscard]] bool plain() const { return format == WeightFormat::plain; }
  bool operator==(const WeightScheme&) const = default;
};

/// A weight of one rank. Fused matrices (q, k, v; gate, up) count as one with several widths.
struct MatrixShape {
  Amount inputs;                // of this rank
  Amount full_inputs;           // of all ranks
  std::vector<int64_t> widths;  // outputs of this rank, per fused matrix
  Amount full_outputs;
};

/// Bytes of weight, scales and zero points; without the bias. `element` is the size of the model's
/// dtype. Throws Error(usage) when the scheme cannot be split in this way.
Amount matrix_bytes(const WeightScheme& scheme, const MatrixShape& shape, int64_t element);

/// A rank's share of a layer of routed experts.
struct ExpertShape {
  Amount experts;  // held by this rank
  Amount hidden;
  Amount intermediate;      // of this rank
  int64_t up_matrices = 2;  // 2: gate and up, 1: up alone
  bool bias = false;
  bool split = false;  // the intermediate size is divided over ranks
};

/// Bytes of both expert weights (w13, w2) with scales and biases.
Amount expert_bytes(const WeightScheme& scheme, const ExpertShape& shape, int64_t element);

}  // namespace plimsoll::plan
