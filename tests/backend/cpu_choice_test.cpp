// Which keys are chosen: the best scores of many, ties and what is no number.
#include <limits>
#include <numeric>

#include "backend/cpu/top_keys.h"
#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

std::vector<int32_t> choose(const std::vector<float>& scores, size_t count) {
  std::vector<int32_t> chosen(count, -1);
  backend::choose_largest(scores, chosen);
  return chosen;
}

TEST_CASE("the largest scores are chosen, of equal ones the first") {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Row {
    std::vector<float> scores;
    std::vector<int32_t> chosen;
  };
  const std::vector<Row> rows = {
      {{1, 3, 2}, {1}},
      {{1, 3, 2}, {1, 2}},
      {{1, 3, 2}, {0, 1, 2}},
      {{-3, -1, -2, -4}, {1, 2}},
      {{0, -0.f, 0, 1}, {0, 1, 3}},
      {{-0.f, 0, -0.f}, {0}},
      {{2, 2, 2, 2}, {0, 1}},
      {{5, 2, 2, 7, 2}, {0, 1, 3}},
      {{-kInfinity, 1, kInfinity, -1}, {1, 2}},
      {{kNone, -kInfinity, -kNone, 1}, {1, 3}},
      {{kNone, -kNone, kNone}, {0, 1}},
      {{1e-45f, -1e-45f, 0, 2e-45f}, {0, 3}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.scores);
    CHECK(choose(row.scores, row.chosen.size()) == row.chosen);
  }
}

TEST_CASE("of many scores, some equal, the same are chosen as by sorting") {
  std::mt19937 random(3);
  for (const size_t size : {1, 2, 255, 256, 257, 5000}) {
    std::vector<float> scores(size);
    // Few different numbers, of all signs and sizes.
    for (float& score : scores)
      score = std::ldexp(static_cast<float>(int(random() % 9) - 4), int(random() % 8) - 4);
    std::vector<int32_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    for (const size_t count : {size_t{1}, size / 3 + 1, size}) {
      std::vector<int32_t> best(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
      std::sort(best.begin(), best.end());
      CAPTURE(size, count);
      CHECK(choose(scores, count) == best);
    }
  }
}

/// Index heads over one sequence's cache whose blocks lie in turn.
struct Index {
  static constexpr int64_t kHeads = 5, kDim = 32, kBlock = 16;

  Index(CpuFixture& cpu, int64_t tokens) : cpu_(cpu), table_(static_cast<size_t>(tokens / kBlock)) {
    std::iota(table_.begin(), table_.end(), 0);
    model::AttentionSpec attention;
    attention.indexer = {.most = 1, .heads = kHeads, .head_dim = kDim};
    spec_ = attention.index_heads();
    const size_t bytes = cpu->footprint().kv_bytes(spec_, kBlock, DType::f32);
    pool_.assign(table_.size() * bytes, std::byte{0xff});
    keys_ = {pool_.data(), bytes, 0, DType::f32, kBlock, 0};
  }

  /// The next rows [heads * dim | dim | heads] of the sequence, and what each chooses.
  std::vector<int32_t> step(Rows rows, int64_t most) {
    std::vector<int32_t> positions(static_cast<size_t>(rows.count()));
    std::iota(positions.begin(), positions.end(), length_);
    length_ += static_cast<int32_t>(rows.count());
    const std::vector<int32_t> sequence(positions.size(), 0),
        lengths = {length_}, starts = {0, static_cast<int32_t>(rows.count())};
    const std::span<const int32_t> tables[] = {table_};
    backend::BatchMeta batch;
    batch.positions = positions;
    batch.row_sequence = sequence;
    batch.query_start = starts;
    batch.context_length = lengths;
    batch.block_tables = tables;
    batch.table_stride = std::ssize(table_);
    const backend::View all = rows;
    cpu_->run(
        ops::RopeAndStore{all.slice_columns(0, (kHeads + 1) * kDim), {}, spec_, {}, keys_, batch});
    std::vector<int32_t> chosen(static_cast<size_t>(rows.count() * most), -1);
    cpu_->run(ops::ChooseKeys{
        {chosen.data(), DType::i32, rows.count(), most, most},
        {all.slice_columns(0, kHeads * kDim), all.slice_columns((kHeads + 1) * kDim, kHeads)},
        spec_,
        keys_,
        batch});
    return chosen;
  }
  [[nodiscard]] const model::AttentionSpec& spec() const { return spec_; }

 private:
  CpuFixture& cpu_;
  model::AttentionSpec spec_;
  std::vector<int32_t> table_;
  std::vector<std::byte> pool_;
  backend::KvLayer keys_;
  int32_t length_ = 0;
};

Matrix columns(const Rows& rows, int64_t first, int64_t count, int64_t first_row = 0) {
  Matrix result(rows.count() - first_row, count);
  for (int64_t r = 0; r < result.rows; ++r)
    for (int64_t c = 0; c < count; ++c)
      result.at(r, c) = double(rows.row(first_row + r)[first + c]);
  return result;
}

TEST_CASE("keys are chosen from more than one task scores, by many rows and by one") {
  constexpr int64_t kTokens = 2400, kMost = 100, kLast = 70;
  constexpr int64_t kDim = Index::kDim, kQ = Index::kHeads * kDim;
  const Rows rows = Rows::random(kTokens, kQ + kDim + Index::kHeads, 4);
  for (const CpuIsa isa : isas()) {
    CAPTURE(isa_name(isa));
    CpuFixture cpu(isa, 2);
    Index whole(cpu, kTokens), parts(cpu, kTokens);
    const std::vector<int32_t> all = whole.step(rows, kMost);
    const auto expected =
        reference::choose_keys(columns(rows, 0, kQ, kTokens - kLast),
                               columns(rows, kQ + kDim, Index::kHeads, kTokens - kLast),
                               columns(rows, kQ, kDim), whole.spec(), kMost);
    const auto row_of = [](const std::vector<int32_t>& chosen, int64_t row) {
      return std::vector<int32_t>(chosen.begin() + row * kMost, chosen.begin() + (row + 1) * kMost);
    };
    for (int64_t r = 0; r < kLast; ++r)
      CHECK(row_of(all, kTokens - kLast + r) == expected[static_cast<size_t>(r)]);
    CHECK(row_of(all, kMost - 1) == std::vector<int32_t>(kMost, -1));  // sees no more than it may
    CHECK(row_of(all, kMost).front() >= 0);

    const auto slice = [&](int64_t first, int64_t count) {
      Rows some(count, rows.columns());
      for (int64_t r = 0; r < count; ++r)
        std::copy_n(rows.row(first + r), rows.columns(), some.row(r));
      return some;
    };
    parts.step(slice(0, kTokens - 3), kMost);
    for (int64_t r = kTokens - 3; r < kTokens; ++r)
      CHECK(parts.step(slice(r, 1), kMost) == row_of(all, r));
  }
}

}  // namespace
}  // namespace plimsoll::testing
