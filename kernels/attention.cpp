#include "kernels/attention.h"

#include "kernels/cuda_error.h"

namespace plimsoll::kernels {

void StepAttention::start(const backend::StepShape& shape, const backend::CardFigures& card,
                          std::span<std::byte> workspace) {
  limits_ = backend::flash_limits(shape, card);
  workspace_ = workspace;
  table_stride_ = shape.table_stride;
  // Shared memory of a multiprocessor: 164 KiB on 8.0, 228 on 9.0 and 10.0, 100 on the others.
  const int32_t capability = card.compute_capability;
  const bool large = capability == 80 || (capability >= 90 && capability < 120);
  memory_ = large ? FlashMemory::large : FlashMemory::small;
  if (flash_units().empty()) return;
  plans_ = std::make_unique<FlashPlans>(*shape.spec, limits_);
  for (const FlashUnit& unit : flash_units()) {
    for (const model::LayerSpec& layer : shape.spec->layers) {
      const bool used = find_flash_unit(layer.attention, unit.activation, shape.kv_dtype) == &unit;
      if (!used) continue;
      check(unit.prepare(memory_), "loading attention kernels");
      break;
    }
  }
}

void StepAttention::plan(const backend::BatchMeta& batch) {
  if (plans_ == nullptr) return;
  plans_->plan({.query_start = batch.query_start,
                .context_length = batch.context_length,
                .table_stride = batch.table_stride},
               batch.plan);
}

const FlashUnit* StepAttention::unit(const model::AttentionSpec& spec, DType activations,
                                     const backend::KvLayer& cache) const {
  if (plans_ == nullptr || !flash_covers(spec, limits_, table_stride_, cache.block_size,
                                         cache.block_stride, cache.dtype)) {
    return nullptr;
  }
  return find_flash_unit(spec, activations, cache.dtype);
}

void StepAttention::run(const FlashUnit& unit, const backend::View& out, const backend::View& qkv,
                        const model::AttentionSpec& spec, const backend::KvLayer& cache,
                        const backend::BatchMeta& batch, cudaStream_t stream) {
  const auto group = static_cast<size_t>(cache.group);
  flash_attention({.unit = &unit,
                   .memory = memory_,
                   .plan = &plans_->of(spec),
                   .limits = &limits_,
                   .slab = batch.on_device(batch.plan),
                   .workspace = workspace_.data(),
                   .q = qkv.data,
                   .q_stride = qkv.stride,
                   .out = out.data,
                   .kv = cache.pool + cache.layer_offset,
                   .block_stride = cache.block_stride,
                   .block_size = cache.block_size,
                   .block_table = batch.on_device(batch.block_tables[group]),
                   .query_start = batch.on_device(batch.query_start),
                   .context_length = batch.on_device(batch.context_length),
                   .sequences = static_cast<int64_t>(batch.context_length.size())},
                  spec, stream);
}

}  // namespace plimsoll::kernels
