#include "kernels/rows/change_logits.h"

#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

using backend::ChangeSection;
using backend::TokenChange;

constexpr int kThreads = 256;

/// The changes of one row.
struct RowChanges {
  const TokenChange* changes;
  const int32_t* sections;  // of the row: five borders

  __device__ int begin(ChangeSection section) const { return sections[static_cast<int>(section)]; }
  __device__ int end(ChangeSection section) const {
    return sections[static_cast<int>(section) + 1];
  }
  /// Calls f(change) for each of a section, on some thread.
  template <typename F>
  __device__ void for_each(ChangeSection section, F f) const {
    const int last = end(section);
    for (int i = begin(section) + static_cast<int>(threadIdx.x); i < last; i += kThreads)
      f(changes[i]);
  }
  /// True when a token is among those that are allowed, which are searched by halving.
  __device__ bool allows(int32_t token) const {
    int low = begin(ChangeSection::allowed);
    const int last = end(ChangeSection::allowed);
    int high = last;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (changes[middle].token < token)
        low = middle + 1;
      else
        high = middle;
    }
    return low < last && changes[low].token == token;
  }
};

struct Penalties {
  float repetition, frequency, presence;

  /// The logit of a token that is `count` times in the output. Products and sums are rounded
  /// separately, as on the CPU.
  __device__ float operator()(float x, int count) const {
    x = x > 0 ? __fdiv_rn(x, repetition) : __fmul_rn(x, repetition);
    if (count == 0) return x;
    return __fsub_rn(__fsub_rn(x, __fmul_rn(frequency, static_cast<float>(count))), presence);
  }
};

__device__ inline void mask(float& x) {
  if (x < INFINITY) x = -INFINITY;
}

/// A block per row. The kinds of changes come one after the other, since several may be of one
/// token.
__global__ void __launch_bounds__(kThreads) change_logits_kernel(ChangeLogits op) {
  wait_for_previous();
  start_next();
  const int64_t r = blockIdx.x;
  const RowChanges row{op.changes, op.sections + int64_t{backend::kChangeSections} * r};
  const bool adds_own = op.adds_own[r] != 0;
  const int64_t mask_of = op.masks == nullptr ? -1 : op.mask_of[r];
  const bool lists = row.begin(ChangeSection::allowed) < row.end(ChangeSection::seen);
  if (!lists && !adds_own && mask_of < 0) return;
  float* logits = static_cast<float*>(op.logits.data) + r * op.logits.stride;
  const int32_t at = op.rows[r];
  const int32_t own = at < 0 ? -1 : op.token_ids[at];
  if (row.begin(ChangeSection::allowed) < row.end(ChangeSection::allowed)) {
    for (int64_t id = threadIdx.x; id < op.logits.columns; id += kThreads)
      if (!row.allows(static_cast<int32_t>(id))) mask(logits[id]);
    __syncthreads();
  }
  if (mask_of >= 0) {
    const int32_t* words = op.masks + mask_of * op.mask_words;
    for (int64_t id = threadIdx.x; id < op.logits.columns; id += kThreads)
      if ((static_cast<uint32_t>(words[id / 32]) >> id % 32 & 1) == 0) mask(logits[id]);
    __syncthreads();
  }
  row.for_each(ChangeSection::masked, [&](TokenChange change) {
    if (change.value < 0 || change.value == own) mask(logits[change.token]);
  });
  __syncthreads();
  row.for_each(ChangeSection::biased,
               [&](TokenChange change) { logits[change.token] += __int_as_float(change.value); });
  __syncthreads();
  const Penalties penalize{op.repetition[r], op.frequency[r], op.presence[r]};
  bool has_own = false;
  row.for_each(ChangeSection::seen, [&](TokenChange change) {
    const bool is_own = adds_own && change.token == own;
    has_own = has_own || is_own;
    float& logit = logits[change.token];
    logit = penalize(logit, change.value + (is_own ? 1 : 0));
  });
  has_own = __syncthreads_or(has_own ? 1 : 0) != 0;
  if (adds_own && !has_own && own >= 0 && threadIdx.x == 0) logits[own] = penalize(logits[own], 1);
}

}  // namespace

void change_logits(const ChangeLogits& op, cudaStream_t stream) {
  if (op.logits.dtype != DType::f32)
    throw std::logic_error("change_logits: logits that are not float32");
  launch({.grid = dim3(static_cast<unsigned>(op.logits.rows)),
          .block = dim3(kThreads),
          .stream = stream},
         "change_logits", change_logits_kernel, op);
}

}  // namespace plimsoll::kernels
