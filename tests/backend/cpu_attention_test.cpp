#include <numeric>

#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

using backend::BatchMeta;
using backend::KvLayer;
using backend::View;

struct AttentionCase {
  const char* name;
  int64_t heads, kv_heads, head_dim, window;
  float soft_cap;
};

constexpr AttentionCase kCases[] = {
    {"grouped", 8, 2, 64, 0, 0},
    {"many queries", 4, 4, 32, 0, 0},
    {"one kv head, capped", 4, 1, 256, 0, 5},
    {"small window", 4, 2, 80, 24, 0},
    {"head of 16", 2, 2, 16, 0, 0},
    {"head of 48", 2, 1, 48, 100, 0},
    {"head of 8, 70 queries", 70, 1, 8, 0, 0},
    {"head of 112", 6, 2, 112, 1, 0},
};

model::AttentionSpec spec_of(const AttentionCase& c) {
  model::AttentionSpec spec;
  spec.heads = c.heads;
  spec.kv_heads = c.kv_heads;
  spec.head_dim = c.head_dim;
  spec.scale = 1.f / std::sqrt(static_cast<float>(c.head_dim));
  spec.soft_cap = c.soft_cap;
  spec.window = c.window;
  return spec;
}

/// Sequences over one cache whose blocks are shuffled and full of NaN until they are written. A
/// step appends rows to each sequence.
class Sequences {
 public:
  Sequences(CpuFixture& cpu, const model::AttentionSpec& spec, DType dtype, int64_t count,
            int64_t block_size = 16)
      : cpu_(cpu), spec_(spec), lengths_(static_cast<size_t>(count)) {
    const size_t bytes = cpu->footprint().kv_bytes(spec, block_size, dtype);
    stride_ = (kTokens + block_size - 1) / block_size;
    pool_.assign(static_cast<size_t>(count * stride_) * bytes + 2, std::byte{0xff});
    // Two bytes off: nothing may rely on alignment.
    cache_ = {pool_.data() + 2, bytes, 0, dtype, block_size, 0};
    table_.resize(static_cast<size_t>(count * stride_));
    std::iota(table_.begin(), table_.end(), 0);
    std::mt19937 random(7);
    std::shuffle(table_.begin(), table_.end(), random);
  }

  /// qkv holds rows[s] rows of each sequence s, one after the other.
  Rows step(Rows qkv, const std::vector<int32_t>& rows) {
    std::vector<int32_t> positions, row_sequence, starts = {0};
    for (size_t s = 0; s < rows.size(); ++s) {
      for (int32_t i = 0; i < rows[s]; ++i) {
        positions.push_back(lengths_[s]++);
        row_sequence.push_back(static_cast<int32_t>(s));
      }
      starts.push_back(static_cast<int32_t>(positions.size()));
    }
    forget_before_windows(rows);
    const std::span<const int32_t> tables[] = {table_};
    BatchMeta batch;
    batch.positions = positions;
    batch.row_sequence = row_sequence;
    batch.query_start = starts;
    batch.context_length = lengths_;
    batch.block_tables = tables;
    batch.table_stride = stride_;
    Rows out(qkv.count(), spec_.heads * spec_.head_dim);
    cpu_->rope_and_store(qkv, {}, spec_, {}, {}, cache_, batch);
    cpu_->attention(out, qkv, spec_, cache_, batch);
    return out;
  }

 private:
  static constexpr int64_t kTokens = 512;

  /// Blocks that no row of the next step sees become -1, as the engine releases them.
  void forget_before_windows(const std::vector<int32_t>& rows) {
    if (spec_.window == 0) return;
    for (size_t s = 0; s < lengths_.size(); ++s) {
      const int64_t oldest = lengths_[s] - rows[s] - spec_.window + 1;
      for (int64_t b = 0; (b + 1) * cache_.block_size <= oldest; ++b)
        table_[s * static_cast<size_t>(stride_) + static_cast<size_t>(b)] = -1;
    }
  }

  CpuFixture& cpu_;
  model::AttentionSpec spec_;
  std::vector<int32_t> lengths_;
  int64_t stride_ = 0;
  std::vector<std::byte> pool_;
  KvLayer cache_;
  std::vector<int32_t> table_;
};

Rows slice(const Rows& rows, int64_t first, int64_t count) {
  Rows result(count, rows.columns());
  for (int64_t r = 0; r < count; ++r)
    std::copy_n(rows.row(first + r), rows.columns(), result.row(r));
  return result;
}

/// Columns [first, first + count) as the cache holds them.
Matrix stored(const Rows& rows, int64_t first, int64_t count, DType dtype) {
  Matrix result(rows.count(), count);
  for (int64_t r = 0; r < rows.count(); ++r)
    for (int64_t c = 0; c < count; ++c) {
      uint32_t bits = 0;
      convert(rows.row(r) + first + c, DType::f32, &bits, dtype, 1);
      convert(&bits, dtype, &result.at(r, c), DType::f64, 1);
    }
  return result;
}

TEST_CASE("attention agrees with the reference for every instruction set, type and head") {
  for (const CpuIsa isa : isas())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const AttentionCase& c : kCases) {
        CAPTURE(isa_name(isa), torch_name(dtype), c.name);
        CpuFixture cpu(isa, 2);
        const model::AttentionSpec spec = spec_of(c);
        const int64_t q = c.heads * c.head_dim;
        const int64_t kv = c.kv_heads * c.head_dim;
        const Rows qkv = Rows::random(150, q + 2 * kv, 1);
        Sequences sequences(cpu, spec, dtype, 1);
        const Rows out = sequences.step(qkv, {150});
        const Matrix expected =
            reference::attention(stored(qkv, 0, q, DType::f32), stored(qkv, q, kv, dtype),
                                 stored(qkv, q + kv, kv, dtype), spec);
        CHECK(distance(out.matrix(), expected) < 1e-6);
      }
}

TEST_CASE("a row attends with the same bits in one chunk, in many, alone and beside others") {
  for (const CpuIsa isa : isas())
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const AttentionCase& c : kCases) {
        CAPTURE(isa_name(isa), torch_name(dtype), c.name);
        CpuFixture one(isa, 1);
        CpuFixture three(isa, 3);
        const model::AttentionSpec spec = spec_of(c);
        const Rows qkv = Rows::random(150, (c.heads + 2 * c.kv_heads) * c.head_dim, 1);
        const Rows whole = Sequences(one, spec, dtype, 1).step(qkv, {150});

        Sequences chunks(three, spec, dtype, 1);
        for (int32_t first = 0, size = 1; first < 150; first += size, size = size * 3 % 64) {
          size = std::min(size, 150 - first);
          const Rows out = chunks.step(slice(qkv, first, size), {size});
          for (int64_t r = 0; r < size; ++r) REQUIRE(out.same_bits(r, whole, first + r));
        }

        // The same sequence twice, one of them 20 tokens ahead, token by token at the end.
        Sequences pair(three, spec, dtype, 2, 32);
        Rows both(220, qkv.columns());
        for (int64_t r = 0; r < 220; ++r)
          std::copy_n(qkv.row(r < 120 ? r : r - 120), qkv.columns(), both.row(r));
        Rows out = pair.step(both, {120, 100});
        for (int64_t r = 0; r < 220; ++r) REQUIRE(out.same_bits(r, whole, r < 120 ? r : r - 120));
        for (int64_t r = 0; r < 30; ++r) {
          Rows next(2, qkv.columns());
          std::copy_n(qkv.row(120 + r), qkv.columns(), next.row(0));
          std::copy_n(qkv.row(100 + r), qkv.columns(), next.row(1));
          out = pair.step(next, {1, 1});
          REQUIRE(out.same_bits(0, whole, 120 + r));
          REQUIRE(out.same_bits(1, whole, 100 + r));
        }
      }
}

TEST_CASE("blocks may have any size") {
  for (const CpuIsa isa : isas())
    for (const int64_t block_size : {1, 8, 24, 100})
      for (const AttentionCase& c : kCases) {
        CAPTURE(isa_name(isa), block_size, c.name);
        CpuFixture cpu(isa, 2);
        const model::AttentionSpec spec = spec_of(c);
        const int64_t q = c.heads * c.head_dim;
        const int64_t kv = c.kv_heads * c.head_dim;
        const Rows qkv = Rows::random(150, q + 2 * kv, 1);
        Sequences whole(cpu, spec, DType::bf16, 1, block_size);
        const Rows out = whole.step(qkv, {150});
        const Matrix expected =
            reference::attention(stored(qkv, 0, q, DType::f32), stored(qkv, q, kv, DType::bf16),
                                 stored(qkv, q + kv, kv, DType::bf16), spec);
        CHECK(distance(out.matrix(), expected) < 1e-6);
        Sequences parts(cpu, spec, DType::bf16, 1, block_size);
        parts.step(slice(qkv, 0, 149), {149});
        CHECK(parts.step(slice(qkv, 149, 1), {1}).same_bits(0, out, 149));
      }
}

TEST_CASE("heads are normalised, rotated and stored") {
  const std::vector<int32_t> positions = {0, 1, 1000, 100000};
  const std::vector<int32_t> rows_of = {0, 0, 0, 1};
  const std::vector<uint8_t> long_rope = {0, 1};
  BatchMeta batch;
  batch.positions = positions;
  batch.row_sequence = rows_of;
  batch.long_rope = long_rope;
  for (const int64_t head_dim : {64, 40}) {
    CpuFixture cpu(backend::detect_isa(), 2);
    model::AttentionSpec spec = spec_of({"", 2, 1, head_dim, 0, 0});
    spec.rope = 0;
    spec.q_norm = {.weight = 0, .present = true};
    spec.k_norm = spec.q_norm;
    const LoadedWeight weight(*cpu, {head_dim}, model::WeightUse::vector, DType::f32, 5);
    model::RopeSpec rope;
    rope.rotary_dim = head_dim / 2;
    for (int64_t i = 0; i < rope.rotary_dim / 2; ++i)
      rope.table.inverse_frequencies.push_back(static_cast<float>(std::pow(0.8, double(i))));
    rope.long_table = rope.table;
    rope.long_table->scale = 1.5f;

    Rows angles(4, rope.rotary_dim);
    cpu->rope_angles(angles, rope, batch);
    Rows qkv = Rows::random(4, 4 * head_dim, 1);
    const Rows before = qkv;
    std::vector<std::byte> pool(cpu->footprint().kv_bytes(spec, 16, DType::f32));
    const std::vector<int32_t> table(2 * 8192, 0);
    const std::span<const int32_t> tables[] = {table};
    batch.block_tables = tables;
    batch.table_stride = 8192;
    cpu->rope_and_store(qkv, angles, spec, weight.weight, weight.weight,
                        {pool.data(), pool.size(), 0, DType::f32, 16, 0}, batch);
    for (int64_t t = 0; t < 4; ++t)
      for (int64_t h = 0; h < 3; ++h) {
        Matrix head(1, head_dim);
        for (int64_t i = 0; i < head_dim; ++i)
          head.at(0, i) = double(before.row(t)[h * head_dim + i]);
        Matrix expected = reference::norm(head, spec.q_norm, weight.values.values, {});
        reference::rotate(expected.values.data(), positions[static_cast<size_t>(t)],
                          t == 3 ? *rope.long_table : rope.table);
        for (int64_t i = 0; i < head_dim; ++i) head.at(0, i) = double(qkv.row(t)[h * head_dim + i]);
        CHECK(distance(head, expected) < 1e-6);
      }
  }
}

}  // namespace
}  // namespace plimsoll::testing
