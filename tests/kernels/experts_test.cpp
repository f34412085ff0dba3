#include "kernels/products/experts.h"

#include "kernels/fixture.h"

namespace plimsoll::testing {
namespace {

using kernels::Normalize;

/// i32 rows on the device.
struct Choices {
  DeviceArray<int32_t> numbers;
  int64_t rows, columns;
  Choices(int64_t row_count, int64_t column_count)
      : numbers(static_cast<size_t>(row_count * column_count)),
        rows(row_count),
        columns(column_count) {}
  explicit Choices(const std::vector<int32_t>& values, int64_t column_count)
      : numbers(values),
        rows(static_cast<int64_t>(values.size()) / column_count),
        columns(column_count) {}
  [[nodiscard]] View view() const { return {numbers.data(), DType::i32, rows, columns, columns}; }
};

std::vector<double> row_of(const Matrix& m, int64_t row) {
  return {m.values.begin() + row * m.columns, m.values.begin() + (row + 1) * m.columns};
}

}  // namespace

TEST_CASE("route chooses the best, of equals the first") {
  struct Case {
    int64_t rows, experts, k;
  };
  for (const DType dtype : kActivationTypes)
    for (const Case& c : {Case{1, 1, 1}, Case{5, 8, 2}, Case{9, 60, 4}, Case{3, 128, 8},
                          Case{2, 33, 32}, Case{4, 512, 10}})
      for (const Normalize normalize : {Normalize::no, Normalize::yes}) {
        INFO(torch_name(dtype) << " " << c.k << " of " << c.experts);
        Matrix logits = random_matrix(c.rows, c.experts, dtype, 1, 2);
        for (int64_t i = 0; i + 1 < c.experts; i += 3)
          logits.at(0, i + 1) = logits.at(0, i);  // equals
        const DeviceRows device(logits, dtype, kOdd);
        in_each_order([&] {
          const Choices chosen(c.rows, c.k);
          const DeviceRows weights(c.rows, c.k, DType::f32);
          kernels::route(chosen.view(), weights.view(), device.view(), normalize, kStream);
          const std::vector<int32_t> experts = chosen.numbers.download();
          const Matrix shares = weights.matrix();
          for (int64_t t = 0; t < c.rows; ++t) {
            const auto expected =
                reference::route(row_of(logits, t), c.k, normalize == Normalize::yes);
            for (int64_t i = 0; i < c.k; ++i) {
              CHECK(experts[static_cast<size_t>(t * c.k + i)] ==
                    expected[static_cast<size_t>(i)].expert);
              CHECK(shares.at(t, i) ==
                    Approx(expected[static_cast<size_t>(i)].weight).epsilon(2e-6));
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
  const Choices chosen(2, 3);
  const DeviceRows weights(2, 3, DType::f32);
  kernels::route(chosen.view(), weights.view(), device.view(), Normalize::yes, kStream);
  CHECK(chosen.numbers.download() == std::vector<int32_t>{0, 1, 2, 7, 0, 1});
}

TEST_CASE("slots are sorted by expert, each expert's in their order") {
  struct Case {
    int64_t rows, experts, k;
    bool one_sided;  // all rows choose the same
  };
  for (const Case& c : {Case{1, 8, 2, false}, Case{300, 4, 2, false}, Case{40, 128, 8, false},
                        Case{90, 16, 3, true}}) {
    INFO(c.rows << " rows, " << c.k << " of " << c.experts);
    std::mt19937 random(1);
    std::vector<int32_t> chosen;
    for (int64_t i = 0; i < c.rows * c.k; ++i)
      chosen.push_back(static_cast<int32_t>(
          c.one_sided ? 13 + i % c.k : random() % static_cast<uint32_t>(c.experts)));
    const Choices device(chosen, c.k);
    const int64_t slots = c.rows * c.k;
    in_each_order([&] {
      const DeviceArray<int32_t> starts(static_cast<size_t>(c.experts + 1)),
          order(static_cast<size_t>(slots)), place(static_cast<size_t>(slots));
      const DeviceArray<int2> tiles(static_cast<size_t>(kernels::expert_tiles(slots, c.experts)));
      kernels::sort_slots(
          {c.experts, slots, starts.data(), order.data(), place.data(), tiles.data()},
          device.view(), kStream);
      std::vector<int32_t> expected(static_cast<size_t>(slots));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int32_t>(i);
      std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
        return chosen[static_cast<size_t>(a)] < chosen[static_cast<size_t>(b)];
      });
      CHECK(order.download() == expected);
      const std::vector<int32_t> places = place.download(), first = starts.download();
      for (size_t i = 0; i < expected.size(); ++i)
        CHECK(places[static_cast<size_t>(expected[i])] == static_cast<int32_t>(i));
      // Each slot lies in one tile of its expert.
      std::vector<int> seen(expected.size());
      const int64_t rows = kernels::expert_tile_rows(slots, c.experts);
      for (const int2 tile : tiles.download()) {
        if (tile.x < 0) continue;
        const int64_t end =
            std::min<int64_t>(tile.y + rows, first[static_cast<size_t>(tile.x) + 1]);
        for (int64_t i = tile.y; i < end; ++i) {
          ++seen[static_cast<size_t>(i)];
          CHECK(chosen[static_cast<size_t>(expected[static_cast<size_t>(i)])] == tile.x);
        }
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    });
  }
}

TEST_CASE("experts agree with the reference") {
  struct Case {
    int64_t rows, experts, k, hidden, intermediate;
    Layout layout;
  };
  for (const DType dtype : kActivationTypes)
    for (const Case& c : {Case{1, 8, 2, 64, 32, kAligned}, Case{5, 3, 3, 40, 72, kAligned},
                          Case{3, 6, 2, 33, 17, kOdd}, Case{90, 2, 1, 24, 80, {.gap = 8}},
                          Case{150, 3, 2, 72, 136, kAligned}}) {
      INFO(torch_name(dtype) << ", " << c.rows << " rows, " << c.k << " of " << c.experts << ", "
                             << c.hidden << " x " << c.intermediate);
      const Matrix in = random_matrix(c.rows, c.hidden, dtype, 1);
      const double size = 1 / std::sqrt(double(c.hidden));
      const Matrix up = random_matrix(c.experts * 2 * c.intermediate, c.hidden, dtype, 2, size);
      const Matrix down = random_matrix(c.experts * c.hidden, c.intermediate, dtype, 3, size);
      const Matrix weights = random_matrix(c.rows, c.k, DType::f32, 4);
      std::vector<int32_t> chosen;
      std::mt19937 random(5);
      for (int64_t i = 0; i < c.rows * c.k; ++i)
        chosen.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.experts)));
      const model::MlpSpec mlp{.kind = model::MlpKind::experts,
                               .intermediate = c.intermediate,
                               .experts = c.experts,
                               .experts_per_token = c.k};
      const DeviceRows device_in(in, dtype, c.layout), device_up(up, dtype),
          device_down(down, dtype);
      const DeviceRows device_weights(weights, DType::f32);
      const Choices device_chosen(chosen, c.k);
      Matrix expected(c.rows, c.hidden);
      for (int64_t t = 0; t < c.rows; ++t)
        for (int64_t i = 0; i < c.k; ++i) {
          const int64_t e = chosen[static_cast<size_t>(t * c.k + i)];
          std::vector<double> gated;
          for (int64_t n = 0; n < c.intermediate; ++n) {
            double g = 0, u = 0;
            for (int64_t h = 0; h < c.hidden; ++h) {
              g += in.at(t, h) * up.at(e * 2 * c.intermediate + n, h);
              u += in.at(t, h) * up.at(e * 2 * c.intermediate + c.intermediate + n, h);
            }
            gated.push_back(reference::activate(mlp.activation, g) * u);
          }
          for (int64_t h = 0; h < c.hidden; ++h)
            for (int64_t n = 0; n < c.intermediate; ++n)
              expected.at(t, h) +=
                  weights.at(t, i) * gated[static_cast<size_t>(n)] * down.at(e * c.hidden + h, n);
        }
      in_each_order([&] {
        const DeviceRows out(c.rows, c.hidden, dtype, c.layout);
        const DeviceBytes workspace(kernels::experts_layout(c.rows, mlp, c.hidden, dtype).bytes);
        kernels::experts({.out = out.view(),
                          .in = device_in.view(),
                          .chosen = device_chosen.view(),
                          .weights = device_weights.view(),
                          .mlp = &mlp,
                          .up = device_up.view().data,
                          .down = device_down.view().data,
                          .workspace = static_cast<std::byte*>(workspace.data())},
                         kStream);
        // Four roundings on the way of numbers of size 1, of which up to 72 are summed at random.
        CHECK(largest_error(out.matrix(), expected, 1) <= 8 * epsilon(dtype) + 4e-6);
      });
    }
}

}  // namespace plimsoll::testing
