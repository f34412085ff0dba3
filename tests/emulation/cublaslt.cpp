// cuBLASLt's part of the emulator: the library's interface over plain loops, strict about what
// the library is strict about (attributes' sizes, alignments that were promised, workspace).
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "cuda_runtime.h"
#include "emulation/card.h"
#include "emulation/cublaslt_products.h"

namespace plimsoll::emulation {
namespace {

/// The heuristic likes other depths of tiles for wide results than for narrow ones, and other ones
/// for long sums: each is honest by itself.
constexpr uint64_t kWideColumns = 300, kLongSum = 96;
static_assert(sizeof(LtAlgorithm) <= sizeof(cublasLtMatmulAlgo_t));

LtAlgorithm unpack(const cublasLtMatmulAlgo_t& from) {
  LtAlgorithm algorithm;
  std::memcpy(&algorithm, from.data, sizeof algorithm);
  return algorithm;
}

template <typename T>
cublasStatus_t copy(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof to);
  return CUBLAS_STATUS_SUCCESS;
}

/// Float8 is for 8.9 and later, scales of rows and groups for 9.0 alone; both matrices have scales
/// of one kind, and all sizes but the rows' are multiples of 16 bytes.
bool valid_scales(const LtDescription& op, const LtLayout& a, const LtLayout& b,
                  const LtLayout& d) {
  const bool plain = op.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (op.a_mode != op.b_mode) return false;
  if (a.type != CUDA_R_8F_E4M3) return plain;
  if (card.capability < 89 || (!plain && card.capability / 10 != 9)) return false;
  const auto whole = [](auto bytes) { return bytes % 16 == 0; };
  const auto d_step = d.leading * static_cast<int64_t>(dtype_size(dtype(d.type)));
  return whole(a.rows) && whole(a.columns) && whole(a.leading) && whole(b.leading) &&
         whole(d_step) && d.type != CUDA_R_8F_E4M3;
}

bool valid(const LtDescription& op, const LtLayout& a, const LtLayout& b, const LtLayout& d) {
  const bool fp8 = a.type == CUDA_R_8F_E4M3;
  return valid_scales(op, a, b, d) && op.transpose_a == CUBLAS_OP_T &&
         op.transpose_b == CUBLAS_OP_N && a.rows == b.rows && a.columns == d.rows &&
         b.columns == d.columns && a.type == b.type &&
         (fp8 || d.type == a.type || d.type == CUDA_R_32F) && a.batches == b.batches &&
         a.batches == d.batches && a.batches >= 1 && a.leading >= static_cast<int64_t>(a.rows) &&
         b.leading >= static_cast<int64_t>(b.rows) && d.leading >= static_cast<int64_t>(d.rows);
}

bool aligned(const void* pointer, uint64_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % to == 0;
}

}  // namespace
}  // namespace plimsoll::emulation

using namespace plimsoll::emulation;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new LtHandle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() {
  return 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                        cudaDataType_t) {
  *description = new LtDescription;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return copy(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return copy(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return copy(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return copy(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return copy(description->a_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return copy(description->b_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return copy(description->a_scales, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return copy(description->b_scales, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new LtLayout{.type = type, .rows = rows, .columns = columns, .leading = leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return copy(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return copy(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return copy(layout->columns, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return copy(layout->leading, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return copy(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return copy(layout->batch_step, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new LtPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return copy(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return copy(preference->reductions, value, bytes);
    default:
      return copy(preference->alignment[static_cast<size_t>(
                      attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)],
                  value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  if (!valid(*description, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  // Few rows: K in two parts before K in one, if that is allowed and there is room for the parts.
  const uint64_t parts_bytes = 2 * d->rows * d->columns * sizeof(float);
  const bool split = (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0 &&
                     b->columns < 64 && parts_bytes <= preference->workspace;
  // Algorithms whose order depends on rows and columns are offered before the honest ones where a
  // split is not allowed.
  const bool none = preference->reductions == CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint64_t depth = (d->rows >= kWideColumns ? 0 : 8) + (a->rows >= kLongSum ? 16 : 0);
  std::vector<LtAlgorithm> offered;
  if (none) offered = {{.moods = kMoodByRows}, {.moods = kMoodByColumns}};
  if (split) offered = {{.parts = 2, .workspace = parts_bytes}};
  offered.push_back({.depth = none ? depth : 0});
  for (LtAlgorithm& algorithm : offered) {
    if (*count == wanted) break;
    algorithm.alignment = preference->alignment;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    std::memcpy(result.algo.data, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!valid(*description, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  result->algo = *algorithm;
  result->workspaceSize =
      unpack(*algorithm).parts == 1 ? 0 : 2 * d->rows * d->columns * sizeof(float);
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (!valid(*description, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  const LtAlgorithm chosen = unpack(*algorithm);
  const uint64_t parts_bytes =
      chosen.parts == 1 ? 0 : 2 * d_layout->rows * d_layout->columns * sizeof(float);
  if (parts_bytes > workspace_bytes || (parts_bytes > 0 && workspace == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto promised = [&](const void* address, const LtLayout& layout, size_t operand) {
    const auto step =
        static_cast<uint64_t>(layout.leading) * plimsoll::dtype_size(dtype(layout.type));
    const uint64_t to = chosen.alignment[operand];
    const auto batch_step =
        static_cast<uint64_t>(layout.batch_step) * plimsoll::dtype_size(dtype(layout.type));
    const bool batches_lie = layout.batches == 1 || batch_step % to == 0;
    if (aligned(address, to) && (layout.columns == 1 || step % to == 0) && batches_lie) return;
    plimsoll::fail(plimsoll::ExitCode::bug, "a product was promised an alignment of {}", to);
  };
  promised(a, *a_layout, 0);
  promised(b, *b_layout, 1);
  promised(c, *d_layout, 2);
  promised(d, *d_layout, 3);
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 ||
      (has_bias(description->epilogue) && description->bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool scaled = description->a_mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (scaled && (description->a_scales == nullptr || description->b_scales == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (a_layout->type == CUDA_R_8F_E4M3 && !(aligned(a, 16) && aligned(b, 16) && aligned(d, 16))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const LtOperands operands{*description, *a_layout, *b_layout, *d_layout, a, b, d};
  ++plimsoll::emulation::launches;
  submit(stream, [operands, chosen] { multiply_all(operands, chosen); });
  return CUBLAS_STATUS_SUCCESS;
}

namespace plimsoll::kernels {

const CublasLt& cublaslt() {
  static const CublasLt table{.create = cublasLtCreate,
                              .destroy = cublasLtDestroy,
                              .matmul = cublasLtMatmul,
                              .get_heuristic = cublasLtMatmulAlgoGetHeuristic,
                              .check_algorithm = cublasLtMatmulAlgoCheck,
                              .create_description = cublasLtMatmulDescCreate,
                              .destroy_description = cublasLtMatmulDescDestroy,
                              .set_description = cublasLtMatmulDescSetAttribute,
                              .create_layout = cublasLtMatrixLayoutCreate,
                              .destroy_layout = cublasLtMatrixLayoutDestroy,
                              .set_layout = cublasLtMatrixLayoutSetAttribute,
                              .create_preference = cublasLtMatmulPreferenceCreate,
                              .destroy_preference = cublasLtMatmulPreferenceDestroy,
                              .set_preference = cublasLtMatmulPreferenceSetAttribute,
                              .version = cublasLtGetVersion()};
  return table;
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ExitCode::device_lost, "{}: cuBLAS status {}", call, static_cast<int>(status));
}

}  // namespace plimsoll::kernels
