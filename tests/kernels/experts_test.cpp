#include "kernels/products/experts.h"
#include "backend/cuda/slices.h"

#include "kernels/fixture.h"
#include "like_cases.h"
#include "reference/router_cases.h"

namespace plimsoll::testing {
namespace {

/// i32 rows on the device.
struct Numbers {
  DeviceArray<int32_t> numbers;
  int64_t rows, columns;
  Numbers(int64_t row_count, int64_t column_count)
      : numbers(static_cast<size_t>(row_count * column_count)),
        rows(row_count),
        columns(column_count) {}
  explicit Numbers(const std::vector<int32_t>& values, int64_t column_count)
      : numbers(values),
        rows(static_cast<int64_t>(values.size()) / column_count),
        columns(column_count) {}
  [[nodiscard]] View view() const { return {numbers.data(), DType::i32, rows, columns, columns}; }
};

std::vector<double> row_of(const Matrix& m, int64_t row) {
  return {m.values.begin() + row * m.columns, m.values.begin() + (row + 1) * m.columns};
}

}  // namespace

TEST_CASE("routers choose the best by each rule, of equals the first") {
  constexpr int64_t kRows = 9;
  for (const DType dtype : kActivationTypes)
    for (const RouterCase& c : router_cases()) {
      INFO(torch_name(dtype) << " " << c.name);
      Matrix logits = random_matrix(kRows, c.experts, dtype, 1, 2);
      for (int64_t i = 0; i + 1 < c.experts; i += 3)
        logits.at(0, i + 1) = logits.at(0, i);  // equals
      const Matrix bias = random_matrix(1, c.has_bias ? c.experts : 0, DType::f32, 2, 0.3);
      const DeviceRows device(logits, dtype, kOdd), device_bias(bias, DType::f32);
      in_each_order([&] {
        const Numbers chosen(kRows, c.chosen);
        const DeviceRows weights(kRows, c.chosen, DType::f32);
        const kernels::Vector no_bias{};
        kernels::route(chosen.view(), weights.view(), device.view(), c.router,
                       c.has_bias ? kernels::Vector{device_bias.view().data, DType::f32} : no_bias,
                       kStream);
        const std::vector<int32_t> experts = chosen.numbers.download();
        const Matrix shares = weights.matrix();
        for (int64_t t = 0; t < kRows; ++t) {
          const auto expected =
              reference::route(row_of(logits, t), c.chosen, c.router, bias.values);
          for (int64_t i = 0; i < c.chosen; ++i) {
            CHECK(experts[static_cast<size_t>(t * c.chosen + i)] ==
                  expected[static_cast<size_t>(i)].expert);
            CHECK(shares.at(t, i) == Approx(expected[static_cast<size_t>(i)].weight).epsilon(4e-6));
          }
        }
      });
    }
}

TEST_CASE("rows that are no numbers choose experts that exist") {
  Matrix logits(2, 40);
  for (double& x : logits.values) x = std::nan("");
  logits.at(1, 7) = 1;
  const DeviceRows device(logits, DType::f32);
  const Numbers chosen(2, 3);
  const DeviceRows weights(2, 3, DType::f32);
  kernels::route(chosen.view(), weights.view(), device.view(), {}, {}, kStream);
  CHECK(chosen.numbers.download() == std::vector<int32_t>{0, 1, 2, 7, 0, 1});
}

TEST_CASE("slots are sorted by expert, each expert's in their order") {
  struct Case {
    int64_t rows, experts, k;
    bool one_sided;           // all rows choose the same
    uint32_t identities = 0;  // choices past the experts, which have no place
    int64_t first = 0;        // of a rank that has `experts`, as have those before and behind it
  };
  for (const Case& c :
       {Case{1, 8, 2, false}, Case{300, 4, 2, false}, Case{40, 128, 8, false},
        Case{90, 16, 3, true}, Case{200, 6, 2, false, 5}, Case{200, 6, 2, false, 5, 6}}) {
    INFO(c.rows << " rows, " << c.k << " of " << c.experts << " from " << c.first << " on");
    const int64_t all = c.first == 0 ? c.experts : c.first + 2 * c.experts;
    std::mt19937 random(1);
    std::vector<int32_t> chosen;
    for (int64_t i = 0; i < c.rows * c.k; ++i)
      chosen.push_back(static_cast<int32_t>(
          c.one_sided ? 13 + i % c.k : random() % (static_cast<uint32_t>(all) + c.identities)));
    const Numbers device(chosen, c.k);
    const int64_t slots = c.rows * c.k;
    in_each_order([&] {
      const DeviceArray<int32_t> starts(static_cast<size_t>(c.experts + 1)),
          order(static_cast<size_t>(slots)), place(static_cast<size_t>(slots));
      // Scratch holds anything: here tiles of the first expert.
      kernels::ExpertSlots sorted{.experts = c.experts,
                                  .first = c.first,
                                  .all = all,
                                  .slots = slots,
                                  .starts = starts.data(),
                                  .order = order.data(),
                                  .place = place.data()};
      const DeviceArray<int2> tiles(
          std::vector<int2>(static_cast<size_t>(sorted.count_tiles()), int2{0, 0}));
      sorted.tiles = tiles.data();
      kernels::sort_slots(sorted, device.view(), kStream);
      std::vector<int32_t> expected(static_cast<size_t>(slots));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int32_t>(i);
      std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
        return chosen[static_cast<size_t>(a)] < chosen[static_cast<size_t>(b)];
      });
      std::erase_if(expected, [&](int32_t slot) {
        const int32_t expert = chosen[static_cast<size_t>(slot)];
        return expert < c.first || expert >= c.first + c.experts;
      });
      std::vector<int32_t> in_order = order.download();
      in_order.resize(expected.size());
      CHECK(in_order == expected);
      const std::vector<int32_t> places = place.download(), first = starts.download();
      for (size_t i = 0; i < expected.size(); ++i)
        CHECK(places[static_cast<size_t>(expected[i])] == static_cast<int32_t>(i));
      // Each slot lies in one tile of its expert.
      std::vector<int> seen(expected.size());
      const int64_t rows = sorted.tile_rows();
      for (const int2 tile : tiles.download()) {
        if (tile.x < 0) continue;
        const int64_t end =
            std::min<int64_t>(tile.y + rows, first[static_cast<size_t>(tile.x) + 1]);
        for (int64_t i = tile.y; i < end; ++i) {
          ++seen[static_cast<size_t>(i)];
          CHECK(chosen[static_cast<size_t>(expected[static_cast<size_t>(i)])] == c.first + tile.x);
        }
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    });
  }
}

namespace {

/// A mixture of random experts on random rows.
struct Mixture {
  int64_t rows, hidden;
  model::MlpSpec mlp;
  Matrix in, weights;
  std::vector<int32_t> chosen;
  reference::ExpertMatrices matrices;

  Mixture(int64_t row_count, int64_t width, const MixtureCase& c, DType dtype)
      : rows(row_count),
        hidden(width),
        mlp(c.mlp),
        in(random_matrix(rows, hidden, dtype, 1)),
        weights(random_matrix(rows, mlp.experts_per_token, DType::f32, 4)),
        matrices{matrix(mlp.up_rows(), hidden, dtype, 2),
                 matrix(hidden, mlp.intermediate, dtype, 3)} {
    std::mt19937 random(5);
    const auto outputs = static_cast<uint32_t>(mlp.experts + mlp.router.identities);
    for (int64_t i = 0; i < rows * mlp.experts_per_token; ++i)
      chosen.push_back(static_cast<int32_t>(random() % outputs));
    if (!c.has_biases) return;
    matrices.up_bias = random_matrix(mlp.experts, mlp.up_rows(), dtype, 6).values;
    matrices.down_bias = random_matrix(mlp.experts, hidden, dtype, 7).values;
  }

  /// `outputs` of each expert.
  [[nodiscard]] Matrix matrix(int64_t outputs, int64_t inputs, DType dtype, uint32_t seed) const {
    return random_matrix(mlp.experts * outputs, inputs, dtype, seed, 1 / std::sqrt(double(hidden)));
  }
  [[nodiscard]] Matrix expected() const {
    std::vector<std::vector<reference::Choice>> choices(static_cast<size_t>(rows));
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < weights.columns; ++i)
        choices[static_cast<size_t>(t)].push_back(
            {chosen[static_cast<size_t>(t * weights.columns + i)], weights.at(t, i)});
    return reference::experts(in, choices, mlp, matrices);
  }
};

Matrix as_row(const std::vector<double>& values) {
  Matrix row(1, static_cast<int64_t>(values.size()));
  row.values = values;
  return row;
}

}  // namespace

TEST_CASE("experts agree with the reference") {
  struct Case {
    int64_t rows, experts, k, hidden, intermediate;
    Layout layout;
    int64_t ranks = 1;  // that have the experts between them
  };
  size_t number = 0;
  for (const DType dtype : kActivationTypes)
    for (const Case& c : {Case{1, 8, 2, 64, 32, kAligned}, Case{5, 3, 3, 40, 72, kAligned},
                          Case{3, 6, 2, 33, 17, kOdd}, Case{90, 2, 1, 24, 80, {.gap = 8}},
                          Case{150, 3, 2, 72, 136, kAligned}, Case{4, 8, 2, 64, 32, kAligned, 4},
                          Case{90, 4, 2, 24, 64, kAligned, 2}})
      for (const MixtureCase& kind : mixture_cases(c.experts, c.k, c.intermediate)) {
        if (c.rows > 100 && kind.mlp.up_offset == 0 && kind.has_biases) continue;
        if (c.rows > 5 && kind.mlp.router.identities > 0 && !kind.has_biases) continue;
        if (!testing::is_taken_sanitized(number++, 5)) continue;
        INFO(torch_name(dtype) << ", " << c.rows << " rows, " << c.k << " of " << c.experts << ", "
                               << c.hidden << " x " << c.intermediate << ", " << kind.name);
        const Mixture mixture(c.rows, c.hidden, kind, dtype);
        const DeviceRows in(mixture.in, dtype, c.layout), up(mixture.matrices.up, dtype),
            down(mixture.matrices.down, dtype), weights(mixture.weights, DType::f32),
            up_bias(as_row(mixture.matrices.up_bias), dtype),
            down_bias(as_row(mixture.matrices.down_bias), dtype);
        const Numbers chosen(mixture.chosen, c.k);
        const int64_t own = c.experts / c.ranks;
        // A rank's part of a vector with `columns` elements for each expert.
        const auto part = [&](const DeviceRows& all, int64_t columns, int64_t rank) {
          return static_cast<std::byte*>(all.view().data) +
                 static_cast<size_t>(rank * own * columns) * dtype_size(dtype);
        };
        const auto vector = [&](const std::byte* bias) {
          return kind.has_biases ? kernels::Vector{bias, dtype} : kernels::Vector{};
        };
        const int64_t up_rows = kind.mlp.up_rows();
        const Matrix expected = mixture.expected();
        in_each_order([&] {
          const DeviceBytes workspace(
              kernels::experts_layout(c.rows, kind.mlp, c.hidden, dtype).bytes);
          Matrix sum(c.rows, c.hidden);
          for (int64_t rank = 0; rank < c.ranks; ++rank) {
            const DeviceRows out(c.rows, c.hidden, dtype, c.layout);
            kernels::experts({.out = out.view(),
                              .in = in.view(),
                              .choices = {chosen.view(), weights.view()},
                              .mlp = &kind.mlp,
                              .first = rank * own,
                              .own = own,
                              .up = {part(up, up_rows * c.hidden, rank)},
                              .down = {part(down, c.hidden * c.intermediate, rank)},
                              .up_bias = vector(part(up_bias, up_rows, rank)),
                              .down_bias = vector(part(down_bias, 0, rank)),
                              .adds_inputs = rank == 0,
                              .workspace = static_cast<std::byte*>(workspace.data())},
                             kStream);
            const Matrix some = out.matrix();
            for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += some.values[i];
          }
          // Four roundings on the way of numbers of size 1, of which up to 72 are summed at random;
          // biases make them twice as large, a square doubles the error of what it squares, and so
          // does a weight on the input, which gate and up have in common.
          const bool doubled =
              kind.has_biases || !kind.mlp.gated || kind.mlp.weighs == model::ExpertWeighs::input;
          const double bound = (doubled ? 16 : 8) * epsilon(dtype) + 4e-6;
          CHECK(largest_error(sum, expected, 1) <= bound);
        });
      }
}

TEST_CASE("experts whose second products are made of slices agree with the reference") {
  constexpr int64_t kRows = 5, kExperts = 3, kChosen = 2, kHidden = 42, kInner = 64;
  size_t number = 0;
  for (const DType dtype : kActivationTypes)
    for (const MixtureCase& kind : mixture_cases(kExperts, kChosen, kInner)) {
      INFO(torch_name(dtype) << ", " << kind.name);
      const Mixture mixture(kRows, kHidden, kind, dtype);
      const DeviceRows in(mixture.in, dtype), up(mixture.matrices.up, dtype),
          down(mixture.matrices.down, dtype), weights(mixture.weights, DType::f32),
          up_bias(as_row(mixture.matrices.up_bias), dtype),
          down_bias(as_row(mixture.matrices.down_bias), dtype);
      const Numbers chosen(mixture.chosen, kChosen);
      const auto vector = [&](const DeviceRows& bias) {
        return kind.has_biases ? kernels::Vector{bias.view().data, dtype} : kernels::Vector{};
      };
      const Matrix expected = mixture.expected();
      const size_t bytes = kernels::experts_layout(kRows, kind.mlp, kHidden, dtype).bytes;
      model::WeightSpec up_spec{.name = "up"}, down_spec{.name = "down"};
      down_spec.shape = {kExperts, kHidden, kInner};
      up_spec.use = down_spec.use = model::WeightUse::experts;
      down_spec.split = model::Split::row;
      for (const int64_t slices : {2, 4, 8}) {
        if (!testing::is_taken_sanitized(number++, 4)) continue;
        INFO(slices << " slices");
        down_spec.slices = slices;
        const kernels::SlicedExpertsLayout layout(kRows, kChosen, up_spec, down_spec, dtype);
        in_each_order([&] {
          const DeviceBytes workspace(bytes), sliced(layout.bytes);
          const DeviceRows out(kRows, kHidden, dtype);
          const auto floats = [&](size_t offset) {
            return reinterpret_cast<float*>(static_cast<std::byte*>(sliced.data()) + offset);
          };
          const kernels::Experts op{.out = out.view(),
                                    .in = in.view(),
                                    .choices = {chosen.view(), weights.view()},
                                    .mlp = &kind.mlp,
                                    .own = kExperts,
                                    .up = {up.view().data},
                                    .down = {down.view().data},
                                    .up_bias = vector(up_bias),
                                    .down_bias = vector(down_bias),
                                    .workspace = static_cast<std::byte*>(workspace.data()),
                                    .one_arrangement = true,
                                    .down_slices = slices,
                                    .downs = floats(layout.downs),
                                    .waiting = floats(layout.waiting)};
          kernels::experts(op, kStream);
          kernels::sum_slices(out.view(), kernels::sum_of_experts(op), kStream);
          CHECK(largest_error(out.matrix(), expected, 1) <= 16 * epsilon(dtype) + 4e-6);
        });
      }
    }
}

// Weights are float32, so that every bit shows.
TEST_CASE("ranks that have whole experts add every slice to the bits of one rank") {
  constexpr int64_t kRows = 7, kExperts = 8, kChosen = 3, kHidden = 42, kInner = 64, kSlices = 8;
  for (const MixtureCase& kind : mixture_cases(kExperts, kChosen, kInner)) {
    const Mixture mixture(kRows, kHidden, kind, DType::f32);
    const DeviceRows in(mixture.in, DType::f32), up(mixture.matrices.up, DType::f32),
        down(mixture.matrices.down, DType::f32), weights(mixture.weights, DType::f32),
        up_bias(as_row(mixture.matrices.up_bias), DType::f32),
        down_bias(as_row(mixture.matrices.down_bias), DType::f32);
    const Numbers chosen(mixture.chosen, kChosen);
    model::WeightSpec up_spec{.name = "up"}, down_spec{.name = "down"};
    down_spec.shape = {kExperts, kHidden, kInner};
    up_spec.use = down_spec.use = model::WeightUse::experts;
    down_spec.slices = kSlices;
    const auto at = [](const DeviceRows& all, int64_t floats) {
      return static_cast<const float*>(all.view().data) + floats;
    };
    const auto biases = [&](const DeviceRows& all, int64_t floats) {
      return kind.has_biases ? kernels::Vector{at(all, floats), DType::f32} : kernels::Vector{};
    };
    const auto answer = [&](int64_t ranks) {
      down_spec.split = ranks == 1 ? model::Split::row : model::Split::experts;
      const kernels::SlicedExpertsLayout layout(kRows, kChosen, up_spec, down_spec, DType::f32);
      const DeviceBytes workspace(
          kernels::experts_layout(kRows, kind.mlp, kHidden, DType::f32).bytes);
      const DeviceBytes own(layout.bytes);
      auto* const bytes = static_cast<std::byte*>(own.data());
      const auto floats = [&](size_t offset) { return reinterpret_cast<float*>(bytes + offset); };
      kernels::SliceSums sums;
      std::vector<std::vector<float>> waiting;  // of each rank
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t first = rank * kExperts / ranks;
        const kernels::Experts op{.out = in.view(),
                                  .in = in.view(),
                                  .choices = {chosen.view(), weights.view()},
                                  .mlp = &kind.mlp,
                                  .first = first,
                                  .own = kExperts / ranks,
                                  .up = {at(up, first * kind.mlp.up_rows() * kHidden)},
                                  .down = {at(down, first * kHidden * kInner)},
                                  .up_bias = biases(up_bias, first * kind.mlp.up_rows()),
                                  .down_bias = biases(down_bias, 0),
                                  .adds_inputs = rank == 0,
                                  .workspace = static_cast<std::byte*>(workspace.data()),
                                  .one_arrangement = true,
                                  .down_slices = kSlices,
                                  .slices_apart = ranks > 1,
                                  .downs = floats(layout.downs),
                                  .waiting = floats(layout.waiting)};
        kernels::experts(op, kStream);
        require(cudaDeviceSynchronize());
        sums = kernels::sum_of_experts(op);
        std::vector<float>& found = waiting.emplace_back(sums.slices * sums.rows * sums.stride);
        require(cudaMemcpy(found.data(), sums.sums, found.size() * sizeof(float),
                           cudaMemcpyDeviceToHost));
      }
      // The ranks' tree.
      for (size_t step = 1; step < waiting.size(); step *= 2)
        for (size_t to = 0; to + step < waiting.size(); to += 2 * step)
          for (size_t i = 0; i < waiting[to].size(); ++i) waiting[to][i] += waiting[to + step][i];
      require(cudaMemcpy(floats(layout.waiting), waiting.front().data(),
                         waiting.front().size() * sizeof(float), cudaMemcpyHostToDevice));
      require(cudaDeviceSynchronize());
      const DeviceRows out(kRows, kHidden, DType::f32);
      kernels::sum_slices(out.view(), sums, kStream);
      return out.matrix().values;
    };
    const std::vector<double> expected = answer(1);
    for (const int64_t ranks : {2, 4, 8}) {
      INFO(kind.name << ", " << ranks << " ranks");
      CHECK(answer(ranks) == expected);
    }
  }
}

}  // namespace plimsoll::testing
