// Trial of the kernels for prefill: FlashInfer's kernels for all cards against those for Hopper.
#include "kernels/attention/attention_trial.h"

#include <algorithm>
#include <array>

#include "base/rounding.h"
#include "kernels/attention/attention.h"
#include "kernels/rows/random.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/stopwatch.h"
#include "memory/arena.h"

namespace plimsoll::kernels {
namespace {

/// Tokens of prefills, shortest first.
constexpr std::array<int64_t, 4> kPrefills{512, 1024, 2048, 4096};
static_assert(kPrefills.front() >= kLeastHopperRows);

constexpr auto aligned = memory::Arena::aligned;

/// Arrays of integers one after the other in memory of the host.
class Arrays {
 public:
  explicit Arrays(std::vector<std::byte>& room) : room_(room) {}
  std::span<int32_t> take(int64_t count) {
    auto* at = reinterpret_cast<int32_t*>(room_.data() + used_);
    used_ += aligned(static_cast<size_t>(count) * sizeof(int32_t));
    return {at, static_cast<size_t>(count)};
  }
  std::span<std::byte> rest() { return std::span(room_).subspan(used_); }

 private:
  std::vector<std::byte>& room_;
  size_t used_ = 0;
};

}  // namespace

AttentionTrial::AttentionTrial(const Size& size, const backend::KvLayer& cache,
                               const model::AttentionSpec& spec, DType activation,
                               FlashPlanner& planner, std::span<std::byte> scratch,
                               cudaStream_t stream)
    : scratch_(scratch) {
  const int64_t columns = spec.heads * spec.head_dim;
  const int64_t all = columns + 2 * spec.kv_heads * spec.head_dim;
  const int64_t stride = divide_up(size.tokens, cache.block_size);
  const auto integers = [](int64_t count) {
    return aligned(static_cast<size_t>(count) * sizeof(int32_t));
  };
  const int64_t all_rows = size.sequences * size.rows;
  const auto rows = [&](int64_t of) {
    return static_cast<size_t>(all_rows * of) * dtype_size(activation);
  };
  const size_t arrays = integers(all_rows) + integers(size.sequences) +
                        integers(size.sequences + 1) + integers(size.sequences * stride) +
                        aligned(planner.layout().bytes);
  fits_ = arrays + aligned(rows(all)) + aligned(rows(columns)) <= scratch.size();
  if (!fits_) return;
  host_.resize(arrays);
  const std::span<std::byte> on_device = take(arrays);
  qkv_ = {take(rows(all)).data(), activation, all_rows, all, all};
  out_ = {take(rows(columns)).data(), activation, all_rows, columns, columns};
  fill_random(qkv_.data, activation, all_rows * all, 1, 1, stream);
  place(size, cache, on_device);
  planner.plan({batch_.query_start, batch_.context_length, stride}, batch_.plan);
  copy_to_device(on_device.data(), host_.data(), host_.size(), stream);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::span<std::byte> AttentionTrial::take(size_t bytes) {
  const std::span<std::byte> taken = scratch_.first(bytes);
  scratch_ = scratch_.subspan(std::min(aligned(bytes), scratch_.size()));
  return taken;
}

void AttentionTrial::place(const Size& size, const backend::KvLayer& cache,
                           std::span<std::byte> room) {
  Arrays arrays(host_);
  const int64_t stride = divide_up(size.tokens, cache.block_size);
  const auto positions = arrays.take(size.sequences * size.rows);
  const auto context = arrays.take(size.sequences);
  const auto starts = arrays.take(size.sequences + 1);
  const auto table = arrays.take(size.sequences * stride);
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto row = static_cast<int64_t>(i) % size.rows;
    positions[i] = static_cast<int32_t>(size.tokens - size.rows + row);
  }
  std::ranges::fill(context, static_cast<int32_t>(size.tokens));
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] = static_cast<int32_t>(static_cast<int64_t>(i) * size.rows);
  }
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<int32_t>(static_cast<int64_t>(i) % cache.blocks);
  }
  tables_.assign(static_cast<size_t>(cache.group) + 1, table);
  batch_.positions = positions;
  batch_.context_length = context;
  batch_.query_start = starts;
  batch_.block_tables = tables_;
  batch_.table_stride = batch_.table_width = stride;
  batch_.plan = arrays.rest();
  batch_.host_base = host_.data();
  batch_.device_base = room.data();
}

void StepAttention::tune(std::span<std::byte> scratch, cudaStream_t stream) {
  for (Shape& shape : shapes_) {
    if (!shape.seen || shape.tried) continue;
    shape.tried = true;
    if (shape.hopper != nullptr && !options_.hopper_from) try_hopper(shape, scratch, stream);
  }
}

// Finds the shortest prefill from which the kernels for Hopper are faster: what they save grows
// with the context's square. Where none is faster they get only prefills longer than those tried.
void StepAttention::try_hopper(Shape& shape, std::span<std::byte> scratch, cudaStream_t stream) {
  const int64_t most = std::min(flash_limits_.tokens, longest_trial(shape, 1));
  for (const int64_t tokens : kPrefills) {
    if (tokens > most) break;
    const AttentionTrial::Size size{1, tokens, tokens};
    const double flash = seconds(shape, size, Kernels::flash, scratch, stream);
    if (flash == Stopwatch::kRefused) break;
    const bool faster = seconds(shape, size, Kernels::hopper, scratch, stream) < flash;
    shape.hopper_from = faster ? tokens : 2 * tokens;
    if (faster) break;
  }
  shape.flash.use_hopper(shape.hopper_from);
}

int64_t StepAttention::longest_trial(const Shape& shape, int64_t sequences) const {
  const backend::KvLayer& cache = shape.seen->cache;
  return std::min(flash_limits_.context, cache.blocks * cache.block_size / sequences);
}

double StepAttention::seconds(const Shape& shape, const AttentionTrial::Size& size, Kernels kernels,
                              std::span<std::byte> scratch, cudaStream_t stream) {
  const LayerCall& seen = *shape.seen;
  if (size.tokens < seen.cache.block_size) return Stopwatch::kRefused;
  FlashPlanner planner(shape.part.shape, flash_limits_);
  planner.use_hopper(kernels == Kernels::hopper ? size.tokens : 0);
  const AttentionTrial trial(size, seen.cache, seen.spec, seen.activation, planner, scratch,
                             stream);
  if (!trial.fits()) return Stopwatch::kRefused;
  // Too little work for all multiprocessors is left to the kernels for all cards.
  if (kernels == Kernels::hopper && planner.hopper_blocks() == 0) return Stopwatch::kRefused;
  const Call call{.out = trial.out(), .qkv = trial.qkv(), .spec = &seen.spec, .cache = &seen.cache};
  const backend::BatchMeta& batch = trial.batch();
  PagedLayer layer = layer_of(call, shape, batch);
  layer.plan = &planner;
  layer.slab = batch.on_device(batch.plan);
  return Stopwatch(stream).seconds([&] {
    run_flash(call, *seen.flash, layer, batch, stream);
    run_hopper(call, layer, shape, batch, stream);
    return true;
  });
}

}  // namespace plimsoll::kernels
