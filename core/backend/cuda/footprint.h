// Sizes of the CUDA backend: pure functions of the model, the limits and a few figures of the card,
// so that a plan for any card can be made on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention_items.h"
#include "backend/cuda/flash_plan.h"
#include "backend/cuda/rank_area.h"

namespace plimsoll::backend {

/// What sizes depend on, of a card and of how it is used.
struct CardFigures {
  int32_t compute_capability = 90;  // 90: 9.0
  int32_t processors = 132;         // streaming multiprocessors
  bool deterministic = false;       // the same bits for a row in any batch, at any width
};

/// Work space that NVIDIA recommends for matrix products.
constexpr size_t product_workspace_bytes(const CardFigures& card) {
  return card.compute_capability >= 90 ? size_t{32} << 20 : size_t{4} << 20;
}

/// Pinned memory that weights pass through on their way to the device.
inline constexpr size_t kLoadPieceBytes = size_t{4} << 20;
inline constexpr size_t kLoadRingBytes = 64 * kLoadPieceBytes;

/// What the kernels are written for. Sums over a vocabulary of weights up to 2^44 stay below 2^64.
/// Of a router: its outputs, the experts of a token, the groups.
inline constexpr int64_t kMostRouted = 1024, kMostChosen = 32, kMostExpertGroups = 32;
inline constexpr int64_t kMostDrawnVocabulary = (int64_t{1} << 20) - 1;
/// Block tables of a batch, one for each KV group.
inline constexpr size_t kMostKvGroups = 8;

/// Of recurrent mixers: numbers of a channel's state, and of a key.
inline constexpr int64_t kMostScanState = 256, kMostDeltaKeys = 256;

/// Rows of steps that are made of fused products. An estimate until a card has measured it: of more
/// rows the norm's multiplications, which each block repeats, take longer than the matrix takes to
/// arrive (15 instructions an element of it at eight rows, of 12 that a Hopper has the time for).
inline constexpr int64_t kFusedRows = 4;

/// With `deterministic`: tokens of the pieces that a sequence's keys are cut into.
inline constexpr int64_t kFixedSplit = 2048;

/// The shapes of attention that a model's layers have, in the order of their first layers.
std::vector<cuda::FlashShape> attention_shapes(const model::ModelSpec& spec);

/// Where the plans of one shape lie in a step's plan: FlashInfer's work list and the plain
/// kernel's, of which each layer uses one.
struct AttentionPart {
  cuda::FlashShape shape;
  cuda::PlainBounds plain;
  size_t flash_offset = 0;
  size_t items_offset = 0;   // cuda::AttentionItem
  size_t merges_offset = 0;  // cuda::MergeItem
  size_t end = 0;
};
std::vector<AttentionPart> attention_parts(const StepShape& shape, const CardFigures& card);

/// The same of an image encoder's rows in segments, none of which is cut: the part and the limits
/// that it is planned within.
struct SegmentsPart {
  AttentionPart part;
  cuda::FlashLimits flash;
  cuda::PlainLimits plain;
};
SegmentsPart segments_part(int64_t rows, int64_t segments, const model::AttentionSpec& spec,
                           const CardFigures& card);

/// A model's ropes, then its image encoder's.
std::vector<const model::RopeSpec*> ropes_of(const model::ModelSpec& spec);

/// Their frequencies as they lie on the device: float32, the long table of a rope behind its table.
size_t rope_table_bytes(const model::ModelSpec& spec);

cuda::FlashLimits flash_limits(const StepShape& shape, const CardFigures& card);
cuda::PlainLimits plain_limits(const StepShape& shape, const CardFigures& card);

/// Rows that choose their keys together: scores of so many are in the workspace.
inline constexpr int64_t kCudaChoiceRows = 64;
/// Columns of an indexer's heads at most.
inline constexpr int64_t kMostIndexColumns = 256;

class CudaFootprint final : public Footprint {
 public:
  explicit CudaFootprint(CardFigures card) : card_(card) {}
  [[nodiscard]] const CardFigures& card() const { return card_; }

  /// Whether products with a weight are made of slices (backend/cuda/slices.h).
  [[nodiscard]] bool slices(const model::WeightSpec& spec) const;

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] DType activation_dtype(DType model) const override { return model; }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override;
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override;
  [[nodiscard]] size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                        DType dtype) const override;
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType dtype) const override;
  [[nodiscard]] size_t expert_inputs_workspace(int64_t rows, const model::MlpSpec& mlp,
                                               const model::WeightSpec& up,
                                               const model::WeightSpec& down,
                                               DType dtype) const override;
  [[nodiscard]] size_t attention_workspace(int64_t rows, int64_t sequences,
                                           const model::AttentionSpec& spec) const override;
  [[nodiscard]] size_t choice_workspace(int64_t rows, int64_t longest) const override;
  [[nodiscard]] bool shares_memory() const override { return false; }
  [[nodiscard]] bool stores_kv(DType kv, DType model) const override {
    return kv == model || kv == DType::f8_e4m3;
  }
  [[nodiscard]] bool sees_pictures() const override { return true; }
  [[nodiscard]] size_t segments_plan_bytes(int64_t rows, int64_t segments,
                                           const model::AttentionSpec& spec) const override;
  [[nodiscard]] bool draws() const override { return true; }
  /// Not with `deterministic`: one kernel has to serve all numbers of rows.
  [[nodiscard]] int64_t fused_rows() const override { return card_.deterministic ? 0 : kFusedRows; }
  /// Not with `deterministic`: sums over ranks are part of products then.
  [[nodiscard]] bool sums_with_norms() const override { return !card_.deterministic; }
  [[nodiscard]] int ahead() const override { return 1; }
  [[nodiscard]] bool records() const override { return true; }
  [[nodiscard]] size_t step_plan_bytes(const StepShape& shape) const override;
  [[nodiscard]] size_t device_workspace_bytes(const StepShape& shape) const override;
  [[nodiscard]] size_t host_workspace_bytes(const StepShape& shape) const override;

 private:
  CardFigures card_;
};

/// Throws Error(usage) naming what the kernels of this backend cannot do for a model whose cache
/// has `kv_groups` block tables, and the cure. Other backends than CUDA's have no such limits.
void check_card_limits(const Footprint& footprint, const model::ModelSpec& spec, size_t kv_groups);

}  // namespace plimsoll::backend
