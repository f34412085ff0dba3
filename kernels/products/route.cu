#include "kernels/products/experts.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxExperts = 1024;
constexpr int kMaxChoices = 32;
constexpr int kMaxGroups = 32;

/// Order of a logit and its expert in an integer: the larger logit, of equals the first. NaN comes
/// last, but with a valid expert: readers of the choice find a row of weights.
__device__ inline unsigned long long rank_of(float x, int expert) {
  const float known = x != x ? -INFINITY : x + 0.f;  // -0 is 0
  const unsigned bits = __float_as_uint(known);
  const unsigned key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(key) << 32 | (0xffffffffu - static_cast<unsigned>(expert));
}

/// Scores of the row that a warp routes.
struct RowScores {
  float* scores;  // [count]
  float* ranks;   // [count]: what the choice goes by
  float* worths;  // [kMaxGroups]
  int count;
  int lane;

  /// f(i) for each expert, on all lanes.
  template <typename F>
  __device__ void each(F f) const {
    for (int i = lane; i < count; i += 32) f(i);
    __syncwarp();
  }
  /// The largest rank below `limit`.
  __device__ unsigned long long best_below(unsigned long long limit) const {
    unsigned long long next = 0;
    for (int i = lane; i < count; i += 32) {
      const unsigned long long rank = rank_of(ranks[i], i);
      if (rank < limit && rank > next) next = rank;
    }
    return warp_reduce(next, Max{});
  }
};

__device__ inline int expert_of(unsigned long long rank) {
  return static_cast<int>(0xffffffffu - static_cast<unsigned>(rank));
}

/// Logits to scores.
__device__ inline void score_row(const RowScores& row, model::RouterScore kind) {
  if (kind == model::RouterScore::sigmoid)
    return row.each([&](int i) { row.scores[i] = 1.f / (1.f + expf(-row.scores[i])); });
  float best = -INFINITY;
  for (int i = row.lane; i < row.count; i += 32) best = fmaxf(best, row.scores[i]);
  best = warp_reduce(best, Max{});
  float sum = 0;
  for (int i = row.lane; i < row.count; i += 32) sum += expf(row.scores[i] - best);
  sum = warp_reduce(sum, Add{});
  row.each([&](int i) { row.scores[i] = expf(row.scores[i] - best) / sum; });
}

/// Leaves the ranks of the best groups, of equals the first.
__device__ inline void keep_best_groups(const RowScores& row, const model::RouterSpec& router) {
  const auto groups = static_cast<int>(router.groups);
  const int size = row.count / groups;
  if (row.lane < groups) {
    float first = -INFINITY, second = -INFINITY;
    for (int i = row.lane * size; i < (row.lane + 1) * size; ++i) {
      second = fmaxf(second, fminf(first, row.ranks[i]));
      first = fmaxf(first, row.ranks[i]);
    }
    const bool one = router.group_score == model::GroupScore::best || size < 2;
    row.worths[row.lane] = one ? first : first + second;
  }
  __syncwarp();
  row.each([&](int i) {
    const int group = i / size;
    int better = 0;
    for (int other = 0; other < groups; ++other)
      if (row.worths[other] > row.worths[group] ||
          (row.worths[other] == row.worths[group] && other < group))
        ++better;
    if (better >= static_cast<int>(router.groups_chosen)) row.ranks[i] = -INFINITY;
  });
}

/// The sum of exponentials of the logits that are not yet taken and not far below the best of them,
/// whose rank is `next`.
__device__ inline float near_sum(const RowScores& row, unsigned long long next, float nearness) {
  const float best = row.scores[expert_of(next)];
  float sum = 0;
  for (int i = row.lane; i < row.count; i += 32) {
    const float s = row.scores[i];
    if (rank_of(s, i) > next || !((best - s) / fmaxf(fabsf(s), best) <= nearness)) continue;
    sum += expf(s - best);
  }
  return warp_reduce(sum, Add{});
}

/// A warp per row.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    route_kernel(View experts, View weights, View logits, model::RouterSpec router, Vector bias) {
  wait_for_previous();
  start_next();
  const int64_t t = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (t >= logits.rows) return;
  const T* from = static_cast<const T*>(logits.data) + t * logits.stride;
  const auto count = static_cast<int>(logits.columns);
  const auto k = static_cast<int>(experts.columns);
  float* own_rows = shared_array<float>() + threadIdx.x / 32 * (2 * count + kMaxGroups);
  const RowScores row{own_rows, own_rows + count, own_rows + 2 * count, count,
                      static_cast<int>(threadIdx.x % 32)};
  row.each([&](int i) { row.scores[i] = row.ranks[i] = to_float(from[i]); });
  const bool sparse = router.score == model::RouterScore::sparsemixer;
  if (!sparse) score_row(row, router.score);
  if (bias.present() || router.groups > 1)  // else logits order as their scores do
    row.each([&](int i) { row.ranks[i] = row.scores[i] + (bias.present() ? bias.at(i) : 0.f); });
  if (router.groups > 1) keep_best_groups(row, router);

  unsigned long long limit = ~0ull;  // ranks below it are not taken yet
  float own = 0;                     // lane i keeps choice i
  int chosen = 0;
  for (int choice = 0; choice < k; ++choice) {
    limit = row.best_below(limit);
    const float sum = sparse ? near_sum(row, limit, router.nearness) : 0.f;
    if (row.lane != choice) continue;
    chosen = expert_of(limit);
    own = sparse ? 1.f / sum : row.scores[chosen];
  }
  const float total = warp_reduce(own, Add{});
  if (row.lane >= k) return;
  const bool divides = router.normalize && !sparse;
  const float divisor = divides ? fmaxf(total + router.epsilon, router.least_sum) : 1.f;
  static_cast<int32_t*>(experts.data)[t * experts.stride + row.lane] = chosen;
  static_cast<float*>(weights.data)[t * weights.stride + row.lane] = own / divisor * router.factor;
}

}  // namespace

void route(const View& experts, const View& weights, const View& logits,
           const model::RouterSpec& router, const Vector& choice_bias, cudaStream_t stream) {
  if (logits.columns > kMaxExperts || experts.columns > kMaxChoices ||
      experts.columns > logits.columns || router.groups > kMaxGroups)
    throw std::logic_error("route: " + std::to_string(experts.columns) + " of " +
                           std::to_string(logits.columns) + " experts in " +
                           std::to_string(router.groups) + " groups");
  with_activation_type(logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(logits.rows, kWarps))),
            .block = dim3(kWarps * 32),
            .shared_bytes =
                kWarps * static_cast<size_t>(2 * logits.columns + kMaxGroups) * sizeof(float),
            .stream = stream},
           "route", route_kernel<T>, experts, weights, logits, router, choice_bias);
  });
}

}  // namespace plimsoll::kernels
