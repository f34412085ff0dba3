// Products of many rows with float8 weights on tensor cores that multiply float8: rows become codes
// and scales, weights are unpacked some outputs at a time, and cuBLASLt multiplies both. Products
// for which the packed kernel is better keep it: each product is tried both ways before the seal,
// by its numbers and by the clock.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "backend/cuda/fp8_product.h"
#include "kernels/products/linear.h"
#include "kernels/products/packed/inputs.h"

namespace plimsoll::kernels {

/// out [T, n] of in [T, k], of 16 bits both or out float32, with one part that
/// backend::cuda::multiplies_fp8().
struct Fp8Linear {
  View out;
  View in;
  PackedPart part;
  Vector bias{};
  model::Activation activation = model::Activation::none;
  SharedMost shared{};
  std::byte* workspace = nullptr;  // Fp8Product::bytes, aligned to 256
  size_t weight_bytes = backend::cuda::kFp8WeightBytes;
};

class Fp8Products {
 public:
  Fp8Products(Products& products, cudaStream_t stream) : products_(products), stream_(stream) {}

  /// Runs the product if it was tried and is better for this number of rows. False: nothing was
  /// done.
  [[nodiscard]] bool run(const Fp8Linear& op);
  /// Runs the product in any case. False: cuBLASLt does not support it; `out` is undefined.
  [[nodiscard]] bool multiply(const Fp8Linear& op) const;
  /// Tries the products that run() was asked for and that have not been tried, in `scratch` (device
  /// memory, idle).
  void tune(std::span<std::byte> scratch);

 private:
  struct Known {
    int64_t n = 0, k = 0;
    model::InputRounding inputs = model::InputRounding::none;
    DType in = DType::bf16, out = DType::bf16;
    bool biased = false;
    Fp8Linear first;  // the first op of these sizes
    int64_t most_rows = 0;
    bool tried = false;
    int64_t from_rows = std::numeric_limits<int64_t>::max();  // rows from which fp8 is faster
    [[nodiscard]] bool is(const Fp8Linear& op) const;
  };
  class Trial;

  Known& find(const Fp8Linear& op);
  void try_both(Known& known, std::span<std::byte> scratch);

  Products& products_;
  cudaStream_t stream_;
  Event start_{Event::Timing::on}, end_{Event::Timing::on};
  std::vector<Known> known_;
};

}  // namespace plimsoll::kernels
