#include "bench/cuda/roofs.h"

#include <algorithm>
#include <array>

#include "kernels/products/cublaslt.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/device.h"

namespace plimsoll::testing {
namespace {

using kernels::check;
using kernels::cublaslt;

/// cuBLASLt's product with its own first choice.
class Product {
 public:
  Product(std::byte* memory, int64_t n) : n_(n) {
    const size_t matrix = static_cast<size_t>(n * n) * 2;
    a_ = memory;
    b_ = memory + matrix;
    c_ = memory + 2 * matrix;
    workspace_ = memory + 3 * matrix;
    check(cublaslt().create(&handle_), "cublasLtCreate");
    check(cublaslt().create_description(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublaslt().set_description(description_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                     sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
    const auto size = static_cast<uint64_t>(n);
    check(cublaslt().create_layout(&layout_, CUDA_R_16BF, size, size, n),
          "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublaslt().create_preference(&preference), "cublasLtMatmulPreferenceCreate");
    check(cublaslt().set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kBytes,
                                    sizeof kBytes),
          "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    check(cublaslt().get_heuristic(handle_, description_, layout_, layout_, layout_, layout_,
                                   preference, 1, &choice_, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    cublaslt().destroy_preference(preference);
  }
  ~Product() {
    cublaslt().destroy_layout(layout_);
    cublaslt().destroy_description(description_);
    cublaslt().destroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void enqueue(cudaStream_t stream) {
    const float one = 1, zero = 0;
    check(cublaslt().matmul(handle_, description_, &one, a_, layout_, b_, layout_, &zero, c_,
                            layout_, c_, layout_, &choice_.algo, workspace_, kBytes, stream),
          "cublasLtMatmul");
  }

 private:
  static constexpr size_t kBytes = size_t{32} << 20;
  int64_t n_;
  std::byte *a_, *b_, *c_, *workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_{};
};

}  // namespace

double seconds_of(cudaStream_t stream, int repeats, const std::function<void()>& work) {
  work();
  std::array<double, 5> seconds{};
  for (double& s : seconds) {
    kernels::Event start(kernels::Event::Timing::on), end(kernels::Event::Timing::on);
    start.record(stream);
    for (int i = 0; i < repeats; ++i) work();
    end.record(stream);
    end.wait();
    s = end.seconds_since(start) / repeats;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[2];
}

double read_rate(const void* memory, size_t bytes, cudaStream_t stream) {
  const kernels::DeviceMemory never(sizeof(unsigned));
  const double seconds = seconds_of(stream, 3, [&] {
    enqueue_read(memory, bytes, static_cast<unsigned*>(never.data()), stream);
  });
  return static_cast<double>(bytes) / seconds;
}

double product_rate(std::byte* memory, int64_t n, cudaStream_t stream) {
  Product product(memory, n);
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds_of(stream, 10, [&] { product.enqueue(stream); });
}

}  // namespace plimsoll::testing
