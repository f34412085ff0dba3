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

/// Figures of a card, and of its use, that sizes depend on.
struct CardFigures {
  int32_t compute_capability = 90;  // 90: 9.0
  int32_t processors = 132;         // streaming multiprocessors
  bool deterministic = false;       // the same bits for a row in any batch, at any width
};

/// Bytes of work space that NVIDIA recommends for matrix products.
constexpr size_t product_workspace_bytes(const CardFigures& card) {
  return card.compute_capability >= 90 ? size_t{32} << 20 : size_t{4} << 20;
}

/// Bytes of pinned memory through which weights are loaded to the device.
inline constexpr size_t kLoadPieceBytes = size_t{4} << 20;
inline constexpr size_t kLoadRingBytes = 64 * kLoadPieceBytes;

/// Limits of the kernels: outputs of a router, experts of a token, groups; and vocabularies that
/// are drawn from, so that sums of weights up to 2^44 stay below 2^64.
inline constexpr int64_t kMostRouted = 1024, kMostChosen = 32, kMostExpertGroups = 32;
inline constexpr int64_t kMostDrawnVocabulary = (int64_t{1} << 20) - 1;
/// Most block tables of a batch, one for each KV group.
inline constexpr size_t kMostKvGroups = 8;

/// Limits of the kernels for recurrent mixers: elements of a channel's state, and of a key.
inline constexpr int64_t kMostScanState = 256, kMostDeltaKeys = 256;

/// Most rows of steps that consist of fused products. An estimate until a card has measured it:
/// with more rows the norm's multiplications, which each block repeats, take longer than the matrix
/// takes to arrive (15 instructions for an element of it at eight rows, where a Hopper has time for
/// 12).
inline constexpr int64_t kFusedRows = 4;

/// Tokens of the pieces into which a sequence's keys are cut with `deterministic`.
inline constexpr int64_t kFixedSplit = 2048;

/// Shapes of attention in a model's layers, in the order of their first layers.
std::vector<cuda::FlashShape> attention_shapes(const model::ModelSpec& spec);

/// Part of a step's plan for one shape: FlashInfer's work list and the plain kernel's, of which
/// each layer uses one.
struct AttentionPart {
  cuda::FlashShape shape;
  cuda::PlainBounds plain;
  size_t flash_offset = 0;
  size_t items_offset = 0;   // cuda::AttentionItem
  size_t merges_offset = 0;  // cuda::MergeItem
  size_t end = 0;
};
std::vector<AttentionPart> attention_parts(const StepShape& shape, const CardFigures& card);

/// Part of an image encoder's plan for rows in segments, none of which is cut, and the limits
/// within which it is planned.
struct SegmentsPart {
  AttentionPart part;
  cuda::FlashLimits flash;
  cuda::PlainLimits plain;
};
SegmentsPart segments_part(int64_t rows, int64_t segments, const model::AttentionSpec& spec,
                           const CardFigures& card);

/// RoPEs of a model, then of its image encoder.
std::vector<const model::RopeSpec*> ropes_of(const model::ModelSpec& spec);

/// Bytes of the frequencies of these RoPEs on the device: float32, a rope's long table after its
/// table.
size_t rope_table_bytes(const model::ModelSpec& spec);

cuda::FlashLimits flash_limits(const StepShape& shape, const CardFigures& card);
cuda::PlainLimits plain_limits(const StepShape& shape, const CardFigures& card);

/// Rows that choose their keys together: the workspace has scores of so many.
inline constexpr int64_t kCudaChoiceRows = 64;
/// Most columns of an indexer's heads.
inline constexpr int64_t kMostIndexColumns = 256;

class CudaFootprint final : public Footprint {
 public:
  explicit CudaFootprint(CardFigures card) : card_(card) {}
  [[nodiscard]] const CardFigures& card() const { return card_; }

  /// True when products with a weight are made of slices (backend/cuda/slices.h).
  [[nodiscard]] bool slices(const model::WeightSpec& spec) const override;

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
  [[nodiscard]] bool sees_images() const override { return true; }
  [[nodiscard]] size_t segments_plan_bytes(int64_t rows, int64_t segments,
                                           const model::AttentionSpec& spec) const override;
  [[nodiscard]] bool draws() const override { return true; }
  /// 0 with `deterministic`: one kernel has to serve all numbers of rows.
  [[nodiscard]] int64_t fused_rows() const override { return card_.deterministic ? 0 : kFusedRows; }
  /// False with `deterministic`: sums over ranks are part of products then.
  [[nodiscard]] bool sums_with_norms() const override { return !card_.deterministic; }
  [[nodiscard]] int ahead() const override { return 1; }
  [[nodiscard]] bool records() const override { return true; }
  [[nodiscard]] size_t step_plan_bytes(const StepShape& shape) const override;
  [[nodiscard]] size_t device_workspace_bytes(const StepShape& shape) const override;
  [[nodiscard]] size_t host_workspace_bytes(const StepShape& shape) const override;

 private:
  CardFigures card_;
};

/// Throws Error(usage), naming the limit and the cure, where the kernels of this backend cannot
/// serve a model whose cache has `kv_groups` block tables. Other backends than CUDA's have no such
/// limits.
void check_card_limits(const Footprint& footprint, const model::ModelSpec& spec, size_t kv_groups);

}  // namespace plimsoll::backend
