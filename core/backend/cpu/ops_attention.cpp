// RoPE, the KV cache and attention.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"

namespace plimsoll::backend {
namespace {

/// Rows from `row` on of a matrix of numbers; null where it has no columns.
const int32_t* numbers(const View& view, int64_t row) {
  if (view.columns == 0) return nullptr;
  return static_cast<const int32_t*>(view.data) + row * view.stride;
}

/// Block that holds a position of a sequence.
int32_t block_at(const BatchMeta& batch, const KvLayer& cache, int64_t sequence, int64_t position) {
  const auto& table = batch.block_tables[cache.group];
  return table[sequence * batch.table_stride + position / cache.block_size];
}

/// Writes a key [key_columns(d)], already in the cache's type, into the lane of `slot` in its tile,
/// [d / step][16][step].
void store_key(const std::byte* key, int64_t head_dim, int64_t slot, DType dtype, std::byte* tile) {
  const size_t unit = dtype_size(dtype) * pair_step(dtype);
  std::byte* to = tile + slot % kTile * unit;
  const auto units = static_cast<size_t>(key_columns(head_dim) / pair_step(dtype));
  for (size_t i = 0; i < units; ++i) std::memcpy(to + i * kTile * unit, key + i * unit, unit);
}

/// Factor of q at `position` by QueryGrowth.
float growth_at(const model::QueryGrowth& growth, int64_t position) {
  const int64_t periods = (position + growth.shift) / growth.period;
  return 1 + growth.beta * std::log1p(static_cast<float>(periods));
}

}  // namespace

void CpuBackend::compute(const ops::RopeAngles& op) {
  const model::RopeSpec& rope = *op.rope;
  const BatchMeta& batch = *op.batch;
  for_rows(op.out.rows, 8 * op.out.columns, [&](int64_t t) {
    const auto row = static_cast<size_t>(t);
    const int32_t sequence = batch.row_sequence[row];
    const bool is_long =
        rope.long_table.has_value() && sequence >= 0 && batch.long_rope[sequence] != 0;
    const model::RopeTable& table = is_long ? *rope.long_table : rope.table;
    float* to = static_cast<float*>(op.out.data) + t * op.out.stride;
    const int64_t half = rope.rotary_dim / 2;
    // Each section of the speeds has a kind of position, where the step has several.
    const bool kinds = !rope.sections.empty() && !batch.rope_positions.empty();
    size_t section = 0;
    int64_t section_end = kinds ? rope.sections[0] : half;
    for (int64_t i = 0; i < half; ++i) {
      while (i >= section_end) section_end += rope.sections[++section];
      const int32_t position = kinds ? batch.rope_positions[section * batch.positions.size() + row]
                                     : batch.positions[row];
      const float angle = static_cast<float>(position) * table.inverse_frequencies[i];
      to[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * table.scale;
      to[half + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * table.scale;
    }
  });
}

void CpuBackend::norm_heads(float* heads, int64_t count, const model::AttentionSpec& spec,
                            const model::Norm& norm, const Weight& weight,
                            const Weight& bias) const {
  if (!norm.present) return;
  const auto* weights = static_cast<const float*>(weight.data);
  const auto* biases = static_cast<const float*>(bias.data);
  const int64_t d = spec.head_dim;
  if (spec.norm_span == model::NormSpan::all_heads) {
    return norm_row(heads, heads, count * d, norm, weights, biases);
  }
  const auto of_head = [d](const Weight& vector, const float* values, int64_t head) {
    return vector && vector.spec->elements() > d ? values + head * d : values;
  };
  for (int64_t h = 0; h < count; ++h) {
    float* head = heads + h * d;
    norm_row(head, head, d, norm, of_head(weight, weights, h), of_head(bias, biases, h));
  }
}

void CpuBackend::shape_heads(float* row, const float* angles, int64_t rotary_dim, int64_t position,
                             const model::AttentionSpec& spec, const HeadNorms& norms) const {
  const int64_t d = spec.head_dim;
  float* keys = row + spec.heads * d;
  float* values = keys + spec.kv_heads * d;
  if (spec.clamp > 0) kernels_.clamp(row, (spec.heads + spec.stored_heads()) * d, spec.clamp);
  const auto norm_all = [&] {
    norm_heads(row, spec.heads, spec, spec.q_norm, norms.q, norms.q_bias);
    norm_heads(keys, spec.kv_heads, spec, spec.k_norm, norms.k, norms.k_bias);
  };
  if (spec.norm_order == model::NormOrder::before_rope) norm_all();
  for (int64_t h = 0; angles != nullptr && h < spec.heads + spec.kv_heads; ++h) {
    kernels_.rotate(row + h * d, angles, rotary_dim, spec.rope_pairs);
  }
  if (spec.norm_order == model::NormOrder::after_rope) norm_all();
  if (spec.query_growth.beta != 0) {
    kernels_.scale(row, growth_at(spec.query_growth, position), spec.heads * d);
  }
  for (int64_t h = 0; spec.v_norm.present && h < spec.kv_heads; ++h) {
    norm_row(values + h * d, values + h * d, d, spec.v_norm, nullptr, nullptr);
  }
}

void CpuBackend::compute(const ops::RopeAndStore& op) {
  const model::AttentionSpec& spec = *op.spec;
  const BatchMeta& batch = *op.batch;
  const KvBlock block(spec, op.cache.block_size, op.cache.dtype);
  const CacheScales scales = op.cache.scales(spec);
  const int64_t d = spec.head_dim;
  for_rows(op.qkv.rows, op.qkv.columns, [&](int64_t t) {
    float* row = static_cast<float*>(op.qkv.data) + t * op.qkv.stride;
    const float* turns = op.angles.rows == 0
                             ? nullptr
                             : static_cast<const float*>(op.angles.data) + t * op.angles.stride;
    shape_heads(row, turns, op.angles.columns, batch.positions[t], spec, op.norms);
    const auto at = static_cast<size_t>(t);
    if (batch.row_sequence[at] < 0) return;
    const int64_t position = batch.positions[at];
    const int64_t slot = position % op.cache.block_size;
    const int32_t number = block_at(batch, op.cache, batch.row_sequence[at], position);
    std::byte* to = op.cache.pool + number * op.cache.block_stride + op.cache.layer_offset;
    float* keys = row + spec.heads * d;
    float* values = keys + spec.kv_heads * d;
    if (op.cache.dtype == DType::f8_e4m3) {
      // Attention reads them from the cache alone.
      kernels_.scale(keys, 1 / scales.key, spec.kv_heads * d);
      if (spec.has_values) kernels_.scale(values, 1 / scales.value, spec.kv_heads * d);
    }
    std::vector<std::byte> stored(key_columns(d) * block.element);
    for (int64_t h = 0; h < spec.kv_heads; ++h) {
      kernels_.narrow(keys + h * d, stored.data(), op.cache.dtype, d);
      store_key(stored.data(), d, slot, op.cache.dtype, to + block.key_tile(h, slot));
      if (!spec.has_values) continue;
      kernels_.narrow(values + h * d, to + block.value_row(h, slot), op.cache.dtype, d);
    }
  });
}

CpuBackend::AttentionTasks CpuBackend::divide_attention(const model::AttentionSpec& spec,
                                                        const BatchMeta& batch,
                                                        std::byte* workspace) const {
  AttentionTasks tasks;
  tasks.sequences = static_cast<int64_t>(batch.context_length.size());
  const int64_t group = spec.heads / spec.kv_heads;
  // With fewer pairs of sequence and KV head than threads, the query heads of a pair are divided.
  const int64_t pairs = std::max<int64_t>(1, tasks.sequences * spec.kv_heads);
  const int64_t wanted = std::min(group, divide_up<int64_t>(pool_.threads(), pairs));
  tasks.heads = std::min<int64_t>(divide_up(group, wanted), kAttentionRows);
  tasks.parts = divide_up(group, tasks.heads);
  tasks.positions = kAttentionRows / tasks.heads;
  tasks.first = reinterpret_cast<int64_t*>(workspace);
  tasks.first[0] = 0;
  for (int64_t s = 0; s < tasks.sequences; ++s) {
    const auto at = static_cast<size_t>(s);
    const int64_t rows = batch.query_start[at + 1] - batch.query_start[at];
    tasks.operations += 4 * rows * batch.context_length[at] * spec.heads * spec.head_dim;
    const int64_t runs = batch.context_length[at] > 0 ? rows : 0;  // not padding
    tasks.first[s + 1] =
        tasks.first[s] + divide_up(runs, tasks.positions) * spec.kv_heads * tasks.parts;
  }
  return tasks;
}

void CpuBackend::compute(const ops::Attention& op, std::byte* workspace) {
  const model::AttentionSpec& spec = *op.spec;
  const BatchMeta& batch = *op.batch;
  const KvBlock block(spec, op.cache.block_size, op.cache.dtype);
  const int64_t group = spec.heads / spec.kv_heads;
  const AttentionTasks tasks = divide_attention(spec, batch, workspace);
  const int64_t count = tasks.first[tasks.sequences];
  const CacheScales scales = op.cache.scales(spec);
  for (auto& scratch : attention_scratch_)
    scratch.resize(std::max(scratch.size(), static_cast<size_t>(attention_scratch(spec.head_dim))));

  for (int64_t row = op.out.rows - batch.padding; row < op.out.rows; ++row)
    std::fill_n(static_cast<float*>(op.out.data) + row * op.out.stride, op.out.columns, 0.f);
  pool_.run(count, tasks.operations, [&](int64_t number, int thread) {
    // Last tasks first: they have the longest contexts.
    const int64_t task = count - 1 - number;
    const int64_t s =
        std::upper_bound(tasks.first, tasks.first + tasks.sequences + 1, task) - tasks.first - 1;
    const auto at = static_cast<size_t>(s);
    const int64_t local = task - tasks.first[s];
    const int64_t kv_head = local / tasks.parts % spec.kv_heads;
    const int64_t first_head = local % tasks.parts * tasks.heads;
    const int64_t first_row = local / (spec.kv_heads * tasks.parts) * tasks.positions;
    const int64_t rows = batch.query_start[at + 1] - batch.query_start[at];
    const int64_t row = batch.query_start[at] + first_row;
    const int64_t head = kv_head * group + first_head;
    const int64_t column = head * spec.head_dim;
    const auto of_head = [head](const Weight& vector) {
      return vector ? static_cast<const float*>(vector.data) + head : nullptr;
    };
    const AttentionTile tile{
        .q = static_cast<const float*>(op.qkv.data) + row * op.qkv.stride + column,
        .q_stride = op.qkv.stride,
        .out = static_cast<float*>(op.out.data) + row * op.out.stride + column,
        .out_stride = op.out.stride,
        .first_position = batch.context_length[at] - rows + first_row,
        .positions = static_cast<int>(std::min(tasks.positions, rows - first_row)),
        .heads = static_cast<int>(std::min(tasks.heads, group - first_head)),
        .head_dim = spec.head_dim,
        .scale = spec.scale * scales.key,
        .soft_cap = spec.soft_cap,
        .window = spec.window,
        .window_kind = spec.window_kind,
        .slopes = of_head(op.terms.slopes),
        .alibi = spec.alibi,
        .sinks = of_head(op.terms.sinks),
        .seen_end = batch.seen_end.empty() ? nullptr : batch.seen_end.data() + row,
        .chosen = numbers(op.terms.chosen, row),
        .chosen_stride = op.terms.chosen.stride,
        .most_chosen = op.terms.chosen.columns,
        .pool = op.cache.pool + op.cache.layer_offset,
        .block_stride = op.cache.block_stride,
        .blocks = batch.block_tables[op.cache.group].data() + s * batch.table_stride,
        .block_size = op.cache.block_size,
        .key_offset = block.key_tile(kv_head, 0),
        .value_offset = block.value_row(kv_head, 0),
        .dtype = op.cache.dtype,
        .scratch = attention_scratch_[thread].data()};
    kernels_.attention(tile);
    for (int p = 0; scales.value != 1.f && p < tile.positions; ++p)
      kernels_.scale(tile.out + p * tile.out_stride, scales.value, tile.heads * spec.head_dim);
  });
}

}  // namespace plimsoll::backend
