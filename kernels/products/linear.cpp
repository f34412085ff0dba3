#include "kernels/products/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "backend/cuda/slices.h"
#include "kernels/products/product.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/operands.h"
#include "model/slices.h"

namespace plimsoll::kernels {

using backend::View;
using model::Activation;

namespace {

constexpr int kCandidates = 8;  // asked of the heuristic

constexpr size_t kFp8Alignment = 16;

/// Rows and columns for which `Pinning::single` asks the heuristic, whatever the product has;
/// products with few pay a little for it.
constexpr int64_t kPinnedRows = 256, kPinnedColumns = 4096;
/// Numbers of columns that an algorithm must also support: a rank may have few, or odd ones.
constexpr std::array<int64_t, 4> kPinnedWidths{64, 96, 1000, kPinnedColumns};

bool has_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// cuBLASLt's GELU is the tanh form, by a tanh of some eleven bits: enough for results of 16 bits.
bool in_epilogue(Activation activation, DType out) {
  return activation == Activation::none || activation == Activation::relu ||
         (activation == Activation::gelu_tanh && dtype_size(out) == 2);
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

bool lies_well(const View& view) {
  return common_alignment(view) >= backend::cuda::kPinnedAlignment;
}

Products::Products(Pinning pinning, cudaStream_t stream)
    : lt_(cublaslt()), pinning_(pinning), stream_(stream), watch_(stream) {
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
  fused.activation = in_epilogue(activation, out.dtype) && (fused.bias || !bias);
  const View matrix = rows_of(weight);
  const bool single = pinning_ == Pinning::single;
  if (single && !(lies_well(in) && lies_well(matrix) && lies_well(out))) return std::nullopt;
  const auto alignment = [&](size_t found) {
    return single ? backend::cuda::kPinnedAlignment : found;
  };
  const Key key{
      .n = single ? 0 : matrix.rows,
      .k = matrix.columns,
      .in = in.dtype,
      .out = out.dtype,
      .epilogue = epilogue_of(fused.bias, fused.activation ? activation : Activation::none),
      .in_alignment = alignment(std::min(common_alignment(in), common_alignment(matrix))),
      .out_alignment = alignment(common_alignment(out)),
      .alike = !single && among_ranks_ && weight.spec->ranks == 1};
  const Call call{.weight = weight.data,
                  .in = in.data,
                  .out = out.data,
                  .bias = fused.bias ? bias.data : nullptr,
                  .rows = in.rows,
                  .columns = matrix.rows,
                  .weight_stride = matrix.stride,
                  .in_stride = in.stride,
                  .out_stride = out.stride};
  if (!launch_chosen(find(key), call)) return std::nullopt;
  return fused;
}

bool Products::launch_chosen(Product& product, const Call& call) {
  const Algorithm* algorithm = look_up(product, call);
  if (algorithm == nullptr) return false;
  const cublasStatus_t status = launch(product, *algorithm, call);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    return false;  // refused before anything was launched
  }
  check(status, "cublasLtMatmul");
  return true;
}

bool Products::run_slices(const SlicedProduct& op) {
  if (pinning_ != Pinning::single) throw std::logic_error("products: slices of free order");
  const int64_t k = op.in.columns / op.slices;
  const size_t bytes = static_cast<size_t>(k) * dtype_size(op.in.dtype);
  if (op.in.dtype != op.weight.dtype || !has_type(op.in.dtype) ||
      bytes % backend::cuda::kPinnedAlignment != 0 || !lies_well(op.in) || !lies_well(op.weight)) {
    return false;
  }
  const Key key{.n = 0,
                .k = k,
                .in = op.in.dtype,
                .out = DType::f32,
                .in_alignment = backend::cuda::kPinnedAlignment,
                .out_alignment = backend::cuda::kPinnedAlignment,
                .sliced = true};
  return launch_chosen(find(key), {.weight = op.weight.data,
                                   .in = op.in.data,
                                   .out = op.out,
                                   .rows = op.in.rows,
                                   .columns = op.weight.rows,
                                   .weight_stride = op.weight.stride,
                                   .in_stride = op.in.stride,
                                   .out_stride = op.out_stride,
                                   .slices = op.slices});
}

bool Products::run_scaled(const ScaledProduct& op) {
  if (lt_.version < kScalesSince) return false;
  const int64_t n = op.out.columns;
  const View in{const_cast<void*>(op.in), DType::f8_e4m3, op.out.rows, op.k, op.k};
  const View weight{const_cast<void*>(op.weight), DType::f8_e4m3, n, op.k, op.k};
  const Key key{.n = n,
                .k = op.k,
                .in = DType::f8_e4m3,
                .out = op.out.dtype,
                .epilogue = epilogue_of(op.bias != nullptr, Activation::none),
                .in_alignment = std::min(common_alignment(in), common_alignment(weight)),
                .out_alignment = common_alignment(op.out),
                .scaling = op.scaling};
  if (std::min(key.in_alignment, key.out_alignment) < kFp8Alignment) return false;
  Product& product = find(key);
  const Call call{.weight = op.weight,
                  .in = op.in,
                  .out = op.out.data,
                  .bias = op.bias,
                  .weight_scales = op.weight_scales,
                  .in_scales = op.in_scales,
                  .rows = op.out.rows,
                  .columns = n,
                  .weight_stride = op.k,
                  .in_stride = op.k,
                  .out_stride = op.out.stride};
  const Algorithm* algorithm = look_up(product, call);
  return algorithm != nullptr && launch(product, *algorithm, call) == CUBLAS_STATUS_SUCCESS;
}

const Products::Algorithm* Products::look_up(Product& product, const Call& call) {
  product.most_rows = std::max(product.most_rows, call.rows);
  product.bias = call.bias;
  if (!sealed_ && product.weights.size() < kTimedWeights &&
      std::ranges::find(product.weights, call.weight) == product.weights.end()) {
    product.weights.push_back(call.weight);
  }
  if (pinning_ == Pinning::single && product.key.scaling == Scaling::none) return pin(product);
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

// Algorithms that do every row count from one to the largest bucket, and columns of all widths.
const Products::Algorithm* Products::pin(Product& product) {
  if (!product.pinned.empty()) return &product.pinned.front();
  if (sealed_ || product.asked) return nullptr;
  product.asked = true;
  const int64_t slices = product.key.sliced ? model::kMostSlices : 1;
  const Call usual{.rows = kPinnedRows,
                   .columns = kPinnedColumns,
                   .weight_stride = slices * product.key.k,
                   .in_stride = slices * product.key.k,
                   .out_stride = kPinnedColumns,
                   .slices = slices};
  for (const Algorithm& candidate : candidates(product, usual)) {
    const auto does = [&](int64_t rows) { return works(product, candidate, usual, rows); };
    const auto does_columns = [&](int64_t columns) {
      Call call = usual;
      call.columns = columns;
      return works(product, candidate, call, kPinnedRows);
    };
    const bool odd_ones = does(1) && does(2) && does(3) && does(7) && does(kPinnedRows - 1);
    if (!odd_ones || !std::ranges::all_of(kRowBuckets, does) ||
        !std::ranges::all_of(kPinnedWidths, does_columns)) {
      continue;
    }
    product.pinned.push_back(candidate);
  }
  return product.pinned.empty() ? nullptr : &product.pinned.front();
}

std::vector<std::string> Products::refused() const {
  std::vector<std::string> names;
  for (const auto& product : products_) {
    if (product->key.scaling != Scaling::none) continue;  // the packed kernel has them then
    const bool hopeless = pinning_ == Pinning::single
                              ? product->asked && product->pinned.empty()
                              : std::ranges::any_of(product->hopeless, std::identity());
    if (hopeless)
      names.push_back(
          product_name(product->key.in, product->key.in, product->columns, product->key.k));
  }
  return names;
}

std::string product_name(DType in, DType weight, int64_t n, int64_t k) {
  return fmt::format("product of {} with a {} matrix [{}, {}]", torch_name(in), torch_name(weight),
                     n, k);
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

}  // namespace plimsoll::kernels
