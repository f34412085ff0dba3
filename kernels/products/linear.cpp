#include "kernels/products/linear.h"

#include <algorithm>
#include <limits>

#include "kernels/runtime/cuda_error.h"
#include "memory/arena.h"

namespace plimsoll::kernels {

using backend::View;
using model::Activation;

namespace {

constexpr int kCandidates = 8;  // asked of the heuristic
constexpr size_t kTimed = 4;    // of them
constexpr size_t kWeights = 8;  // of one shape, taken in turn so that no cache holds them
constexpr int kRounds = 4;      // launches that are timed

/// Rows for which `Pinning::single` asks the heuristic; few rows pay a little for it.
constexpr int64_t kPinnedRows = 256;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    default:
      return CUDA_R_16BF;
  }
}

bool has_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// cuBLASLt's GELU is the tanh form.
bool in_epilogue(Activation activation) {
  return activation == Activation::none || activation == Activation::relu ||
         activation == Activation::gelu_tanh;
}

cublasLtEpilogue_t epilogue_of(bool bias, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu_tanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

View rows_of(const backend::Weight& weight) {
  const int64_t k = weight.spec->columns();
  return {weight.data, weight.dtype, weight.spec->rows(), k, k};
}

}  // namespace

size_t row_bucket(int64_t rows) {
  const auto found = std::lower_bound(kRowBuckets.begin(), kRowBuckets.end(), rows);
  return std::min(static_cast<size_t>(found - kRowBuckets.begin()), kRowBuckets.size() - 1);
}

size_t common_alignment(const View& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  const auto step = static_cast<uintptr_t>(view.stride) * dtype_size(view.dtype);
  size_t alignment = 256;
  while ((address | step) % alignment != 0) alignment /= 2;
  return alignment;
}

/// What a choice depends on, besides rows.
struct Products::Key {
  int64_t n = 0;
  int64_t k = 0;
  DType in = DType::bf16;
  DType out = DType::bf16;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  size_t in_alignment = 0;   // bytes; of weight and in
  size_t out_alignment = 0;  // bytes
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
  int64_t rows = 0;
  int64_t in_stride = 0;   // elements
  int64_t out_stride = 0;  // elements
};

/// Column-major, as cuBLASLt reads: D [n, T] = A [k, n]^T * B [k, T].
struct Products::Product {
  Product(const CublasLt& table, const Key& of) : lt(table), key(of) {
    const cudaDataType_t in = data_type(key.in), out = data_type(key.out);
    const auto n = static_cast<uint64_t>(key.n), k = static_cast<uint64_t>(key.k);
    // Float32 products are float32 products: never TF32.
    check(lt.create_description(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue);
    check(lt.create_layout(&a, in, k, n, key.k), "cublasLtMatrixLayoutCreate");
    check(lt.create_layout(&b, in, k, 1, key.k), "cublasLtMatrixLayoutCreate");
    check(lt.create_layout(&d, out, n, 1, key.n), "cublasLtMatrixLayoutCreate");
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

  /// Describes a call's operands to the library.
  void describe(const Call& call) {
    set(b, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(call.rows));
    set(b, CUBLASLT_MATRIX_LAYOUT_LD, call.in_stride);
    set(d, CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<uint64_t>(call.rows));
    set(d, CUBLASLT_MATRIX_LAYOUT_LD, call.out_stride);
    if (call.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
  }

  const CublasLt& lt;
  Key key;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  /// By bucket; the first where nothing was timed yet.
  std::array<std::optional<Algorithm>, kRowBuckets.size()> first, best;
  std::array<bool, kRowBuckets.size()> hopeless{};  // nothing found: do not ask again
  std::optional<Algorithm> pinned;
  bool unpinnable = false;
  int64_t most_rows = 0;
  std::vector<const void*> weights;  // seen, at most kWeights
  const void* bias = nullptr;        // of the last call
};

Products::Products(Pinning pinning, cudaStream_t stream)
    : lt_(cublaslt()), pinning_(pinning), stream_(stream) {
  check(lt_.create(&handle_), "cublasLtCreate");
}

Products::~Products() {
  products_.clear();
  lt_.destroy(handle_);
}

void Products::use_workspace(std::byte* memory, size_t bytes) {
  workspace_ = memory;
  workspace_bytes_ = bytes;
}

Products::Product& Products::find(const Key& key) {
  for (const auto& product : products_) {
    if (product->key == key) return *product;
  }
  return *products_.emplace_back(std::make_unique<Product>(lt_, key));
}

std::optional<Fused> Products::run(const View& out, const View& in, const backend::Weight& weight,
                                   const backend::Weight& bias, Activation activation) {
  const bool out_fits = out.dtype == in.dtype || out.dtype == DType::f32;
  if (in.dtype != weight.dtype || !out_fits || !has_type(in.dtype)) return std::nullopt;
  Fused fused;
  fused.bias = bias && bias.dtype == out.dtype;
  fused.activation = in_epilogue(activation) && (fused.bias || !bias);
  const Key key{
      .n = weight.spec->rows(),
      .k = weight.spec->columns(),
      .in = in.dtype,
      .out = out.dtype,
      .epilogue = epilogue_of(fused.bias, fused.activation ? activation : Activation::none),
      .in_alignment = std::min(common_alignment(in), common_alignment(rows_of(weight))),
      .out_alignment = common_alignment(out)};
  Product& product = find(key);
  const Call call{.weight = weight.data,
                  .in = in.data,
                  .out = out.data,
                  .bias = fused.bias ? bias.data : nullptr,
                  .rows = in.rows,
                  .in_stride = in.stride,
                  .out_stride = out.stride};
  const Algorithm* algorithm = look_up(product, call);
  if (algorithm == nullptr) return std::nullopt;
  const cublasStatus_t status = launch(product, *algorithm, call);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    return std::nullopt;  // refused before anything was launched
  }
  check(status, "cublasLtMatmul");
  return fused;
}

const Products::Algorithm* Products::look_up(Product& product, const Call& call) {
  product.most_rows = std::max(product.most_rows, call.rows);
  product.bias = call.bias;
  if (!sealed_ && product.weights.size() < kWeights &&
      std::ranges::find(product.weights, call.weight) == product.weights.end()) {
    product.weights.push_back(call.weight);
  }
  if (pinning_ == Pinning::single) return pin(product, call);
  const size_t bucket = row_bucket(call.rows);
  if (product.best[bucket]) return &*product.best[bucket];
  if (product.first[bucket]) return &*product.first[bucket];
  if (sealed_ || product.hopeless[bucket]) return nullptr;
  for (const Algorithm& candidate : candidates(product, call)) {
    if (!works(product, candidate, call, call.rows)) continue;
    product.first[bucket] = candidate;
    return &*product.first[bucket];
  }
  product.hopeless[bucket] = true;
  return nullptr;
}

// One algorithm that does every row count from one to the largest bucket.
const Products::Algorithm* Products::pin(Product& product, const Call& call) {
  if (product.pinned) return &*product.pinned;
  if (sealed_ || product.unpinnable) return nullptr;
  Call usual = call;
  usual.rows = kPinnedRows;
  for (const Algorithm& candidate : candidates(product, usual)) {
    const auto does = [&](int64_t rows) { return works(product, candidate, call, rows); };
    const bool odd_ones = does(1) && does(2) && does(3) && does(7) && does(kPinnedRows - 1);
    if (!odd_ones || !std::ranges::all_of(kRowBuckets, does)) continue;
    product.pinned = candidate;
    return &*product.pinned;
  }
  product.unpinnable = true;
  return nullptr;
}

std::vector<Products::Algorithm> Products::candidates(Product& product, const Call& call) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt_.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(lt_.set_preference(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes_));
  // Parts of a split K are summed in float32 and in a fixed order, or K is not split.
  const uint32_t reductions = pinning_ == Pinning::single ? CUBLASLT_REDUCTION_SCHEME_NONE
                                                          : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  const auto in_alignment = static_cast<uint32_t>(product.key.in_alignment);
  const auto out_alignment = static_cast<uint32_t>(product.key.out_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, in_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, in_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment);
  product.describe(call);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  const cublasStatus_t status =
      lt_.get_heuristic(handle_, product.description, product.a, product.b, product.d, product.d,
                        preference, kCandidates, results.data(), &count);
  lt_.destroy_preference(preference);
  std::vector<Algorithm> found;
  if (status != CUBLAS_STATUS_SUCCESS) return found;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_bytes_) continue;
    found.push_back({result.algo, result.workspaceSize});
  }
  return found;
}

bool Products::works(Product& product, const Algorithm& algorithm, Call call, int64_t rows) const {
  call.rows = rows;
  product.describe(call);
  cublasLtMatmulHeuristicResult_t result{};
  return lt_.check_algorithm(handle_, product.description, product.a, product.b, product.d,
                             product.d, &algorithm.algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_bytes_;
}

cublasStatus_t Products::launch(Product& product, const Algorithm& algorithm,
                                const Call& call) const {
  constexpr float kOne = 1, kZero = 0;
  product.describe(call);
  return lt_.matmul(handle_, product.description, &kOne, call.weight, product.a, call.in, product.b,
                    &kZero, call.out, product.d, call.out, product.d, &algorithm.algorithm,
                    workspace_, workspace_bytes_, stream_);
}

void Products::tune(std::span<std::byte> scratch, int64_t rows) {
  if (pinning_ == Pinning::single) return;
  for (const auto& product : products_) {
    product->most_rows = std::max(product->most_rows, rows);
    const size_t last = row_bucket(product->most_rows);
    for (size_t bucket = 0; bucket <= last; ++bucket) {
      if (!product->best[bucket]) time_candidates(*product, bucket, scratch);
    }
  }
}

void Products::time_candidates(Product& product, size_t bucket, std::span<std::byte> scratch) {
  const Key& key = product.key;
  Call call{.bias = product.bias,
            .rows = std::min(kRowBuckets[bucket], product.most_rows),
            .in_stride = key.k,
            .out_stride = key.n};
  const size_t in_bytes =
      memory::Arena::aligned(static_cast<size_t>(call.rows * key.k) * dtype_size(key.in));
  const size_t out_bytes = static_cast<size_t>(call.rows * key.n) * dtype_size(key.out);
  call.weight = product.weights.front();
  const bool fits = in_bytes + out_bytes <= scratch.size();
  if (fits) {
    call.in = scratch.data();
    call.out = scratch.data() + in_bytes;
  }
  // What is chosen must do all row counts of its bucket.
  const int64_t fewest = bucket == 0 ? 1 : kRowBuckets[bucket - 1] + 1;
  double least = std::numeric_limits<double>::infinity();
  size_t timed = 0;
  for (const Algorithm& candidate : candidates(product, call)) {
    if (!works(product, candidate, call, call.rows)) continue;
    if (!works(product, candidate, call, std::min(fewest, call.rows))) continue;
    const double seconds = fits ? time(product, candidate, call) : static_cast<double>(timed);
    if (seconds < least) {
      least = seconds;
      product.best[bucket] = candidate;
    }
    if (++timed == kTimed) break;
  }
}

// Seconds of a few launches over the weights of this shape in turn; infinity when it is refused.
double Products::time(Product& product, const Algorithm& algorithm, Call call) {
  const auto next = [&](int round) {
    call.weight = product.weights[static_cast<size_t>(round) % product.weights.size()];
    return launch(product, algorithm, call) == CUBLAS_STATUS_SUCCESS;
  };
  if (!next(0)) return std::numeric_limits<double>::infinity();
  start_.record(stream_);
  for (int round = 1; round <= kRounds; ++round) {
    if (!next(round)) return std::numeric_limits<double>::infinity();
  }
  end_.record(stream_);
  end_.wait();
  return end_.seconds_since(start_);
}

}  // namespace plimsoll::kernels
