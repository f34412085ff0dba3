// Sizes of the CUDA backend: pure functions of the model, the limits and a few figures of the card,
// so that a plan for any card can be made on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace plimsoll::backend {

/// What sizes depend on, of a card.
struct CardFigures {
  int32_t compute_capability = 90;  // 90: 9.0
  int32_t processors = 132;         // streaming multiprocessors
};

/// Everything that has an address of its own on a device begins at a multiple of this: what
/// cudaMalloc promises, and what cuBLASLt's fastest kernels ask for.
inline constexpr size_t kDeviceAlignment = 256;

/// Work space that NVIDIA recommends for matrix products.
constexpr size_t product_workspace_bytes(const CardFigures& card) {
  return card.compute_capability >= 90 ? size_t{32} << 20 : size_t{4} << 20;
}

/// Bytes of the pinned ring that weights pass through on their way to the device, in pieces.
inline constexpr size_t kLoadPieceBytes = size_t{4} << 20;
inline constexpr size_t kLoadPieces = 64;

/// Rows of partial results that splitting the keys of a step's sequences may leave: each sequence
/// one row, and as many more as keep all processors busy. The planner of splits keeps within it.
constexpr int64_t split_rows(int64_t rows, const CardFigures& card) {
  return rows + int64_t{4} * card.processors;
}

class CudaFootprint final : public Footprint {
 public:
  explicit CudaFootprint(CardFigures card) : card_(card) {}
  [[nodiscard]] const CardFigures& card() const { return card_; }

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] DType activation_dtype(DType model) const override { return model; }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override;
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override;
  [[nodiscard]] size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                        DType dtype) const override;
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType dtype) const override;
  [[nodiscard]] size_t attention_workspace(int64_t rows, int64_t sequences,
                                           const model::AttentionSpec& spec) const override;

 private:
  CardFigures card_;
};

}  // namespace plimsoll::backend
