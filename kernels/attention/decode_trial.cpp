// What a launch's decode attention runs on is tried out: FlashInfer's kernels against XQA.
#include "kernels/attention/decode_trial.h"

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

/// Tokens of context that are tried: short answers, and long ones.
constexpr std::array<int64_t, 2> kLengths{512, 4096};

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

DecodeTrial::DecodeTrial(const Size& size, const backend::KvLayer& cache,
                         const model::AttentionSpec& spec, DType activation, FlashPlanner& planner,
                         std::span<std::byte> scratch, cudaStream_t stream)
    : scratch_(scratch) {
  const int64_t columns = spec.heads * spec.head_dim;
  const int64_t all = columns + 2 * spec.kv_heads * spec.head_dim;
  const int64_t stride = divide_up(size.tokens, cache.block_size);
  const auto integers = [](int64_t count) {
    return aligned(static_cast<size_t>(count) * sizeof(int32_t));
  };
  const auto rows = [&](int64_t of) {
    return static_cast<size_t>(size.sequences * of) * dtype_size(activation);
  };
  const size_t arrays = 2 * integers(size.sequences) + integers(size.sequences + 1) +
                        integers(size.sequences * stride) + aligned(planner.layout().bytes);
  fits_ = arrays + aligned(rows(all)) + aligned(rows(columns)) <= scratch.size();
  if (!fits_) return;
  host_.resize(arrays);
  const std::span<std::byte> on_device = take(arrays);
  qkv_ = {take(rows(all)).data(), activation, size.sequences, all, all};
  out_ = {take(rows(columns)).data(), activation, size.sequences, columns, columns};
  fill_random(qkv_.data, activation, size.sequences * all, 1, 1, stream);
  place(size, cache, on_device);
  planner.plan({batch_.query_start, batch_.context_length, stride}, batch_.plan);
  copy_to_device(on_device.data(), host_.data(), host_.size(), stream);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::span<std::byte> DecodeTrial::take(size_t bytes) {
  const std::span<std::byte> taken = scratch_.first(bytes);
  scratch_ = scratch_.subspan(std::min(aligned(bytes), scratch_.size()));
  return taken;
}

void DecodeTrial::place(const Size& size, const backend::KvLayer& cache,
                        std::span<std::byte> room) {
  Arrays arrays(host_);
  const int64_t stride = divide_up(size.tokens, cache.block_size);
  const auto positions = arrays.take(size.sequences), context = arrays.take(size.sequences);
  const auto starts = arrays.take(size.sequences + 1);
  const auto table = arrays.take(size.sequences * stride);
  std::ranges::fill(positions, static_cast<int32_t>(size.tokens - 1));
  std::ranges::fill(context, static_cast<int32_t>(size.tokens));
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = static_cast<int32_t>(i);
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
    if (!shape.seen || shape.tried || options_.xqa) continue;
    shape.tried = true;
    for (size_t i = 0; i < kDecodeSizes.size(); ++i) {
      if (i > 0 && kDecodeSizes[i - 1] >= flash_limits_.sequences) break;
      const int64_t sequences = std::min(kDecodeSizes[i], flash_limits_.sequences);
      shape.takes_xqa[i] = is_xqa_faster(shape, sequences, scratch, stream);
    }
  }
}

// Both lengths count alike: by how much of FlashInfer's time XQA takes.
bool StepAttention::is_xqa_faster(const Shape& shape, int64_t sequences,
                                  std::span<std::byte> scratch, cudaStream_t stream) {
  const DecodeCall& seen = *shape.seen;
  const int64_t most =
      std::min(flash_limits_.context, seen.cache.blocks * seen.cache.block_size / sequences);
  if (most < seen.cache.block_size) return false;
  FlashPlanner planner(shape.part.shape, flash_limits_);
  double share = 0;
  for (const int64_t length : kLengths) {
    DecodeTrial trial({sequences, std::min(length, most)}, seen.cache, seen.spec, seen.activation,
                      planner, scratch, stream);
    if (!trial.fits()) return false;
    const Call call{
        .out = trial.out(), .qkv = trial.qkv(), .spec = &seen.spec, .cache = &seen.cache};
    PagedLayer layer = layer_of(call, shape, trial.batch());
    layer.plan = &planner;
    layer.slab = trial.batch().on_device(trial.batch().plan);
    Stopwatch watch(stream);
    const double flash = watch.seconds([&] {
      run_flash(call, *seen.flash, layer, trial.batch(), stream);
      return true;
    });
    const double xqa = watch.seconds([&] {
      run_xqa(call, layer, shape, trial.batch(), stream);
      return true;
    });
    share += xqa / flash;
  }
  return share < static_cast<double>(kLengths.size());
}

}  // namespace plimsoll::kernels
