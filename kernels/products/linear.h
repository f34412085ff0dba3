// Matrix products by cuBLASLt. The algorithm of a product is chosen once, before the launch is
// sealed, by the library's heuristic and then by the clock; a step only looks it up.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "kernels/products/cublaslt.h"
#include "kernels/runtime/stopwatch.h"

namespace plimsoll::kernels {

/// Weights of one shape that are timed in turn, so that no cache holds them.
inline constexpr size_t kTimedWeights = 8;

/// Rows for which algorithms are chosen; a product of other row counts runs the algorithm of the
/// next larger one. Dense where decode steps are, for there a tile more or less shows.
inline constexpr std::array<int64_t, 19> kRowBuckets{
    1, 4, 8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 1024, 2048, 4096, 8192, 16384};

/// Index into kRowBuckets: the smallest bucket that holds `rows`, the last one for more. Example:
/// 130 rows run the algorithm chosen for 160.
size_t row_bucket(int64_t rows);

/// Largest power of two up to 256 that divides the address and the bytes from row to row.
size_t common_alignment(const backend::View& view);

/// True when a view is aligned as `Pinning::single` requires of all operands.
bool lies_well(const backend::View& view);

/// The part of linear()'s work that a product did besides multiplying.
struct Fused {
  bool bias = false;
  bool activation = false;
};

enum class Pinning : uint8_t {
  by_rows,  // the fastest algorithm for each row count
  /// One algorithm for all row and column counts of a depth, which gave an element equal bits in
  /// any batch and beside any columns. It is chosen and tried on operands that depend on nothing
  /// else, so that ranks of any width choose alike.
  single,
};

/// Scales by which numbers of float8 are multiplied.
enum class Scaling : uint8_t {
  none,
  outer,   // a scale for each row of both
  groups,  // a scale for each row and 128 inputs: [k / 128, rows]
};

/// A product of float8 rows with a float8 matrix, both row-major and aligned to 16 bytes.
struct ScaledProduct {
  backend::View out;             // [T, n], of 16 or 32 bits
  const void* in = nullptr;      // [T, k]
  const void* weight = nullptr;  // [n, k]
  int64_t k = 0;
  const float* in_scales = nullptr;
  const float* weight_scales = nullptr;
  Scaling scaling = Scaling::outer;
  const void* bias = nullptr;  // of out's type, where it has 16 bits; or none
};

/// Products of equal slices of the inputs, side by side: each a float32 matrix.
struct SlicedProduct {
  backend::View in;      // [T, slices k]
  backend::View weight;  // [n, slices k], of in's type
  float* out = nullptr;  // [slices][T, out_stride], aligned to 16 bytes
  int64_t out_stride = 0;
  int64_t slices = 1;
};

/// "product of bfloat16 with a bfloat16 matrix [4096, 14336]".
std::string product_name(DType in, DType weight, int64_t n, int64_t k);

class Products {
 public:
  Products(Pinning pinning, cudaStream_t stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Device memory that algorithms may use; set before the first product.
  void use_workspace(std::byte* memory, size_t bytes);

  /// Sets whether several ranks compute side by side, each on a card of one kind. Then products
  /// that each rank computes whole run the heuristic's first algorithm, not the fastest: else ranks
  /// would differ in bits, and routers in experts.
  void set_among_ranks(bool among) { among_ranks_ = among; }

  /// out [T, n] = in [T, k] * weight [n, k]^T, summed in float32. `in` and `weight` are of one
  /// type, out of that type or float32. Bias (of out's type) and activation are done where
  /// cuBLASLt's epilogue has them, as the result says. None: cuBLASLt has no algorithm for these
  /// operands (types, odd alignments) that had run before the seal, and nothing was done.
  [[nodiscard]] std::optional<Fused> run(const backend::View& out, const backend::View& in,
                                         const backend::Weight& weight, const backend::Weight& bias,
                                         model::Activation activation);

  /// out of slice s = in's slice s * weight's slice s^T. With `Pinning::single`. False: nothing was
  /// done, as when run() returns none.
  [[nodiscard]] bool run_slices(const SlicedProduct& op);

  /// out = (in * in_scales) * (weight * weight_scales)^T + bias. False: cuBLASLt has no algorithm
  /// for it that had run before the seal, or is older than 12.9; nothing was done.
  [[nodiscard]] bool run_scaled(const ScaledProduct& op);

  /// Tries the candidates of every product that has run, in `scratch` (device memory, idle). By
  /// rows: by the clock, for all row counts up to `rows` or the most that it ran with. Single: by
  /// the bits of rows alone and among up to 2,048, and of columns alone and among up to 4,096, of
  /// random numbers; algorithms that change them are dropped. Scaled products keep the heuristic's
  /// first algorithm; their caller tries them as a whole. Until then products run the heuristic's
  /// first.
  void tune(std::span<std::byte> scratch, int64_t rows);

  /// Names of the products that have run and have no algorithm for some row count.
  [[nodiscard]] std::vector<std::string> refused() const;

  /// Ends the choice of new kernels: from now on none runs that has not run before.
  void seal() { sealed_ = true; }

 private:
  struct Product;
  struct Algorithm;
  struct Key;
  struct KeyLess;
  struct Call;
  struct Trial;
  struct PinTrial;

  Product& find(const Key& key);
  const Algorithm* look_up(Product& product, const Call& call);
  const Algorithm* pin(Product& product);
  void time_candidates(Product& product, size_t bucket, const Trial& trial);
  void prove(Product& product, std::span<std::byte> scratch);
  bool keeps_bits(Product& product, const Algorithm& algorithm, const PinTrial& trial);
  std::vector<Algorithm> candidates(Product& product, const Call& call) const;
  bool works(Product& product, const Algorithm& algorithm, Call call, int64_t rows) const;
  double time(Product& product, const Algorithm& algorithm, Call call);
  cublasStatus_t launch(Product& product, const Algorithm& algorithm, const Call& call) const;
  /// Runs the chosen algorithm; false where there is none or it was refused before anything ran.
  bool launch_chosen(Product& product, const Call& call);

  const CublasLt& lt_;
  Pinning pinning_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  std::byte* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  bool sealed_ = false;
  bool among_ranks_ = false;
  Stopwatch watch_;
  std::vector<std::unique_ptr<Product>> products_;
};

}  // namespace plimsoll::kernels
