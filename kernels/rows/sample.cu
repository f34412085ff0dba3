// Ranks are 64-bit words, the logit's bits in an order that integers have, then the id turned
// round: the larger word is the better token. What top_k and top_p keep is all words from a
// threshold on. It is found by a histogram, whose bin at the border is gathered in shared memory,
// or cut again while it is too large.
#include "kernels/rows/sample.h"

#include "backend/cuda/footprint.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kBins = 2048;
constexpr int kList = 1024;
constexpr int kChunk = 128;         // ids of a bin of the draw, or a multiple where there are many
constexpr float kBinsPerUnit = 64;  // of the distance to the largest logit
constexpr double kGreedy = 1e-5;    // temperature below it

using Word = unsigned long long;
using Mass = unsigned long long;

struct Shared {
  Mass reduce[33];
  Mass before;          // of bins before the border
  int border;           // bin; -1: what is wanted is more than all
  unsigned list_count;  // may exceed kList
  Word result;
  unsigned low[kBins];  // sums of the bins
  unsigned high[kBins];
  Word words[kList];
  Mass masses[kList];
};

__device__ inline unsigned key_of(float x) {
  const unsigned bits = __float_as_uint(x + 0.f);  // -0 is 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float value_of(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}
__device__ inline Word word_of(float x, int id) {
  return Word{key_of(x)} << 32 | (0xffffffffu - static_cast<unsigned>(id));
}

/// A row of logits.
struct Row {
  const float* logits = nullptr;
  int count = 0;
  bool is_wide;  // can be read 16 bytes at a time
  float largest = 0;
  float inverse;  // 1 / temperature
  float least;    // weight below which min_p drops a token

  /// Weight in units of 2^-44; 0 for -infinity.
  __device__ Mass mass(float x) const {
    // The distance is bounded, so that it stays a number times 0.
    const float weight = expf(-(fminf(largest - x, 1e30f) * inverse));
    if (x == -INFINITY || weight < least) return 0;
    return static_cast<Mass>(__float2ull_rn(weight * 0x1p44f));
  }
  /// Calls f(id, logit) for all of the row, on some thread each.
  template <typename F>
  __device__ void for_each(F f) const {
    const int wide = is_wide ? count / 4 * 4 : 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * 4; i < wide; i += kThreads * 4) {
      const float4 x = *reinterpret_cast<const float4*>(logits + i);
      f(i, x.x);
      f(i + 1, x.y);
      f(i + 2, x.z);
      f(i + 3, x.w);
    }
    for (int i = wide + static_cast<int>(threadIdx.x); i < count; i += kThreads) f(i, logits[i]);
  }
};

/// Measure by which a border is searched: the number of tokens, or their mass.
enum class Measure : uint8_t { count, mass };

struct Goal {
  Measure measure;
  double share;  // of the total mass
  Mass wanted;   // tokens

  __device__ Mass of(Mass total) const {
    if (measure == Measure::count) return wanted;
    const auto part = static_cast<Mass>(ceil(share * static_cast<double>(total)));
    return part < 1 ? 1 : (part > total ? total : part);
  }
  __device__ Mass value(const Row& row, float x) const {
    if (measure == Measure::count) return x == -INFINITY ? 0 : 1;
    return row.mass(x);
  }
};

/// 64-bit sums by 32-bit atomics, which shared memory has in hardware.
__device__ inline void add_to_bin(Shared& s, int bin, Mass value) {
  const auto low = static_cast<unsigned>(value);
  const unsigned before = atomicAdd(&s.low[bin], low);
  const unsigned carry = before + low < before ? 1u : 0u;
  const unsigned high = static_cast<unsigned>(value >> 32) + carry;
  if (high != 0) atomicAdd(&s.high[bin], high);
}

__device__ inline void clear_bins(Shared& s) {
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) s.low[i] = s.high[i] = 0;
  __syncthreads();
}

/// Writes border and before: the bin in which the running sum reaches wanted_of(total). All threads
/// get the total.
template <typename WantedOf>
__device__ Mass find_border(Shared& s, WantedOf wanted_of) {
  constexpr int kOwn = kBins / kThreads;
  const int first = static_cast<int>(threadIdx.x) * kOwn;
  Mass own[kOwn];
  Mass sum = 0;
  for (int i = 0; i < kOwn; ++i) sum += own[i] = Mass{s.high[first + i]} << 32 | s.low[first + i];
  if (threadIdx.x == 0) s.border = -1;
  Mass total = 0;
  Mass before = block_exclusive_sum(sum, s.reduce, total);
  const Mass wanted = wanted_of(total);
  for (int i = 0; i < kOwn; ++i) {
    if (before < wanted && wanted <= before + own[i]) {
      s.border = first + i;
      s.before = before;
    }
    before += own[i];
  }
  __syncthreads();
  return total;
}

/// Bins by distance from the largest logit, the best first; the last takes all that lie farther.
struct DistanceBins {
  float largest;
  float scale;
  __device__ int operator()(float x) const {
    return static_cast<int>(fminf((largest - x) * scale, static_cast<float>(kBins - 1)));
  }
};

/// Words from low to high, both included.
struct Interval {
  Word low;
  Word high;
};

/// All words of a bin. Bins fall as keys rise, so both ends are found by halving.
__device__ inline Interval words_of(const DistanceBins& bins, int bin) {
  const unsigned least = key_of(-INFINITY) + 1;
  const unsigned most = key_of(bins.largest);
  const auto first_key = [&](int limit) {  // the smallest key whose bin is at most `limit`
    unsigned low = least;
    unsigned high = most + 1;
    while (low < high) {
      const unsigned middle = low + (high - low) / 2;
      if (bins(value_of(middle)) <= limit)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  return {Word{first_key(bin)} << 32, (Word{first_key(bin - 1)} << 32) - 1};
}

/// Gathers the words of an interval that count, as far as they find room. The number of them.
__device__ inline unsigned gather(const Row& row, const Goal& goal, Interval in, Shared& s) {
  if (threadIdx.x == 0) s.list_count = 0;
  __syncthreads();
  row.for_each([&](int id, float x) {
    const Word word = word_of(x, id);
    if (word < in.low || word > in.high) return;
    const Mass value = goal.value(row, x);
    if (value == 0) return;
    const unsigned at = atomicAdd(&s.list_count, 1u);
    if (at >= kList) return;
    s.words[at] = word;
    s.masses[at] = value;
  });
  __syncthreads();
  return s.list_count;
}

/// Cuts an interval into bins of equal width and keeps the one at the border.
__device__ inline void narrow(const Row& row, const Goal& goal, Interval& in, Mass& wanted,
                              Shared& s) {
  constexpr int kBits = 11;
  static_assert(1 << kBits == kBins);
  int shift = 0;
  while ((in.high - in.low) >> shift >= Word{kBins}) ++shift;
  clear_bins(s);
  row.for_each([&](int id, float x) {
    const Word word = word_of(x, id);
    if (word < in.low || word > in.high) return;
    const Mass value = goal.value(row, x);
    if (value != 0) add_to_bin(s, kBins - 1 - static_cast<int>((word - in.low) >> shift), value);
  });
  __syncthreads();
  find_border(s, [&](Mass) { return wanted; });
  wanted -= s.before;
  const Word low = in.low + (Word{static_cast<unsigned>(kBins - 1 - s.border)} << shift);
  const Word high = low + ((Word{1} << shift) - 1);
  in = {low, high < in.high ? high : in.high};
  __syncthreads();
}

/// The word of the list at which the running sum from the best on reaches `wanted`.
__device__ inline Word find_in_list(unsigned count, Mass wanted, Shared& s) {
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const Word word = s.words[i];
    Mass before = 0;
    for (unsigned j = 0; j < count; ++j) before += s.words[j] > word ? s.masses[j] : 0;
    if (before < wanted && wanted <= before + s.masses[i]) s.result = word;
  }
  __syncthreads();
  const Word result = s.result;
  __syncthreads();
  return result;
}

/// The worst word that is kept: of the words from `from` on, best first, the first at which the
/// running sum reaches the goal; `from` itself when it never does.
__device__ inline Word find_threshold(const Row& row, const Goal& goal, Word from, Shared& s) {
  const bool by_count = goal.measure == Measure::count;
  const DistanceBins bins{row.largest, by_count ? kBinsPerUnit : kBinsPerUnit * row.inverse};
  clear_bins(s);
  Mass far = 0;  // most of the vocabulary, perhaps: not by atomics on one address
  row.for_each([&](int id, float x) {
    const Mass value = goal.value(row, x);
    if (value == 0 || word_of(x, id) < from) return;
    const int bin = bins(x);
    if (bin == kBins - 1)
      far += value;
    else
      add_to_bin(s, bin, value);
  });
  far = block_reduce(far, Mass{0}, s.reduce, Add{});
  if (threadIdx.x == 0 && far != 0) add_to_bin(s, kBins - 1, far);
  __syncthreads();
  Mass wanted = 0;
  find_border(s, [&](Mass total) { return wanted = goal.of(total); });
  if (s.border < 0) return from;
  wanted -= s.before;
  Interval in = words_of(bins, s.border);
  if (in.low < from) in.low = from;
  __syncthreads();
  unsigned count = gather(row, goal, in, s);
  while (count > kList) {
    narrow(row, goal, in, wanted, s);
    count = gather(row, goal, in, s);
  }
  return find_in_list(count, wanted, s);
}

/// Ids of a bin, so that the bins hold them all. Example: 128 up to 262,144 ids, 256 for Gemma 3's
/// 262,208.
__device__ inline int chunk_of(int count) {
  return divide_up(count, kBins * kChunk) * kChunk;
}

/// Draws in id order from the words from `threshold` on.
__device__ inline int draw(const Row& row, Word threshold, double uniform, int best, Shared& s) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto kept = [&](int id) -> Mass {
    if (id >= row.count) return 0;
    const float x = row.logits[id];
    return word_of(x, id) < threshold ? 0 : row.mass(x);
  };
  clear_bins(s);
  const int size = chunk_of(row.count);
  const int chunks = divide_up(row.count, size);
  for (int chunk = static_cast<int>(threadIdx.x / 32); chunk < chunks; chunk += kThreads / 32) {
    Mass sum = 0;
    for (int i = 0; i < size; i += 32) sum += kept(chunk * size + i + lane);
    sum = warp_reduce(sum, Add{});
    if (lane == 0) {
      s.low[chunk] = static_cast<unsigned>(sum);
      s.high[chunk] = static_cast<unsigned>(sum >> 32);
    }
  }
  __syncthreads();
  Mass target = 0;
  const Mass total = find_border(s, [&](Mass all) {
    target = static_cast<Mass>(uniform * static_cast<double>(all));
    if (target >= all) target = all - 1;
    return target + 1;
  });
  if (total == 0) return best;
  target -= s.before;
  // A few neighbours for each lane of a warp; the other warps do the same.
  const int neighbours = size / 32;
  const int first = s.border * size + lane * neighbours;
  Mass sum = 0;
  for (int i = 0; i < neighbours; ++i) sum += kept(first + i);
  Mass before = sum;
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const Mass other = __shfl_up_sync(kAllLanes, before, lanes);
    if (lane >= static_cast<int>(lanes)) before += other;
  }
  before -= sum;
  int token = 0;
  for (int i = 0; i < neighbours; ++i) {
    const Mass own = kept(first + i);
    if (before <= target && target < before + own) token = first + i;
    before += own;
  }
  return warp_reduce(token, Max{});
}

__global__ void __launch_bounds__(kThreads) sample_kernel(Sample op) {
  wait_for_previous();
  start_next();
  Shared& s = *shared_array<Shared>();
  const int64_t r = blockIdx.x;
  Row row;
  row.logits = static_cast<const float*>(op.logits.data) + r * op.logits.stride;
  row.count = static_cast<int>(op.logits.columns);
  row.is_wide = reinterpret_cast<uintptr_t>(row.logits) % 16 == 0;
  Word best = 0;
  bool is_bad = false;
  row.for_each([&](int id, float x) {
    is_bad = is_bad || !(x < INFINITY);
    const Word word = word_of(x, id);
    best = word > best ? word : best;
  });
  is_bad = __syncthreads_or(is_bad ? 1 : 0) != 0;
  best = block_reduce(best, Word{0}, s.reduce, Max{});
  row.largest = value_of(static_cast<unsigned>(best >> 32));
  const auto best_id = static_cast<int>(0xffffffffu - static_cast<unsigned>(best));
  const double temperature = op.temperature[r];
  int token = best_id;
  if (is_bad)
    token = -1;
  else if (row.largest == -INFINITY)
    token = -2;
  else if (!(temperature < kGreedy)) {
    row.inverse = static_cast<float>(1 / temperature);
    row.least = 0;
    Word threshold = 0;
    const int k = op.top_k[r];
    if (k > 0 && k < row.count)
      threshold = find_threshold(row, {Measure::count, 0, static_cast<Mass>(k)}, 0, s);
    row.least = static_cast<float>(op.min_p[r]);
    if (op.top_p[r] < 1)
      threshold = find_threshold(row, {Measure::mass, op.top_p[r], 0}, threshold, s);
    token = draw(row, threshold, op.uniform[r], best_id, s);
  }
  if (threadIdx.x == 0) op.drawn[r] = token;
}

}  // namespace

void sample(const Sample& op, cudaStream_t stream) {
  if (op.logits.columns > backend::kMostDrawnVocabulary || op.logits.columns < 1)
    throw std::logic_error("sample: a vocabulary of " + std::to_string(op.logits.columns));
  if (op.logits.dtype != DType::f32) throw std::logic_error("sample: logits that are not float32");
  launch({.grid = dim3(static_cast<unsigned>(op.logits.rows)),
          .block = dim3(kThreads),
          .shared_bytes = sizeof(Shared),
          .stream = stream},
         "sample", sample_kernel, op);
}

}  // namespace plimsoll::kernels
