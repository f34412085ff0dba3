// The table of XQA's kernels in emulation. Nothing here runs their instructions: stand-ins compute
// what a launch says, in double precision, so that what the host hands to the kernels is tested.
// They use counters and scratch as the kernel does: a counter that is not zero, or scratch that is
// smaller than its formula, shows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "emulation/emulator.h"
#include "kernels/attention/xqa_kernel.h"
#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {
namespace {

/// One query head of a sequence.
template <typename T, typename KV>
void attend_head(const XqaArguments& a, int64_t sequence, int64_t head, int64_t head_dim) {
  const int64_t row = (a.heads + 2 * a.kv_heads) * head_dim;
  const T* q = static_cast<const T*>(a.q) + sequence * row + head * head_dim;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const auto offset = [&](int64_t p) {
    const int32_t block = a.block_table[sequence * a.table_stride + p / kXqaPage];
    return (block * a.block_stride + kv_head * kXqaPage + p % kXqaPage) * head_dim;
  };
  const int64_t length = a.context_length[sequence];
  std::vector<double> scores, sum(static_cast<size_t>(head_dim), 0.0);
  for (int64_t p = 0; p < length; ++p) {
    const KV* k = static_cast<const KV*>(a.k) + offset(p);
    double score = 0;
    for (int64_t c = 0; c < head_dim; ++c) score += double(to_float(q[c])) * double(to_float(k[c]));
    scores.push_back(score * double(a.scale) * double(a.k_scale));
  }
  const double most = scores.empty() ? 0 : *std::ranges::max_element(scores);
  double weights = 0;
  for (int64_t p = 0; p < length; ++p) {
    const KV* v = static_cast<const KV*>(a.v) + offset(p);
    const double weight = std::exp(scores[static_cast<size_t>(p)] - most);
    weights += weight;
    for (int64_t c = 0; c < head_dim; ++c)
      sum[static_cast<size_t>(c)] += weight * double(to_float(v[c]));
  }
  T* out = static_cast<T*>(a.out) + (sequence * a.heads + head) * head_dim;
  for (int64_t c = 0; c < head_dim; ++c) {
    const double mean = length == 0 ? 0 : sum[static_cast<size_t>(c)] / weights;
    out[c] = from_float<T>(static_cast<float>(mean * double(a.v_scale)));
  }
}

/// What several parts leave on their way.
void use_memory(const XqaArguments& a, int64_t head_dim) {
  if (a.parts == 1) return;
  const int64_t rows = a.sequences * a.kv_heads;
  for (int64_t i = 0; i < rows; ++i) {
    if (a.counters[i] != 0) throw std::logic_error("attention (XQA): a counter is not zero");
  }
  std::memset(a.scratch, 0xff, static_cast<size_t>(rows * a.parts) * xqa_part_bytes(head_dim));
}

template <typename T, typename KV, int head_dim>
void stand_in(const XqaArguments& a, cudaStream_t stream) {
  ++emulation::launches;
  emulation::submit(stream, [a] {
    use_memory(a, head_dim);
    for (int64_t sequence = 0; sequence < a.sequences; ++sequence)
      for (int64_t head = 0; head < a.heads; ++head)
        attend_head<T, KV>(a, sequence, head, head_dim);
  });
}

bool ready() {
  return true;
}

}  // namespace

std::span<const XqaUnit> xqa_units() {
  using enum DType;
  using Bf16 = __nv_bfloat16;
  using F8 = __nv_fp8_e4m3;
  static const std::vector<XqaUnit> units = {{bf16, bf16, 64, ready, stand_in<Bf16, Bf16, 64>},
                                             {bf16, bf16, 128, ready, stand_in<Bf16, Bf16, 128>},
                                             {bf16, bf16, 256, ready, stand_in<Bf16, Bf16, 256>},
                                             {bf16, f8_e4m3, 64, ready, stand_in<Bf16, F8, 64>},
                                             {bf16, f8_e4m3, 128, ready, stand_in<Bf16, F8, 128>},
                                             {bf16, f8_e4m3, 256, ready, stand_in<Bf16, F8, 256>},
                                             {f16, f16, 64, ready, stand_in<__half, __half, 64>},
                                             {f16, f16, 128, ready, stand_in<__half, __half, 128>},
                                             {f16, f16, 256, ready, stand_in<__half, __half, 256>}};
  return units;
}

}  // namespace plimsoll::kernels
