#include <numeric>

#include "backend/cpu_fixture.h"
#include "like_cases.h"

namespace plimsoll::testing {
namespace {

using backend::BatchMeta;
using backend::KvLayer;
using backend::View;

struct AttentionCase {
  const char* name;
  int64_t heads, kv_heads, head_dim, window = 0;
  float soft_cap = 0;
  model::WindowKind kind = model::WindowKind::sliding;
  bool sinks = false;
  float alibi = 0;  // its factor; 0: none
  model::Alibi::Of of = model::Alibi::Of::distance;
  model::IndexerSpec indexer{};
};

using model::WindowKind;
constexpr auto kRoundedAlibi = model::Alibi::Of::position_bf16;

constexpr AttentionCase kCases[] = {
    {"grouped", 8, 2, 64, 0, 0},
    {"many queries", 4, 4, 32, 0, 0},
    {"one kv head, capped", 4, 1, 256, 0, 5},
    {"small window", 4, 2, 80, 24, 0},
    {"head of 16", 2, 2, 16, 0, 0},
    {"head of 48", 2, 1, 48, 100, 0},
    {"head of 8, 70 queries", 70, 1, 8, 0, 0},
    {"head of 15", 6, 3, 15, 0, 0},
    {"head of 112", 6, 2, 112, 1, 0},
    {"chunks", 4, 2, 32, 48, 0, WindowKind::chunk},
    {"chunks that end within blocks, sinks", 6, 3, 16, 23, 0, WindowKind::chunk, true},
    {"sinks", 8, 2, 32, 0, 0, WindowKind::sliding, true},
    {"sinks and a window", 70, 1, 16, 40, 0, WindowKind::sliding, true},
    {"alibi", 6, 6, 32, 0, 0, WindowKind::sliding, false, 1},
    {"alibi of one kv head", 5, 1, 48, 0, 0, WindowKind::sliding, false, 0.5f},
    {"alibi rounded", 8, 8, 16, 0, 0, WindowKind::sliding, false, 0.25f, kRoundedAlibi},
    {"alibi of roots", 6, 2, 32, 0, 0, WindowKind::sliding, false, 1, model::Alibi::Of::root},
    {.name = "32 chosen keys",
     .heads = 4,
     .kv_heads = 4,
     .head_dim = 80,
     .indexer = {.most = 32, .heads = 16, .head_dim = 48}},
    {.name = "one chosen key, 70 heads choose",
     .heads = 70,
     .kv_heads = 1,
     .head_dim = 16,
     .indexer = {.most = 1, .heads = 70, .head_dim = 24}},
    {.name = "all but some, chosen by one head, sinks",
     .heads = 6,
     .kv_heads = 3,
     .head_dim = 15,
     .sinks = true,
     .indexer = {.most = 140, .heads = 1, .head_dim = 7}},
};

model::AttentionSpec spec_of(const AttentionCase& c) {
  model::AttentionSpec spec;
  spec.heads = c.heads;
  spec.kv_heads = c.kv_heads;
  spec.head_dim = c.head_dim;
  spec.scale = 1.f / std::sqrt(static_cast<float>(c.head_dim));
  spec.soft_cap = c.soft_cap;
  spec.window = c.window;
  spec.window_kind = c.kind;
  if (c.alibi != 0) spec.alibi = {.slopes = 1, .factor = c.alibi, .of = c.of};
  spec.indexer = c.indexer;
  return spec;
}

/// Columns of a row for the ops' inputs: q, k, v, then the indexer's q, k and weights.
struct Columns {
  explicit Columns(const AttentionCase& c)
      : q(c.heads * c.head_dim),
        kv(c.kv_heads * c.head_dim),
        index(q + 2 * kv),
        index_q(c.indexer.heads * c.indexer.head_dim),
        weights(index + index_q + c.indexer.head_dim),
        all(weights + c.indexer.heads) {}
  int64_t q, kv, index, index_q, weights, all;
};

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

/// Sinks and slopes of a case.
struct Terms {
  Terms(CpuFixture& cpu, const AttentionCase& c)
      : sinks(*cpu, {c.heads}, model::WeightUse::vector, DType::bf16, 21, 2),
        slopes(*cpu, {c.heads}, model::WeightUse::vector, DType::f32, 22, 0.3),
        terms{c.sinks ? sinks.weight : backend::Weight{},
              c.alibi != 0 ? slopes.weight : backend::Weight{}} {}
  /// Attention of rows that are a whole sequence, over a cache of `dtype`.
  [[nodiscard]] Matrix expected(const Rows& rows, const AttentionCase& c, DType dtype) const {
    const Columns at(c);
    const model::AttentionSpec spec = spec_of(c);
    reference::ChosenKeys chosen;
    if (c.indexer.chooses()) {
      chosen =
          reference::choose_keys(stored(rows, at.index, at.index_q, DType::f32),
                                 stored(rows, at.weights, c.indexer.heads, DType::f32),
                                 stored(rows, at.index + at.index_q, c.indexer.head_dim, dtype),
                                 spec.index_heads(), c.indexer.most);
    }
    return reference::attention(stored(rows, 0, at.q, DType::f32), stored(rows, at.q, at.kv, dtype),
                                stored(rows, at.q + at.kv, at.kv, dtype), spec,
                                terms.sinks ? sinks.values.values : std::vector<double>{},
                                terms.slopes ? slopes.values.values : std::vector<double>{},
                                chosen);
  }
  LoadedWeight sinks, slopes;
  backend::ScoreTerms terms;
};

/// Sequences over one cache whose blocks are shuffled and full of NaN until they are written. A
/// step appends rows to each sequence.
class Sequences {
 public:
  Sequences(CpuFixture& cpu, const AttentionCase& c, DType dtype, int64_t count,
            int64_t block_size = 16)
      : cpu_(cpu),
        spec_(spec_of(c)),
        columns_(c),
        terms_(cpu, c),
        lengths_(static_cast<size_t>(count)) {
    index_offset_ = cpu->footprint().kv_bytes(spec_, block_size, dtype);
    const size_t bytes =
        index_offset_ + cpu->footprint().kv_bytes(spec_.index_heads(), block_size, dtype);
    stride_ = (kTokens + block_size - 1) / block_size;
    pool_.assign(static_cast<size_t>(count * stride_) * bytes + 2, std::byte{0xff});
    // Two bytes off: nothing may rely on alignment.
    cache_ = {pool_.data() + 2, bytes, 0, dtype, block_size, 0};
    table_.resize(static_cast<size_t>(count * stride_));
    std::iota(table_.begin(), table_.end(), 0);
    std::mt19937 random(7);
    std::shuffle(table_.begin(), table_.end(), random);
  }

  /// `all` holds rows[s] rows of each sequence s, one after the other.
  Rows step(Rows all, const std::vector<int32_t>& rows) {
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
    const View qkv = View(all).slice_columns(0, columns_.index);
    Rows out(qkv.rows, spec_.heads * spec_.head_dim);
    cpu_->run(ops::RopeAndStore{qkv, {}, spec_, {}, cache_, batch});
    backend::ScoreTerms terms = terms_.terms;
    std::vector<int32_t> chosen(static_cast<size_t>(qkv.rows * spec_.indexer.most), -1);
    terms.chosen = {chosen.data(), DType::i32, qkv.rows, spec_.indexer.most, spec_.indexer.most};
    if (spec_.indexer.chooses()) choose(all, terms.chosen, batch);
    cpu_->run(ops::Attention{out, qkv, spec_, terms, cache_, batch});
    return out;
  }

 private:
  static constexpr int64_t kTokens = 512;

  void choose(const View& all, const View& chosen, const BatchMeta& batch) {
    const model::AttentionSpec index = spec_.index_heads();
    KvLayer keys = cache_;
    keys.layer_offset += index_offset_;
    cpu_->run(
        ops::RopeAndStore{all.slice_columns(columns_.index, columns_.weights - columns_.index),
                          {},
                          index,
                          {},
                          keys,
                          batch});
    cpu_->run(ops::ChooseKeys{chosen,
                              {all.slice_columns(columns_.index, columns_.index_q),
                               all.slice_columns(columns_.weights, index.heads)},
                              index,
                              keys,
                              batch});
  }

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
  Columns columns_;
  Terms terms_;
  std::vector<int32_t> lengths_;
  int64_t stride_ = 0;
  size_t index_offset_ = 0;
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

TEST_CASE("attention agrees with the reference for every instruction set, type and head") {
  size_t number = 0;
  for (const CpuIsa isa : isas())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const AttentionCase& c : kCases) {
        if (!testing::is_taken_sanitized(number++, 3)) continue;
        CAPTURE(isa_name(isa), torch_name(dtype), c.name);
        CpuFixture cpu(isa, 2);
        const Rows rows = Rows::random(150, Columns(c).all, 1);
        Sequences sequences(cpu, c, dtype, 1);
        const Rows out = sequences.step(rows, {150});
        CHECK(distance(out.matrix(), Terms(cpu, c).expected(rows, c, dtype)) < 1e-6);
      }
}

TEST_CASE("a row attends with the same bits in one chunk, in many, alone and beside others") {
  size_t number = 0;
  for (const CpuIsa isa : isas())
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const AttentionCase& c : kCases) {
        if (!testing::is_taken_sanitized(number++, 3)) continue;
        CAPTURE(isa_name(isa), torch_name(dtype), c.name);
        CpuFixture one(isa, 1);
        CpuFixture three(isa, 3);
        const Rows qkv = Rows::random(150, Columns(c).all, 1);
        const Rows whole = Sequences(one, c, dtype, 1).step(qkv, {150});

        Sequences chunks(three, c, dtype, 1);
        for (int32_t first = 0, size = 1; first < 150; first += size, size = size * 3 % 64) {
          size = std::min(size, 150 - first);
          const Rows out = chunks.step(slice(qkv, first, size), {size});
          for (int64_t r = 0; r < size; ++r) REQUIRE(out.same_bits(r, whole, first + r));
        }

        // One sequence twice, one copy 20 tokens ahead, token by token at the end.
        Sequences pair(three, c, dtype, 2, 32);
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

TEST_CASE("blocks of any size give the same bits") {
  size_t number = 0;
  for (const CpuIsa isa : isas())
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f8_e4m3})
      for (const AttentionCase& c : kCases) {
        if (!testing::is_taken_sanitized(number++, 7)) continue;
        CpuFixture cpu(isa, 2);
        const Rows qkv = Rows::random(150, Columns(c).all, 1);
        const Rows usual = Sequences(cpu, c, dtype, 1).step(qkv, {150});
        for (const int64_t block_size : {1, 7, 8, 17, 24, 48, 100}) {
          CAPTURE(isa_name(isa), torch_name(dtype), block_size, c.name);
          const Rows whole = Sequences(cpu, c, dtype, 1, block_size).step(qkv, {150});
          Sequences parts(cpu, c, dtype, 1, block_size);
          parts.step(slice(qkv, 0, 149), {149});
          REQUIRE(parts.step(slice(qkv, 149, 1), {1}).same_bits(0, usual, 149));
          for (int64_t r = 0; r < 150; ++r) REQUIRE(whole.same_bits(r, usual, r));
        }
      }
}

}  // namespace
}  // namespace plimsoll::testing
