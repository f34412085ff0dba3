#include "backend/cuda/footprint.h"

#include <algorithm>

#include "backend/cuda/experts_layout.h"
#include "backend/cuda/fp8_product.h"
#include "backend/cuda/packed_layout.h"
#include "backend/cuda/slices.h"
#include "backend/row_maxima.h"
#include "base/error.h"
#include "memory/arena.h"
#include "model/vision_spec.h"

namespace plimsoll::backend {
namespace {

constexpr auto aligned = memory::Arena::aligned;

}  // namespace

std::vector<cuda::FlashShape> attention_shapes(const model::ModelSpec& spec) {
  std::vector<cuda::FlashShape> shapes;
  for (const model::LayerSpec& layer : spec.layers) {
    if (!layer.has_attention()) continue;
    const cuda::FlashShape shape = cuda::flash_shape(layer.attention);
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

std::vector<const model::RopeSpec*> ropes_of(const model::ModelSpec& spec) {
  std::vector<const model::RopeSpec*> ropes;
  for (const model::RopeSpec& rope : spec.ropes) ropes.push_back(&rope);
  if (spec.vision && spec.vision->rope) ropes.push_back(&*spec.vision->rope);
  return ropes;
}

size_t rope_table_bytes(const model::ModelSpec& spec) {
  size_t values = 0;
  for (const model::RopeSpec* rope : ropes_of(spec)) {
    values += rope->table.inverse_frequencies.size();
    if (rope->long_table) values += rope->long_table->inverse_frequencies.size();
  }
  return aligned(values * sizeof(float));
}

cuda::FlashLimits flash_limits(const StepShape& shape, const CardFigures& card) {
  return {.tokens = shape.tokens,
          .sequences = shape.sequences,
          .context = shape.table_stride * shape.block_size,
          .multiprocessors = card.processors,
          .fixed_split = card.deterministic ? kFixedSplit : 0,
          // A tile's keys are summed in an order that depends on where its chunk begins.
          .hopper = card.compute_capability == 90 && !card.deterministic &&
                    (shape.kv_dtype == DType::bf16 || shape.kv_dtype == DType::f16)};
}

cuda::PlainLimits plain_limits(const StepShape& shape, const CardFigures& card) {
  using Splits = cuda::PlainLimits::Splits;
  return {.tokens = shape.tokens,
          .sequences = shape.sequences,
          .multiprocessors = card.processors,
          .splits = card.deterministic ? Splits::none : Splits::by_work};
}

namespace {

/// The plans of one shape from `offset` on.
AttentionPart attention_part(const cuda::FlashShape& of, const cuda::FlashLimits& flash,
                             const cuda::PlainLimits& plain, size_t offset) {
  AttentionPart part{.shape = of, .plain = {}};
  part.plain = cuda::plain_bounds({of.heads, of.kv_heads, of.window}, plain);
  part.flash_offset = offset;
  part.items_offset = part.flash_offset + aligned(cuda::flash_slab(flash, of).bytes);
  part.merges_offset = part.items_offset + aligned(part.plain.items * sizeof(cuda::AttentionItem));
  part.end = part.merges_offset + aligned(part.plain.merges * sizeof(cuda::MergeItem));
  return part;
}

}  // namespace

std::vector<AttentionPart> attention_parts(const StepShape& shape, const CardFigures& card) {
  std::vector<AttentionPart> parts;
  for (const cuda::FlashShape& of : attention_shapes(*shape.spec)) {
    parts.push_back(attention_part(of, flash_limits(shape, card), plain_limits(shape, card),
                                   parts.empty() ? 0 : parts.back().end));
  }
  return parts;
}

SegmentsPart segments_part(int64_t rows, int64_t segments, const model::AttentionSpec& spec,
                           const CardFigures& card) {
  SegmentsPart of{.part = {},
                  .flash = {.tokens = rows,
                            .sequences = segments,
                            .context = rows,
                            .multiprocessors = card.processors,
                            .cuts = cuda::FlashLimits::Cuts::never},
                  .plain = {.tokens = rows,
                            .sequences = segments,
                            .multiprocessors = card.processors,
                            .splits = cuda::PlainLimits::Splits::none}};
  of.part = attention_part(cuda::flash_shape(spec), of.flash, of.plain, 0);
  return of;
}

namespace {

void check_router(const model::MlpSpec& mlp) {
  if (mlp.kind != model::MlpKind::experts) return;
  const int64_t outputs = mlp.experts + mlp.router.identities;
  if (outputs > kMostRouted || mlp.experts_per_token > kMostChosen ||
      mlp.router.groups > kMostExpertGroups) {
    fail(ExitCode::usage,
         "{} of {} experts in {} groups are more than the CUDA backend routes ({} of {} in {}); "
         "--device cpu has no such limit",
         mlp.experts_per_token, outputs, mlp.router.groups, kMostChosen, kMostRouted,
         kMostExpertGroups);
  }
}

void check_mixer(const model::RecurrentSpec& mixer) {
  using enum model::RecurrentKind;
  const bool is_delta = mixer.kind == gated_delta || mixer.kind == channel_delta;
  const bool is_scan = mixer.kind == mamba1 || mixer.kind == mamba2 || mixer.kind == linear;
  if (is_scan && mixer.state > kMostScanState) {
    fail(ExitCode::usage,
         "a recurrent layer's states of {} are more than the CUDA backend scans ({}); --device cpu "
         "has no such limit",
         mixer.state, kMostScanState);
  }
  if (is_delta && mixer.state > kMostDeltaKeys) {
    fail(ExitCode::usage,
         "a delta rule's keys of {} are more than the CUDA backend's kernel holds ({}); --device "
         "cpu has no such limit",
         mixer.state, kMostDeltaKeys);
  }
}

void check_indexer(const model::IndexerSpec& indexer) {
  if (indexer.head_dim <= kMostIndexColumns) return;
  fail(ExitCode::usage,
       "an indexer's heads of {} columns are more than the CUDA backend scores ({}); --device cpu "
       "has no such limit",
       indexer.head_dim, kMostIndexColumns);
}

}  // namespace

void check_card_limits(const Footprint& footprint, const model::ModelSpec& spec, size_t kv_groups) {
  if (dynamic_cast<const CudaFootprint*>(&footprint) == nullptr) return;
  if (spec.vocab_size > kMostDrawnVocabulary) {
    fail(ExitCode::usage,
         "a vocabulary of {} is more than the CUDA backend draws from ({}); --device cpu has no "
         "such limit",
         spec.vocab_size, kMostDrawnVocabulary);
  }
  if (kv_groups > kMostKvGroups) {
    fail(ExitCode::usage,
         "the layers' windows make {} groups of KV blocks, the CUDA backend has tables for {}; "
         "--device cpu has no such limit",
         kv_groups, kMostKvGroups);
  }
  for (const model::LayerSpec& layer : spec.layers) {
    check_router(layer.shortcut ? *layer.shortcut : layer.mlp);
    check_indexer(layer.attention.indexer);
    if (layer.recurrent) check_mixer(*layer.recurrent);
  }
}

bool CudaFootprint::slices(const model::WeightSpec& spec) const {
  return card_.deterministic && cuda::is_sliced(spec);
}

size_t CudaFootprint::weight_bytes(const model::WeightSpec& spec, DType dtype) const {
  // All experts' matrices are alike.
  if (spec.is_packed()) {
    const bool sliced = slices(spec);
    const model::WeightSpec& of = sliced ? cuda::slice_of(spec) : spec;
    return aligned(spec.matrices() * (sliced ? spec.slices : 1) *
                   cuda::packed_segments(of, dtype, 0).end);
  }
  return aligned(spec.elements() * dtype_size(dtype));
}

size_t CudaFootprint::kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                               DType dtype) const {
  return aligned(spec.stored_heads() * block_size * spec.head_dim * dtype_size(dtype));
}

// device_workspace_bytes serves all products, but for rows that a quantized weight has rewritten.
size_t CudaFootprint::linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                       DType dtype) const {
  if (card_.deterministic && !spec.is_packed()) return cuda::PinnedLayout(rows, spec, dtype).bytes;
  if (slices(spec)) return cuda::PackedSlicesLayout(rows, spec, dtype).bytes;
  const size_t fp8 = cuda::fp8_bytes(rows, spec, dtype, card_);
  if (fp8 > 0) return cuda::fp8_offset(rows, spec, dtype) + fp8;
  return cuda::rewritten_bytes(rows, spec, dtype) + maxima_bytes(rows, spec);
}

size_t CudaFootprint::experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                        DType dtype) const {
  return cuda::experts_layout(rows, mlp, hidden, dtype).bytes;
}

size_t CudaFootprint::expert_inputs_workspace(int64_t rows, const model::MlpSpec& mlp,
                                              const model::WeightSpec& up,
                                              const model::WeightSpec& down, DType dtype) const {
  if (slices(down)) {
    return cuda::SlicedExpertsLayout(rows, mlp.experts_per_token, up, down, dtype).bytes;
  }
  const int64_t slots = rows * mlp.experts_per_token;
  return std::max(cuda::rewritten_bytes(slots, up, dtype),
                  cuda::rewritten_bytes(slots, down, dtype) + maxima_bytes(slots, down));
}

size_t CudaFootprint::attention_workspace(int64_t, int64_t, const model::AttentionSpec&) const {
  return 0;  // device_workspace_bytes holds the parts of split sequences
}

size_t CudaFootprint::choice_workspace(int64_t rows, int64_t longest) const {
  return std::min(rows, kCudaChoiceRows) * longest * sizeof(float);
}

size_t CudaFootprint::step_plan_bytes(const StepShape& shape) const {
  const std::vector<AttentionPart> parts = attention_parts(shape, card_);
  return parts.empty() ? 0 : parts.back().end;
}

size_t CudaFootprint::segments_plan_bytes(int64_t rows, int64_t segments,
                                          const model::AttentionSpec& spec) const {
  return segments_part(rows, segments, spec, card_).part.end;
}

size_t CudaFootprint::device_workspace_bytes(const StepShape& shape) const {
  const cuda::FlashLimits limits = flash_limits(shape, card_);
  size_t partials = 0;
  for (const AttentionPart& part : attention_parts(shape, card_)) {
    const int64_t floats = part.plain.partial_rows * part.shape.heads * (part.shape.head_dim + 1);
    partials = std::max(
        {partials, cuda::flash_workspace_bytes(limits, part.shape), floats * sizeof(float)});
  }
  return product_workspace_bytes(card_) + rope_table_bytes(*shape.spec) + aligned(partials) +
         cuda::rank_area_bytes(shape.tensor_ranks);
}

size_t CudaFootprint::host_workspace_bytes(const StepShape&) const {
  return kLoadRingBytes;
}

}  // namespace plimsoll::backend
