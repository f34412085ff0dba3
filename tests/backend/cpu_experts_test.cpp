#include <functional>

#include "backend/cpu_fixture.h"
#include "model/slices.h"
#include "reference/router_cases.h"

namespace plimsoll::testing {
namespace {

using backend::View;
using backend::Weight;
using model::Split;
using model::WeightUse;

/// Routing [rows, chosen] in memory of its own.
struct Chosen {
  std::vector<int32_t> experts;
  Rows weights;
  int64_t rows, columns;
  Chosen(int64_t row_count, int64_t column_count)
      : experts(static_cast<size_t>(row_count * column_count)),
        weights(row_count, column_count),
        rows(row_count),
        columns(column_count) {}
  backend::Routing view() {
    return {{experts.data(), DType::i32, rows, columns, columns}, weights};
  }
  std::vector<std::vector<reference::Choice>> choices() const {
    std::vector<std::vector<reference::Choice>> all(static_cast<size_t>(rows));
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < columns; ++i)
        all[static_cast<size_t>(t)].push_back(
            {experts[static_cast<size_t>(t * columns + i)], double(weights.row(t)[i])});
    return all;
  }
};

}  // namespace

TEST_CASE("routing takes the best by each rule, the first of equals") {
  for (const CpuIsa isa : isas())
    for (const RouterCase& c : router_cases()) {
      CAPTURE(isa_name(isa), c.name);
      CpuFixture cpu(isa, 1);
      Rows logits = Rows::random(7, c.experts, 1, 1.5);
      std::fill_n(logits.row(4), c.experts, 2.f);
      const LoadedWeight bias(*cpu, {c.experts}, WeightUse::vector, DType::f32, 2, 0.3);
      const Matrix before = logits.matrix();
      Chosen chosen(7, c.chosen);
      cpu->run(ops::Route{chosen.view(), logits, c.router, c.has_bias ? bias.weight : Weight{}});
      for (int64_t t = 0; t < 7; ++t) {
        const auto row = before.values.begin() + t * c.experts;
        const auto expected =
            reference::route({row, row + c.experts}, c.chosen, c.router,
                             c.has_bias ? bias.values.values : std::vector<double>{});
        const auto found = chosen.choices()[static_cast<size_t>(t)];
        for (size_t i = 0; i < expected.size(); ++i) {
          CHECK(found[i].expert == expected[i].expert);
          CHECK(found[i].weight == Approx(expected[i].weight).epsilon(2e-6));
        }
      }
    }
}

TEST_CASE("factors multiply each number by its index, or all of them") {
  CpuFixture cpu(CpuIsa::portable, 1);
  Rows logits = Rows::random(5, 12, 1, 1.5);
  Chosen chosen(5, 3);
  cpu->run(ops::Route{chosen.view(), logits, model::RouterSpec{}, {}});
  const LoadedWeight factors(*cpu, {12}, WeightUse::vector, DType::bf16, 2);
  const auto before = chosen.choices();
  cpu->run(ops::MultiplyFactors{chosen.view().weights, factors.weight, chosen.view().experts});
  const auto after = chosen.choices();
  for (size_t t = 0; t < 5; ++t)
    for (size_t i = 0; i < 3; ++i) {
      const auto expert = static_cast<size_t>(before[t][i].expert);
      CHECK(after[t][i].weight == Approx(before[t][i].weight * factors.values.values[expert]));
    }
  const LoadedWeight one(*cpu, {1}, WeightUse::vector, DType::f32, 3);
  Rows x = Rows::random(5, 70, 4);
  Matrix expected = x.matrix();
  for (double& value : expected.values) value *= one.values.values[0];
  cpu->run(ops::MultiplyFactors{x, one.weight, {}});
  CHECK(distance(x.matrix(), expected) < 1e-7);
  CHECK_THROWS_WITH(cpu->run(ops::MultiplyFactors{x, factors.weight, {}}),
                    Catch::Contains("one factor"));
  CHECK_THROWS_WITH(cpu->run(ops::MultiplyFactors{x, factors.weight, chosen.view().experts}),
                    Catch::Contains("indices"));
}

TEST_CASE("a router that the op cannot follow is refused") {
  CpuFixture cpu(CpuIsa::portable, 1);
  Rows logits = Rows::random(2, 12, 1);
  Chosen chosen(2, 4);
  using Catch::Contains;
  CHECK_THROWS_WITH(cpu->run(ops::Route{chosen.view(), logits, model::RouterSpec{.groups = 5}, {}}),
                    Contains("in 5 groups"));
  CHECK_THROWS_WITH(
      cpu->run(ops::Route{
          chosen.view(), logits, model::RouterSpec{.groups = 4, .groups_chosen = 1}, {}}),
      Contains("of which 1 are chosen"));
  CHECK_THROWS_WITH(
      cpu->run(ops::Route{
          chosen.view(), logits, model::RouterSpec{.score = model::RouterScore::sparsemixer}, {}}),
      Contains("sparsemixer chooses two"));
  const LoadedWeight bias(*cpu, {11}, WeightUse::vector, DType::f32, 2);
  CHECK_THROWS_WITH(cpu->run(ops::Route{chosen.view(), logits, model::RouterSpec{}, bias.weight}),
                    Contains("[11]"));
}

TEST_CASE("experts agree with the reference") {
  constexpr int64_t kRows = 33, kHidden = 50, kWidth = 40, kExperts = 5;
  for (const Processor& on : processors())
    for (const MixtureCase& c : mixture_cases(kExperts, 2, kWidth)) {
      CAPTURE(on.name(), c.name);
      CpuFixture cpu(on, 2);
      const LoadedWeight up(*cpu, {kExperts, c.mlp.up_rows(), kHidden}, WeightUse::experts,
                            DType::f32, 1, 0.2);
      const LoadedWeight down(*cpu, {kExperts, kHidden, kWidth}, WeightUse::experts, DType::f32, 2);
      const LoadedWeight up_bias(*cpu, {kExperts, c.mlp.up_rows()}, WeightUse::experts, DType::bf16,
                                 5);
      const LoadedWeight down_bias(*cpu, {kExperts, kHidden}, WeightUse::experts, DType::f32, 6);
      Rows in = Rows::random(kRows, kHidden, 3);
      Chosen chosen(kRows, 2);
      chosen.weights = Rows::random(kRows, 2, 4);
      for (int t = 0; t < kRows; ++t) {
        chosen.experts[static_cast<size_t>(2 * t)] = t % 4;  // nobody asks expert 4 first
        chosen.experts[static_cast<size_t>(2 * t + 1)] = (t % 4 + 1 + t % 3) % 5;
      }
      if (c.mlp.router.identities > 0) {
        for (size_t slot = 0; slot < chosen.experts.size(); slot += 3)
          chosen.experts[slot] = kExperts + static_cast<int32_t>(slot % 2);
      }
      backend::ExpertWeights weights{.up = up.weight, .down = down.weight};
      reference::ExpertMatrices matrices{.up = up.values, .down = down.values};
      if (c.has_biases) {
        weights.up_bias = up_bias.weight;
        weights.down_bias = down_bias.weight;
        matrices.up_bias = up_bias.values.values;
        matrices.down_bias = down_bias.values.values;
      }
      Rows out(kRows, kHidden);
      cpu->run(ops::Experts{out, in, chosen.view(), c.mlp, weights});
      const Matrix expected = reference::experts(in.matrix(), chosen.choices(), c.mlp, matrices);
      CHECK(distance(out.matrix(), expected) < 1e-6);

      for (int64_t t = 0; t < kRows; ++t) {
        Rows alone(1, kHidden);
        cpu->run(ops::Experts{alone,
                              View(in).slice_rows(t, 1),
                              {{chosen.experts.data() + 2 * t, DType::i32, 1, 2, 2},
                               View(chosen.weights).slice_rows(t, 1)},
                              c.mlp,
                              weights});
        REQUIRE(alone.same_bits(0, out, t));
      }
    }
}

/// A copy of a loaded weight's values in shares of ranks: of outputs, gate's and up's each, of
/// inputs, or of experts.
class ExpertShare {
 public:
  ExpertShare(backend::Backend& backend, const LoadedWeight& whole, Split split, int64_t rank,
              int64_t ranks)
      : spec_{*whole.weight.spec} {
    const bool inputs = split == Split::row, whole_experts = split == Split::experts;
    spec_.split = split;
    spec_.ranks = ranks;
    if (inputs) spec_.slices = model::slices_of(spec_.columns()) / ranks;
    spec_.shape[inputs ? 2 : whole_experts ? 0 : 1] /= ranks;
    storage_.resize(backend.footprint().weight_bytes(spec_, DType::f32));
    const int64_t columns = spec_.columns(), half = spec_.rows() / 2;
    const int64_t all_rows = whole.weight.spec->rows(), all_columns = whole.weight.spec->columns();
    weight = backend.load_weight(
        spec_, DType::f32, storage_.data(), [&](int64_t first, int64_t count, void* to) {
          auto* out = static_cast<float*>(to);
          for (int64_t i = first; i < first + count; ++i) {
            int64_t row = i % spec_.rows();
            int64_t expert = i / spec_.rows();
            if (whole_experts) {
              expert += rank * spec_.matrices();
            } else if (!inputs) {
              row = row / half * (all_rows / 2) + rank * half + row % half;
            }
            const int64_t from = (expert * all_rows + row) * all_columns;
            for (int64_t c = 0; c < columns; ++c)
              *out++ = static_cast<float>(
                  whole.values
                      .values[static_cast<size_t>(from + (inputs ? rank * columns : 0) + c)]);
          }
        });
  }
  ExpertShare(const ExpertShare&) = delete;
  ExpertShare& operator=(const ExpertShare&) = delete;

 private:
  model::WeightSpec spec_;
  std::vector<std::byte> storage_;

 public:
  Weight weight;
};

/// Ranks that run one after the other: each leaves what it has; after join() the last gets what
/// all have together.
class RanksInTurn final : public backend::InputRanks {
 public:
  [[nodiscard]] int64_t rank() const override { return std::ssize(left_) - (joined_ ? 1 : 0); }
  void all_reduce_sum(View values) override {
    const std::span<float> own = floats(values);
    if (!joined_) return leave(own);
    std::vector<std::vector<float>> sums = left_;
    for (size_t step = 1; step < sums.size(); step *= 2)
      for (size_t to = 0; to < sums.size(); to += 2 * step)
        std::ranges::transform(sums[to], sums[to + step], sums[to].begin(), std::plus<>());
    std::ranges::copy(sums.front(), own.begin());
  }
  void all_gather_rows(View rows, std::span<const int32_t> owners) override {
    const std::span<float> own = floats(rows);
    if (!joined_) return leave(own);
    for (int64_t i = 0; i < std::ssize(own); ++i) {
      const auto owner = static_cast<size_t>(owners[static_cast<size_t>(i / rows.columns)]);
      own[static_cast<size_t>(i)] = left_[owner][static_cast<size_t>(i)];
    }
  }
  void all_reduce_max(View) override { FAIL("nothing is rounded"); }
  void join() { joined_ = true; }

 private:
  static std::span<float> floats(const View& values) {
    REQUIRE(values.stride == values.columns);
    return {static_cast<float*>(values.data), static_cast<size_t>(values.rows * values.columns)};
  }
  void leave(std::span<const float> own) { left_.emplace_back(own.begin(), own.end()); }

  bool joined_ = false;
  std::vector<std::vector<float>> left_;  // by rank
};

TEST_CASE("experts that ranks share or divide give the bits that one rank's give") {
  constexpr int64_t kRows = 21, kHidden = 50, kWidth = 48, kExperts = 8;
  for (const Processor& on : processors()) {
    CpuFixture cpu(on, 1);
    const LoadedWeight up(*cpu, {kExperts, 2 * kWidth, kHidden}, WeightUse::experts, DType::f32, 1);
    const LoadedWeight down(*cpu, {kExperts, kHidden, kWidth}, WeightUse::experts, DType::f32, 2);
    const LoadedWeight bias(*cpu, {kExperts, kHidden}, WeightUse::experts, DType::f32, 3);
    Rows in = Rows::random(kRows, kHidden, 4);
    Chosen chosen(kRows, 2);
    chosen.weights = Rows::random(kRows, 2, 5);
    for (size_t slot = 0; slot < chosen.experts.size(); ++slot)
      chosen.experts[slot] = static_cast<int32_t>(slot * 7 % (kExperts + 1));  // the last: identity
    // The rank's answer.
    const auto run = [&](int64_t rank, int64_t ranks, bool whole, backend::InputRanks* others) {
      const ExpertShare own_up(*cpu, up, whole ? Split::experts : Split::merged_column, rank,
                               ranks);
      ExpertShare own_down(*cpu, down, whole ? Split::experts : Split::row, rank, ranks);
      backend::ExpertWeights weights{
          .up = own_up.weight, .down = own_down.weight, .down_bias = bias.weight};
      weights.up.ranks = weights.down.ranks = others;
      Rows out(kRows, kHidden);
      const model::MlpSpec mlp{.intermediate = kWidth / (whole ? 1 : ranks),
                               .experts = kExperts,
                               .experts_per_token = 2};
      cpu->run(ops::Experts{out, in, chosen.view(), mlp, weights});
      return out;
    };
    for (const bool whole : {false, true}) {
      const Rows expected = run(0, 1, whole, nullptr);
      for (const int64_t ranks : {2, 4, 8}) {
        CAPTURE(on.name(), ranks, whole);
        RanksInTurn turn;
        for (int64_t rank = 0; rank < ranks; ++rank) run(rank, ranks, whole, &turn);
        turn.join();
        const Rows out = run(ranks - 1, ranks, whole, &turn);
        for (int64_t t = 0; t < kRows; ++t) REQUIRE(out.same_bits(t, expected, t));
      }
    }
  }
}

TEST_CASE("biases of experts have a row for each output of each") {
  CpuFixture cpu(CpuIsa::portable, 1);
  const LoadedWeight up(*cpu, {3, 8, 6}, WeightUse::experts, DType::f32, 1);
  const LoadedWeight down(*cpu, {3, 6, 4}, WeightUse::experts, DType::f32, 2);
  const LoadedWeight bias(*cpu, {3, 7}, WeightUse::experts, DType::f32, 2);
  Rows in = Rows::random(1, 6, 1);
  Rows out(1, 6);
  Chosen chosen(1, 1);
  const model::MlpSpec mlp{.intermediate = 4, .experts = 3, .experts_per_token = 1};
  CHECK_THROWS_WITH(
      cpu->run(ops::Experts{out,
                            in,
                            chosen.view(),
                            mlp,
                            {.up = up.weight, .down = down.weight, .up_bias = bias.weight}}),
      Catch::Contains("[3, 7]"));
}

}  // namespace plimsoll::testing
