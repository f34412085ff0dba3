#include "kernels/products/experts.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 512;

/// A block per expert, which reads all choices: once to know where its slots begin, once to write
/// them.
__global__ void __launch_bounds__(kThreads)
    sort_kernel(ExpertSlots slots, View chosen, int tile_rows, int tiles) {
  wait_for_previous();
  start_next();
  int* reduce = shared_array<int>();
  const auto expert = static_cast<int>(blockIdx.x);
  const auto count = static_cast<int>(slots.slots);
  const auto k = static_cast<int>(chosen.columns);
  const auto expert_of = [&](int slot) {
    return static_cast<const int32_t*>(chosen.data)[slot / k * chosen.stride + slot % k] -
           static_cast<int>(slots.first);
  };
  int before = 0;
  int own = 0;
  for (int slot = static_cast<int>(threadIdx.x); slot < count; slot += kThreads) {
    const int other = expert_of(slot);
    before += other >= 0 && other < expert ? 1 : 0;
    own += other == expert ? 1 : 0;
  }
  before = block_reduce(before, 0, reduce, Add{});
  own = block_reduce(own, 0, reduce, Add{});

  if (threadIdx.x == 0) {
    slots.starts[expert] = before;
    if (expert + 1 == static_cast<int>(slots.experts)) slots.starts[expert + 1] = before + own;
  }
  const int first_tile = before / tile_rows + expert;
  const bool is_last = expert + 1 == static_cast<int>(slots.experts);  // choices of none lie behind
  const int end_tile = is_last ? tiles : (before + own) / tile_rows + expert + 1;
  for (int i = static_cast<int>(threadIdx.x); first_tile + i < end_tile; i += kThreads) {
    const bool is_used = i * tile_rows < own;
    slots.tiles[first_tile + i] = {is_used ? expert : -1, before + i * tile_rows};
  }
  if (own == 0) return;
  int place = before;
  for (int first = 0; first < count; first += kThreads) {
    const int slot = first + static_cast<int>(threadIdx.x);
    const bool is_own = slot < count && expert_of(slot) == expert;
    int found = 0;
    const int rank = block_exclusive_sum(is_own ? 1 : 0, reduce, found);
    if (is_own) {
      slots.order[place + rank] = slot;
      slots.place[slot] = place + rank;
    }
    place += found;
  }
}

}  // namespace

void sort_slots(const ExpertSlots& slots, const View& chosen, cudaStream_t stream) {
  if (slots.slots > INT32_MAX / 2) throw std::logic_error("sort_slots: too many slots");
  launch({.grid = dim3(static_cast<unsigned>(slots.experts)),
          .block = dim3(kThreads),
          .shared_bytes = 33 * sizeof(int),
          .stream = stream},
         "sort_slots", sort_kernel, slots, chosen, static_cast<int>(slots.tile_rows()),
         static_cast<int>(slots.count_tiles()));
}

}  // namespace plimsoll::kernels
