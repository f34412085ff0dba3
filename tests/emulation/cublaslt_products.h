// The emulated cuBLASLt's objects, and its products as plain loops.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/products/cublaslt.h"

namespace plimsoll::emulation {

struct LtHandle {};
struct LtDescription {
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
};
struct LtLayout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;
  int32_t batches = 1;
  int64_t batch_step = 0;  // elements
};
struct LtPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256};  // of A, B, C, D
};

/// State of an algorithm, kept in its 64 bytes.
struct LtAlgorithm {
  uint64_t parts = 1;                   // of K
  std::array<uint32_t, 4> alignment{};  // of A, B, C, D
  uint64_t workspace = 0;
  uint64_t moods = 0;  // of kMood...: sums in another order though K is not split
  uint64_t depth = 0;  // of K, between sums of partial ones; 0: all
};
/// Kinds of moods, which change the order of sums, and the rows or columns from which on they show.
inline constexpr uint64_t kMoodByRows = 1, kManyRows = 64;
inline constexpr uint64_t kMoodByColumns = 2, kManyColumns = 200;

/// d = a^T b, as the library sees matrices: columns that lie one after the other.
struct LtOperands {
  LtDescription op;
  LtLayout a, b, d;
  const void* a_data;
  const void* b_data;
  void* d_data;
};

DType dtype(cudaDataType type);
/// Whether an epilogue (cublasLtEpilogue_t) adds a bias.
bool has_bias(uint32_t epilogue);

/// Computes all batches of a product, its sums in the order of the algorithm.
void multiply_all(const LtOperands& x, const LtAlgorithm& algorithm);

}  // namespace plimsoll::emulation
