#include "kernels/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/attention/attention_plain.h"
#include "kernels/attention/merge_attention.h"
#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {

using backend::BatchMeta;

namespace {

/// Whether every sequence has one row: then what is launched depends on their number alone.
bool is_decode(const BatchMeta& batch) {
  return batch.positions.size() == batch.context_length.size();
}

FlashSight sight_of(const BatchMeta& batch) {
  if (batch.segmentation != backend::Segmentation::none) return FlashSight::all;
  return batch.seen_end.empty() ? FlashSight::own_past : FlashSight::by_row;
}

/// Shared memory of a multiprocessor: 164 KiB on 8.0, 228 on 9.0 and 10.0, 100 on the others.
FlashMemory memory_of(const backend::CardFigures& card) {
  const int32_t capability = card.compute_capability;
  const bool large = capability == 80 || (capability >= 90 && capability < 120);
  return large ? FlashMemory::large : FlashMemory::small;
}

template <typename T>
std::span<T> array_at(const BatchMeta& batch, size_t offset, int64_t count) {
  return {reinterpret_cast<T*>(batch.plan.data() + offset), static_cast<size_t>(count)};
}

}  // namespace

void StepAttention::start(const backend::StepShape& shape, const backend::CardFigures& card,
                          std::span<std::byte> workspace, const AttentionOptions& options) {
  options_ = options;
  flash_limits_ = backend::flash_limits(shape, card);
  plain_limits_ = backend::plain_limits(shape, card);
  workspace_ = workspace;
  table_stride_ = shape.table_stride;
  start_segments(card);
  for (const backend::AttentionPart& part : backend::attention_parts(shape, card)) {
    shapes_.push_back(
        {.part = part, .flash = FlashPlanner(part.shape, flash_limits_), .plain = {}});
    Shape& added = shapes_.back();
    added.hopper_from = options.hopper_from.value_or(kHopperFrom);
    if (!flash_limits_.hopper || !part.shape.hopper || added.hopper_from == 0) continue;
    added.hopper = find_hopper_unit(part.shape.head_dim, shape.kv_dtype);
    if (added.hopper != nullptr) added.flash.use_hopper(added.hopper_from);
  }
}

void StepAttention::start_segments(const backend::CardFigures& card) {
  sealed_ = false;
  card_ = card;
  memory_ = memory_of(card);
  shapes_.clear();
}

StepAttention::Shape& StepAttention::find(const model::AttentionSpec& spec) {
  const FlashShape wanted = flash_shape(spec);
  for (Shape& shape : shapes_) {
    if (shape.part.shape == wanted) return shape;
  }
  throw std::logic_error("attention: a shape that is not of the launch's model");
}

void StepAttention::plan(const BatchMeta& batch) {
  const FlashBatch flash_batch{.query_start = batch.query_start,
                               .context_length = batch.context_length,
                               .table_stride = batch.table_stride,
                               .sees_ahead = sight_of(batch) == FlashSight::by_row};
  for (Shape& shape : shapes_) {
    if (plans_flash(shape)) {
      shape.flash.plan(flash_batch, batch.plan.subspan(shape.part.flash_offset));
    }
    if (shape.uses_plain || !sealed_) plan_plain(batch, shape);
  }
}

void StepAttention::plan_segments(const BatchMeta& batch, const model::AttentionSpec& spec) {
  const auto [part, flash, plain] = backend::segments_part(
      std::ssize(batch.positions), std::ssize(batch.context_length), spec, card_);
  flash_limits_ = flash;
  plain_limits_ = plain;
  table_stride_ = batch.table_stride;
  if (shapes_.empty()) shapes_.push_back({.part = part, .flash = {part.shape, flash}, .plain = {}});
  shapes_.front().part = part;
  shapes_.front().flash = {part.shape, flash};
  plan(batch);
}

bool StepAttention::recordable() const {
  return std::ranges::all_of(
      shapes_, [&](const Shape& shape) { return !plans_flash(shape) || shape.flash.recordable(); });
}

bool StepAttention::plans_flash(const Shape& shape) const {
  return !flash_units().empty() && (shape.uses_flash || !sealed_);
}

void StepAttention::plan_plain(const BatchMeta& batch, Shape& shape) const {
  const FlashShape& of = shape.part.shape;
  PlainBounds room = shape.part.plain;
  if (is_decode(batch)) room = plain_decode_bounds(std::ssize(batch.context_length), plain_limits_);
  shape.plain = plan_attention({batch.query_start, batch.context_length, batch.seen_end},
                               {of.heads, of.kv_heads, of.window}, plain_limits_,
                               array_at<AttentionItem>(batch, shape.part.items_offset, room.items),
                               array_at<MergeItem>(batch, shape.part.merges_offset, room.merges));
  if (is_decode(batch)) {
    shape.plain.items = room.items;
    shape.plain.merges = room.merges;
  }
}

void StepAttention::load(const FlashUnit& unit) {
  if (std::ranges::find(loaded_, &unit) != loaded_.end()) return;
  check(unit.prepare(memory_), "loading attention kernels");
  load_merge_attention(unit.activation);
  loaded_.push_back(&unit);
}

void StepAttention::load_hopper(const Shape& shape) {
  if (shape.hopper == nullptr ||
      std::ranges::find(loaded_hopper_, shape.hopper) != loaded_hopper_.end())
    return;
  check(shape.hopper->prepare(), "loading attention kernels for Hopper");
  loaded_hopper_.push_back(shape.hopper);
}

StepAttention::Choice StepAttention::choose(const Call& call, FlashSight sight) {
  if (call.chosen.columns > 0)
    return {.why_not = "FlashInfer's see all keys, here some are chosen"};
  if (flash_units().empty()) return {.why_not = "this build is without FlashInfer's kernels"};
  const backend::KvLayer& cache = *call.cache;
  const FlashUnit* unit = find_flash_unit(*call.spec, call.qkv.dtype, cache.dtype, sight);
  if (unit == nullptr) return {.why_not = why_no_flash(*call.spec)};
  load(*unit);  // also where a smaller step alone may be covered
  if (!flash_covers(*call.spec, flash_limits_, table_stride_, cache.block_size, cache.block_stride,
                    cache.dtype)) {
    return {.why_not =
                "FlashInfer's count in 32 bits: fewer --max-num-seqs, a smaller "
                "--max-model-len or --max-num-batched-tokens"};
  }
  return {.unit = unit};
}

std::vector<std::string> StepAttention::notes(std::string_view whose) const {
  std::vector<std::string> notes;
  for (const Shape& shape : shapes_) {
    if (!shape.uses_plain) continue;
    const FlashShape& of = shape.part.shape;
    notes.push_back(fmt::format(
        "{}attention of {} heads of {} columns{} runs on plain kernels, a fraction as fast: {}",
        whose, of.heads, of.head_dim,
        of.window > 0 ? fmt::format(" with a window of {}", of.window) : "", shape.why_plain));
  }
  for (const Shape& shape : shapes_) {
    if (!shape.uses_hopper()) continue;
    const std::string note = fmt::format(
        "{}prefill of {} tokens of context and more takes attention kernels for Hopper "
        "(PLIMSOLL_HOPPER_FROM)",
        whose, shape.hopper_from);
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
  return notes;
}

void StepAttention::run(const Call& call, const BatchMeta& batch, const DeviceBatch& device,
                        cudaStream_t stream) {
  Shape& shape = find(*call.spec);
  const Choice choice = choose(call, sight_of(batch));
  if (choice.unit != nullptr) {
    shape.uses_flash = true;
    load_hopper(shape);
    const PagedLayer layer = layer_of(call, shape, batch);
    if (sight_of(batch) == FlashSight::own_past && !shape.seen && !sealed_) {
      shape.seen = {*call.spec, *call.cache, call.qkv.dtype, choice.unit};
    }
    run_flash(call, *choice.unit, layer, batch, stream);
    return run_hopper(call, layer, shape, batch, stream);
  }
  if (!shape.uses_plain) shape.why_plain = choice.why_not;
  shape.uses_plain = true;
  run_plain(call, shape, batch, device, stream);
}

PagedLayer StepAttention::layer_of(const Call& call, const Shape& shape, const BatchMeta& batch) {
  const backend::KvLayer& cache = *call.cache;
  return {.plan = &shape.flash,
          .slab = batch.on_device(batch.plan) + shape.part.flash_offset,
          .q = call.qkv.data,
          .q_stride = call.qkv.stride,
          .out = call.out.data,
          .kv = cache.pool + cache.layer_offset,
          .block_stride = cache.block_stride,
          .block_size = cache.block_size,
          .block_table = batch.on_device(batch.block_tables[static_cast<size_t>(cache.group)]),
          .query_start = batch.on_device(batch.query_start),
          .context_length = batch.on_device(batch.context_length)};
}

void StepAttention::run_flash(const Call& call, const FlashUnit& unit, const PagedLayer& layer,
                              const BatchMeta& batch, cudaStream_t stream) {
  const backend::CacheScales scales = call.cache->scales(*call.spec);
  flash_attention(layer,
                  {.unit = &unit,
                   .memory = memory_,
                   .limits = &flash_limits_,
                   .workspace = workspace_.data(),
                   .sequences = std::ssize(batch.context_length),
                   .sight = sight_of(batch),
                   .seen_end = batch.on_device(batch.seen_end),
                   .k_scale = scales.key,
                   .v_scale = scales.value},
                  *call.spec, stream);
}

void StepAttention::run_hopper(const Call& call, const PagedLayer& layer, const Shape& shape,
                               const BatchMeta& batch, cudaStream_t stream) {
  hopper_attention(
      layer, {.unit = shape.hopper, .rows = call.qkv.rows, .table_stride = batch.table_stride},
      *call.spec, stream);
}

void StepAttention::run_plain(const Call& call, const Shape& shape, const BatchMeta& batch,
                              const DeviceBatch& device, cudaStream_t stream) {
  const backend::AttentionPart& part = shape.part;
  if (plain_partial_bytes(part.plain.partial_rows, *call.spec) > workspace_.size()) {
    throw std::logic_error("attention: the workspace is smaller than its formula");
  }
  const auto* plan = batch.on_device(batch.plan);
  plain_attention({.out = call.out,
                   .qkv = call.qkv,
                   .spec = call.spec,
                   .cache = call.cache,
                   .sinks = call.sinks,
                   .slopes = call.slopes,
                   .chosen = call.chosen,
                   .items = reinterpret_cast<const AttentionItem*>(plan + part.items_offset),
                   .item_count = shape.plain.items,
                   .merges = reinterpret_cast<const MergeItem*>(plan + part.merges_offset),
                   .merge_count = shape.plain.merges,
                   .partial = reinterpret_cast<float*>(workspace_.data()),
                   .partial_rows = part.plain.partial_rows},
                  device, stream);
}

}  // namespace plimsoll::kernels
