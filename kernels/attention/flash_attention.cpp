#include "kernels/attention/flash_attention.h"

#include "kernels/attention/merge_attention.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kOffsetLimit = int64_t{1} << 32;
// In a merge of more rows than this most rows have one or two partial results.
constexpr int64_t kManyRows = 64;

template <typename T>
const T* at(const std::byte* slab, size_t offset, int64_t index) {
  return reinterpret_cast<const T*>(slab + offset) + index;
}

FlashArguments common_arguments(const PagedLayer& layer, const FlashCall& call,
                                const model::AttentionSpec& spec) {
  const size_t kv_bytes = static_cast<size_t>(spec.kv_heads * layer.block_size * spec.head_dim) *
                          dtype_size(call.unit->kv);
  FlashArguments a;
  a.q = layer.q;
  a.q_stride = layer.q_stride;
  a.k = layer.kv;
  a.v = layer.kv + kv_bytes;
  a.block_stride = static_cast<int64_t>(layer.block_stride / dtype_size(call.unit->kv));
  a.block_size = layer.block_size;
  a.block_table = layer.block_table;
  a.query_start = layer.query_start;
  a.context_length = layer.context_length;
  a.sequences = call.sequences;
  a.heads = spec.heads;
  a.kv_heads = spec.kv_heads;
  a.head_dim = spec.head_dim;
  a.window_left = spec.window - 1;
  a.soft_cap = spec.soft_cap;
  a.scale = spec.scale * call.k_scale;
  a.v_scale = call.v_scale;
  a.sight = call.sight;
  a.seen_end = call.seen_end;
  return a;
}

void merge(const PagedLayer& layer, const FlashCall& call, const FlashLaunch& launch,
           const FlashArguments& a, cudaStream_t stream) {
  const FlashSlab& layout = layer.plan->layout();
  AttentionMerge m;
  m.partial = static_cast<const float*>(a.out);
  m.lse = a.lse;
  m.merge_row = at<int32_t>(layer.slab, layout.merge_row, launch.first_merge);
  m.merge_start = at<int32_t>(layer.slab, layout.merge_start, launch.first_merge + launch.index);
  m.out = layer.out;
  m.dtype = call.unit->activation;
  m.rows = launch.merge_rows;
  m.heads = a.heads;
  m.head_dim = a.head_dim;
  const bool by_batch = call.limits->fixed_split == 0;
  const auto warps = by_batch && m.rows > kManyRows ? MergeWarps::one : MergeWarps::four;
  merge_attention(m, warps, stream);
}

}  // namespace

const FlashUnit* find_flash_unit(const model::AttentionSpec& spec, DType activation, DType kv,
                                 FlashSight sight) {
  const bool chunked = spec.window > 0 && spec.window_kind == model::WindowKind::chunk;
  if (chunked || spec.sinks != model::kNoWeight || spec.alibi.slopes != model::kNoWeight) {
    return nullptr;
  }
  // Pieces of 16 bytes of activations and of the cache.
  if (spec.head_dim * static_cast<int64_t>(dtype_size(kv)) % 16 != 0) return nullptr;
  const bool plain = spec.window == 0 && spec.soft_cap == 0 && sight == FlashSight::own_past;
  const FlashUnit* found = nullptr;
  for (const FlashUnit& unit : flash_units()) {
    if (unit.activation != activation || unit.kv != kv) continue;
    if (!unit.general && plain && unit.head_dim == spec.head_dim) return &unit;
    if (unit.general && unit.head_dim >= spec.head_dim &&
        (found == nullptr || unit.head_dim < found->head_dim)) {
      found = &unit;
    }
  }
  return found;
}

std::string why_no_flash(const model::AttentionSpec& spec) {
  if (spec.sinks != model::kNoWeight) return "FlashInfer's have no attention sinks";
  if (spec.alibi.slopes != model::kNoWeight) return "FlashInfer's have no ALiBi";
  if (spec.window > 0 && spec.window_kind == model::WindowKind::chunk)
    return "FlashInfer's have sliding windows, not chunks";
  return "FlashInfer's are for bfloat16 and float16, heads of up to 256 columns in multiples of 8, "
         "of 16 over a cache of 8 bits";
}

bool flash_covers(const model::AttentionSpec& spec, const FlashLimits& limits, int64_t table_stride,
                  int64_t block_size, size_t block_stride, DType kv) {
  const int64_t q_row = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const int64_t out_row = spec.heads * spec.head_dim;
  const int64_t partial = flash_partial_rows(limits, flash_shape(spec));
  return (limits.tokens + 128) * q_row < kOffsetLimit && (partial + 128) * out_row < kOffsetLimit &&
         (limits.sequences + 1) * table_stride * block_size + limits.context < kOffsetLimit &&
         static_cast<int64_t>(block_stride / dtype_size(kv)) < kOffsetLimit;
}

void flash_attention(const PagedLayer& layer, const FlashCall& call,
                     const model::AttentionSpec& spec, cudaStream_t stream) {
  const FlashPlanner& planner = *layer.plan;
  const FlashSlab& layout = planner.layout();
  for (const FlashLaunch& launch : planner.launches()) {
    FlashArguments a = common_arguments(layer, call, spec);
    a.page_start = at<int32_t>(layer.slab, layout.page_start, 0);
    a.chunk_tokens = at<int32_t>(layer.slab, layout.chunk_tokens, launch.index);
    a.item_sequence = at<int32_t>(layer.slab, layout.item_sequence, launch.first_item);
    a.item_tile = at<int32_t>(layer.slab, layout.item_tile, launch.first_item);
    a.item_chunk = at<int32_t>(layer.slab, layout.item_chunk, launch.first_item);
    a.item_valid = at<bool>(layer.slab, layout.item_valid, launch.first_item);
    a.output_start = layer.query_start;
    a.out = layer.out;
    if (is_split(launch.kind)) {
      a.output_start = at<int32_t>(layer.slab, layout.partial_start, 0);
      a.out = call.workspace;
      a.lse = reinterpret_cast<float*>(call.workspace +
                                       flash_lse_offset(*call.limits, planner.shape()));
    }
    call.unit->launch(launch.kind, call.memory, a, launch.items, stream);
    if (is_split(launch.kind)) merge(layer, call, launch, a, stream);
  }
}

}  // namespace plimsoll::kernels
