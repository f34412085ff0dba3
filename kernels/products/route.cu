#include "kernels/products/experts.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxExperts = 1024;
constexpr int kMaxChoices = 32;

/// Order of a logit and its expert in an integer: the larger logit, of equals the first. NaN comes
/// last, but an expert it is: whoever reads the choice finds a row of weights.
__device__ inline unsigned long long rank_of(float x, int expert) {
  const float known = x != x ? -INFINITY : x + 0.f;  // -0 is 0
  const unsigned bits = __float_as_uint(known);
  const unsigned key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(key) << 32 | (0xffffffffu - static_cast<unsigned>(expert));
}

/// A warp per row.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    route_kernel(View experts, View weights, View logits, Normalize normalize) {
  wait_for_previous();
  start_next();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t t = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (t >= logits.rows) return;
  const T* row = static_cast<const T*>(logits.data) + t * logits.stride;
  const auto count = static_cast<int>(logits.columns);
  const auto k = static_cast<int>(experts.columns);
  float* scores = shared_array<float>() + threadIdx.x / 32 * count;
  float best = -INFINITY;
  for (int i = lane; i < count; i += 32) {
    scores[i] = to_float(row[i]);
    best = fmaxf(best, scores[i]);
  }
  __syncwarp();
  best = warp_reduce(best, Max{});
  float sum = 0;
  for (int i = lane; i < count; i += 32) sum += expf(scores[i] - best);
  sum = warp_reduce(sum, Add{});

  unsigned long long limit = ~0ull;  // ranks below it are not taken yet
  float own = 0;                     // lane i keeps choice i
  int chosen = 0;
  for (int choice = 0; choice < k; ++choice) {
    unsigned long long next = 0;
    for (int i = lane; i < count; i += 32) {
      const unsigned long long rank = rank_of(scores[i], i);
      if (rank < limit && rank > next) next = rank;
    }
    next = warp_reduce(next, Max{});
    limit = next;
    if (lane != choice) continue;
    chosen = static_cast<int>(0xffffffffu - static_cast<unsigned>(next));
    own = expf(scores[chosen] - best) / sum;
  }
  const float total = normalize == Normalize::yes ? warp_reduce(own, Add{}) : 1.f;
  if (lane >= k) return;
  static_cast<int32_t*>(experts.data)[t * experts.stride + lane] = chosen;
  static_cast<float*>(weights.data)[t * weights.stride + lane] = own / total;
}

}  // namespace

void route(const View& experts, const View& weights, const View& logits, Normalize normalize,
           cudaStream_t stream) {
  if (logits.columns > kMaxExperts || experts.columns > kMaxChoices ||
      experts.columns > logits.columns)
    throw std::logic_error("route: " + std::to_string(experts.columns) + " of " +
                           std::to_string(logits.columns) + " experts");
  with_activation_type(logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(logits.rows, kWarps))),
            .block = dim3(kWarps * 32),
            .shared_bytes = kWarps * static_cast<size_t>(logits.columns) * sizeof(float),
            .stream = stream},
           "route", route_kernel<T>, experts, weights, logits, normalize);
  });
}

}  // namespace plimsoll::kernels
