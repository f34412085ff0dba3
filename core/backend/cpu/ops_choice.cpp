// Choice of the keys that rows see: scores of all, then the best of them.
#include <algorithm>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/top_keys.h"

namespace plimsoll::backend {
namespace {

constexpr int64_t kTaskKeys = 1024;  // keys that a task scores for a row

}  // namespace

void CpuBackend::score_keys(const IndexInputs& in, const model::AttentionSpec& spec,
                            const KvLayer& keys, const BatchMeta& batch, const KeyRange& range) {
  const auto sequence = static_cast<int64_t>(batch.row_sequence[range.row]);
  IndexTile tile{
      .query = {.q_stride = in.q.stride,
                .positions = 1,
                .head_dim = spec.head_dim,
                .scale = spec.scale,
                .pool = keys.pool + keys.layer_offset,
                .block_stride = keys.block_stride,
                .blocks = batch.block_tables[keys.group].data() + sequence * batch.table_stride,
                .block_size = keys.block_size,
                .dtype = keys.dtype,
                .scratch = attention_scratch_[range.thread].data()},
      .begin = range.begin,
      .end = range.end,
      .scores = range.scores};
  std::fill(range.scores + range.begin, range.scores + range.end, 0.f);
  for (int64_t head = 0; head < spec.heads; head += kAttentionRows) {
    tile.query.q = row_of(in.q, range.row) + head * spec.head_dim;
    tile.query.heads = static_cast<int>(std::min<int64_t>(kAttentionRows, spec.heads - head));
    tile.weights = row_of(in.weights, range.row) + head;
    kernels_.score_keys(tile);
  }
}

void CpuBackend::compute(const ops::ChooseKeys& op, std::byte* workspace) {
  const model::AttentionSpec& spec = *op.spec;
  const BatchMeta& batch = *op.batch;
  const int64_t longest = batch.table_stride * op.keys.block_size;
  auto* scores = reinterpret_cast<float*>(workspace);  // [kChoiceRows, longest]
  for (auto& scratch : attention_scratch_)
    scratch.resize(std::max(scratch.size(), static_cast<size_t>(attention_scratch(spec.head_dim))));
  // The number of tokens that a row sees where it has to choose among them, else 0.
  const auto seen_of = [&](int64_t row) {
    const auto at = static_cast<size_t>(row);
    const int64_t seen = batch.row_sequence[at] < 0 ? 0 : batch.positions[at] + 1;
    return seen > op.chosen.columns ? seen : 0;
  };
  for (int64_t first = 0; first < op.chosen.rows; first += kChoiceRows) {
    const int64_t rows = std::min(kChoiceRows, op.chosen.rows - first);
    int64_t most = 0, all = 0;
    for (int64_t row = first; row < first + rows; ++row) {
      most = std::max(most, seen_of(row));
      all += seen_of(row);
    }
    const int64_t parts = divide_up(most, kTaskKeys);
    pool_.run(rows * parts, 2 * all * spec.heads * spec.head_dim, [&](int64_t task, int thread) {
      const int64_t row = task / parts, begin = task % parts * kTaskKeys;
      const int64_t end = std::min(begin + kTaskKeys, seen_of(first + row));
      if (begin >= end) return;
      score_keys(op.in, spec, op.keys, batch,
                 {first + row, begin, end, scores + row * longest, thread});
    });
    pool_.run(rows, 16 * all, [&](int64_t row, int) {
      const int64_t seen = seen_of(first + row);
      if (seen == 0) return;
      auto* to = static_cast<int32_t*>(op.chosen.data) + (first + row) * op.chosen.stride;
      choose_largest({scores + row * longest, static_cast<size_t>(seen)},
                     {to, static_cast<size_t>(op.chosen.columns)});
    });
  }
}

}  // namespace plimsoll::backend
