// One product as it is described to cuBLASLt, and the algorithms chosen for it. For the sources of
// Products alone.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "kernels/products/linear.h"

namespace plimsoll::kernels {

inline cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::f8_e4m3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16BF;
  }
}

/// CUBLASLT_MATMUL_DESC_A_SCALE_MODE and B's.
inline constexpr int kScaleModeA = 31, kScaleModeB = 32;
/// Version of the first cuBLAS that has these modes.
inline constexpr size_t kScalesSince = 120900;

/// Properties of a product on which the choice depends, besides rows.
struct Products::Key {
  int64_t n = 0;  // 0: of any, chosen by kPinnedColumns
  int64_t k = 0;
  DType in = DType::bf16;
  DType out = DType::bf16;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  size_t in_alignment = 0;   // bytes; of weight and in
  size_t out_alignment = 0;  // bytes
  Scaling scaling = Scaling::none;
  bool alike = false;   // each of several ranks has all of it: what they choose must be alike
  bool sliced = false;  // several side by side: Products::run_slices
  bool operator==(const Key&) const = default;
};

struct Products::Algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
};

/// One product's operands.
struct Products::Call {
  const void* weight = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;
  const float* weight_scales = nullptr;
  const float* in_scales = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;        // of the result
  int64_t weight_stride = 0;  // elements
  int64_t in_stride = 0;      // elements
  int64_t out_stride = 0;     // elements
  int64_t slices = 1;         // of a sliced product; their results lie one behind the other
};

/// Column-major, as cuBLASLt reads: D [n, T] = A [k, n]^T * B [k, T].
struct Products::Product {
  Product(const CublasLt& table, const Key& of) : lt(table), key(of) {
    const cudaDataType_t in = data_type(key.in), out = data_type(key.out);
    const auto k = static_cast<uint64_t>(key.k);
    // Float32 products are float32 products: never TF32.
    check(lt.create_description(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue);
    if (key.scaling != Scaling::none) {
      // CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, ..._VEC128_32F, which headers have from 12.9
      // on.
      const int32_t mode = key.scaling == Scaling::outer ? 3 : 4;
      set(static_cast<cublasLtMatmulDescAttributes_t>(kScaleModeA), mode);
      set(static_cast<cublasLtMatmulDescAttributes_t>(kScaleModeB), mode);
    }
    check(lt.create_layout(&a, in, k, 1, key.k), "cublasLtMatrixLayoutCreate");
    check(lt.create_layout(&b, in, k, 1, key.k), "cublasLtMatrixLayoutCreate");
    check(lt.create_layout(&d, out, 1, 1, 1), "cublasLtMatrixLayoutCreate");
  }
  ~Product() {
    lt.destroy_layout(d);
    lt.destroy_layout(b);
    lt.destroy_layout(a);
    lt.destroy_description(description);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(lt.set_description(description, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
  template <typename T>
  void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
    check(lt.set_layout(layout, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute");
  }

  void set_slices(cublasLtMatrixLayout_t layout, int64_t slices, int64_t step) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(slices));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }

  /// Describes a call's operands to the library.
  void describe(const Call& call) {
    columns = call.columns;
    set(a, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(call.columns));
    set(a, CUBLASLT_MATRIX_LAYOUT_LD, call.weight_stride);
    set(d, CUBLASLT_MATRIX_LAYOUT_ROWS, static_cast<uint64_t>(call.columns));
    set(b, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(call.rows));
    set(b, CUBLASLT_MATRIX_LAYOUT_LD, call.in_stride);
    set(d, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(call.rows));
    set(d, CUBLASLT_MATRIX_LAYOUT_LD, call.out_stride);
    if (key.sliced) {
      set_slices(a, call.slices, key.k);
      set_slices(b, call.slices, key.k);
      set_slices(d, call.slices, call.rows * call.out_stride);
    }
    if (call.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
    if (key.scaling == Scaling::none) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.weight_scales);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.in_scales);
  }

  const CublasLt& lt;
  Key key;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  /// Algorithms by bucket: `best` by trials, `first` where nothing was timed yet.
  std::array<std::optional<Algorithm>, kRowBuckets.size()> first, best;
  std::array<bool, kRowBuckets.size()> hopeless{};  // nothing found: do not ask again
  /// `Pinning::single`: algorithms that support all row counts, in the heuristic's order; the first
  /// is run. Only those stay that gave equal bits in a trial (prove).
  std::vector<Algorithm> pinned;
  bool asked = false;   // for them
  bool proven = false;  // the trial was made
  int64_t most_rows = 0;
  int64_t columns = 0;               // of the last call
  std::vector<const void*> weights;  // seen, at most kTimedWeights
  const void* bias = nullptr;        // of the last call
};

}  // namespace plimsoll::kernels
