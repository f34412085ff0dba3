// Arguments of a kernel of packed products, and its units: one for each kind of code, so that they
// compile side by side.
#pragma once

#include "kernels/products/packed/packed.h"
#include "kernels/rows/block_scales.h"

namespace plimsoll::kernels {

struct PackedParameters {
  View out;
  View in;
  const std::byte* data = nullptr;
  int64_t matrix_bytes = 0;
  backend::cuda::PackedMatrix layout;
  model::Packing packing;
  BlockShape blocks{};    // only with ScaleType::blocks
  bool wide = false;      // four inputs of a row may be loaded at once
  uint32_t counting = 0;  // CodeConstants
  Vector bias{};
  model::Activation activation = model::Activation::none;
  // Tiles of experts; null: all rows belong to the one matrix.
  const int2* tiles = nullptr;
  const int32_t* starts = nullptr;
  const int32_t* order = nullptr;
  int64_t slots_per_row = 0;
  int64_t tile_rows = 0;
};

/// The kernels of a kind of code. `blocks`: tiles of experts.
template <typename Codes>
struct PackedKernels {
  static void launch(const PackedParameters& parameters, bool many, int64_t blocks,
                     cudaStream_t stream);
  static void load(DType in);
};

template <int kBits>
struct IntegerCodes;
struct E4m3Codes;
struct TableCodes;
template <int kBits>
struct MinimumCodes;
extern template struct PackedKernels<IntegerCodes<2>>;
extern template struct PackedKernels<IntegerCodes<3>>;
extern template struct PackedKernels<IntegerCodes<4>>;
extern template struct PackedKernels<IntegerCodes<8>>;
extern template struct PackedKernels<E4m3Codes>;
extern template struct PackedKernels<TableCodes>;
extern template struct PackedKernels<IntegerCodes<5>>;
extern template struct PackedKernels<IntegerCodes<6>>;
extern template struct PackedKernels<MinimumCodes<2>>;
extern template struct PackedKernels<MinimumCodes<4>>;
extern template struct PackedKernels<MinimumCodes<5>>;

}  // namespace plimsoll::kernels
