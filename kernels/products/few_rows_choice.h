// Choice of the kernel for products of few rows, measured during the launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/products/linear.h"
#include "kernels/products/small_linear.h"
#include "kernels/runtime/stopwatch.h"

namespace plimsoll::kernels {

/// Numbers of rows that are measured; other numbers take the choice of the next larger one.
inline constexpr std::array<int64_t, 4> kFewSizes{1, 2, 4, 8};
static_assert(kFewSizes.back() == kSmallRows);
/// Rows from which cuBLASLt is measured: with fewer, tensor cores have nothing to do.
inline constexpr int64_t kTriedByCublasLt = 4;

/// Least bytes of a matrix that is measured: a card reads a smaller one in two microseconds, as
/// long as a launch takes, whichever kernel it is.
inline constexpr size_t kLeastTried = size_t{8} << 20;

class FewRowsChoice {
 public:
  /// `products` are cuBLASLt's, tuned before; matrices from `least_bytes` on are measured.
  FewRowsChoice(Products& products, cudaStream_t stream, size_t least_bytes = kLeastTried)
      : products_(products), stream_(stream), watch_(stream), least_bytes_(least_bytes) {}

  struct Way {
    bool cublaslt = false;
    Feed feed = Feed::registers;  // of small_linear
  };
  /// A product as Products::run takes it, of at most kSmallRows rows.
  struct Call {
    backend::View out;  // [T, n]
    backend::View in;   // [T, k]
    const backend::Weight& weight;
    const backend::Weight& bias;
    model::Activation activation = model::Activation::none;
    /// True when other ranks compute the same product and must have equal bits: then the clock does
    /// not choose between sums in different orders.
    bool alike = false;
  };
  /// The way found by a trial, else small_linear by registers. Products seen before the seal are
  /// remembered for the next trial.
  Way of(const Call& call);

  /// Measures the remembered products, in `scratch` (device memory, idle).
  void tune(std::span<std::byte> scratch);

  /// Notes on the products, and their numbers of rows, for which cuBLASLt was chosen.
  [[nodiscard]] std::vector<std::string> notes() const;

  void seal() { sealed_ = true; }

 private:
  /// Products of one shape, and the choices for them.
  struct Known {
    int64_t n = 0, k = 0;
    backend::View out, in;  // as they were seen: types and strides
    backend::Weight bias;
    model::Activation activation = model::Activation::none;
    bool alike = false;
    std::vector<backend::Weight> weights{};  // a few, taken in turn so that no cache holds them
    std::vector<std::unique_ptr<model::WeightSpec>> specs{};  // what these point to
    bool tried = false;
    std::array<Way, kFewSizes.size()> ways{};
    [[nodiscard]] bool is(const Known& other) const;
  };
  /// Rows that are placed in somebody else's scratch.
  struct Rows {
    backend::View out, in;
  };
  Known& find(Known wanted);
  void try_ways(Known& known, std::span<std::byte> scratch);
  double seconds(const Known& known, const Rows& rows, const Way& way);

  Products& products_;
  cudaStream_t stream_;
  Stopwatch watch_;
  size_t least_bytes_;
  std::vector<std::unique_ptr<Known>> known_;
  bool sealed_ = false;
};

}  // namespace plimsoll::kernels
