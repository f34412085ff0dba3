#include "kernels/rows/sample.h"

#include <numeric>
#include <set>

#include "kernels/fixture.h"

namespace plimsoll::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct DrawParameters {
  double temperature = 1;
  int32_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double uniform = 0;
};

/// Steps 6 to 10 with a sort, in double: the tokens in id order whose part of the running sum lies
/// within `slack` of the uniform number, at which float weights may move the borders.
std::vector<int32_t> draw(const std::vector<float>& row, const DrawParameters& p, double slack) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](int32_t id) { return row[static_cast<size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  if (p.temperature < 1e-5) return {ids[0]};
  const double largest = double(logit(ids[0]));
  const auto weight = [&](int32_t id) {
    return std::exp((double(logit(id)) - largest) / p.temperature);
  };
  if (p.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(p.top_k)));
  std::erase_if(ids, [&](int32_t id) { return weight(id) < p.min_p || logit(id) == -kInfinity; });
  double total = 0;
  for (const int32_t id : ids) total += weight(id);
  if (p.top_p < 1) {
    double mass = 0;
    size_t kept = 0;
    do mass += weight(ids[kept++]);
    while (kept < ids.size() && mass < p.top_p * total);
    ids.resize(kept);
    total = mass;
  }
  std::sort(ids.begin(), ids.end());
  std::vector<int32_t> drawn;
  double passed = 0;
  for (const int32_t id : ids) {
    const double before = passed / total;
    passed += weight(id);
    if (before <= p.uniform + slack && passed / total > p.uniform - slack) drawn.push_back(id);
  }
  return drawn;
}

/// Tokens that may be drawn: float weights are off by a few 2^-22, for distances of up to 30, which
/// moves the border of top_p too.
std::set<int32_t> acceptable(const std::vector<float>& row, const DrawParameters& p) {
  constexpr double kSlack = 1e-5;
  std::set<int32_t> tokens;
  for (const double share : {-kSlack, 0.0, kSlack}) {
    DrawParameters moved = p;
    if (p.top_p < 1) moved.top_p += share;
    for (const int32_t id : draw(row, moved, kSlack)) tokens.insert(id);
  }
  return tokens;
}

std::vector<int32_t> sample_rows(const std::vector<std::vector<float>>& rows,
                                 const std::vector<DrawParameters>& parameters,
                                 Layout layout = kAligned) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto vocabulary = static_cast<int64_t>(rows[0].size());
  Matrix logits(count, vocabulary);
  std::vector<double> temperature, top_p, min_p, uniform;
  std::vector<int32_t> top_k;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(),
              logits.values.begin() + static_cast<ptrdiff_t>(r) * vocabulary);
    temperature.push_back(parameters[r].temperature);
    top_k.push_back(parameters[r].top_k);
    top_p.push_back(parameters[r].top_p);
    min_p.push_back(parameters[r].min_p);
    uniform.push_back(parameters[r].uniform);
  }
  const DeviceRows device(logits, DType::f32, layout);
  const DeviceArray<double> temperatures(temperature), top_ps(top_p), min_ps(min_p),
      uniforms(uniform);
  const DeviceArray<int32_t> top_ks(top_k), drawn(static_cast<size_t>(count));
  kernels::sample({device.view(), temperatures.data(), top_ks.data(), top_ps.data(), min_ps.data(),
                   uniforms.data(), drawn.data()},
                  kStream);
  return drawn.download();
}

std::vector<float> normal_row(int64_t vocabulary, uint32_t seed, double deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<float> row(static_cast<size_t>(vocabulary));
  for (float& x : row) x = static_cast<float>(normal(random));
  return row;
}

void check(const char* what, const std::vector<float>& row,
           const std::vector<DrawParameters>& parameters, Layout layout = kAligned) {
  in_each_order([&] {
    const std::vector<std::vector<float>> rows(parameters.size(), row);
    const std::vector<int32_t> drawn = sample_rows(rows, parameters, layout);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const DrawParameters& p = parameters[i];
      INFO(what << ": temperature " << p.temperature << ", top_k " << p.top_k << ", top_p "
                << p.top_p << ", min_p " << p.min_p << ", uniform " << p.uniform << ": drew "
                << drawn[i] << ", expected " << draw(row, p, 1e-12).at(0));
      CHECK(acceptable(row, p).count(drawn[i]) == 1);
    }
  });
}

/// All kinds of parameters, with a few uniform numbers each.
std::vector<DrawParameters> many_parameters(const std::vector<double>& uniforms) {
  std::vector<DrawParameters> all;
  for (const double uniform : uniforms)
    for (const DrawParameters& p :
         {DrawParameters{.temperature = 0}, DrawParameters{}, DrawParameters{.temperature = 0.3},
          DrawParameters{.temperature = 4}, DrawParameters{.top_k = 1}, DrawParameters{.top_k = 7},
          DrawParameters{.temperature = 5, .top_k = 700}, DrawParameters{.top_p = 0.9},
          DrawParameters{.top_p = 1e-9}, DrawParameters{.temperature = 3, .top_p = 0.999},
          DrawParameters{.min_p = 0.05}, DrawParameters{.min_p = 1},
          DrawParameters{.temperature = 0.8, .top_k = 20, .top_p = 0.8},
          DrawParameters{.temperature = 2, .top_k = 50, .top_p = 0.95, .min_p = 0.02}}) {
      all.push_back(p);
      all.back().uniform = uniform;
    }
  return all;
}

}  // namespace

TEST_CASE("tokens are drawn as the reference draws them") {
  const std::vector<double> few{0.37, 1 - 1e-16};
  for (const int64_t vocabulary : {1, 5, 127, 1000})
    check("normal", normal_row(vocabulary, 1, 2), many_parameters(few));
  check("odd rows", normal_row(515, 2, 3), many_parameters(few), kOdd);
  check("a large vocabulary", normal_row(50257, 3, 2.5), many_parameters({0.61}));
}

TEST_CASE("a vocabulary of more than 262,144 is drawn from to its last id") {
  constexpr int64_t kGemma3 = 262208;
  const std::vector<float> row = normal_row(kGemma3, 4, 2.5);
  check("Gemma 3", row, {{.uniform = 1 - 1e-16}, {.top_k = 40, .top_p = 0.9, .uniform = 0.5}});
  std::vector<float> last(kGemma3, -kInfinity);
  for (const int64_t id : {int64_t{262143}, int64_t{262144}, kGemma3 - 1})
    last[static_cast<size_t>(id)] = 1;
  check("its end alone", last, {{.uniform = 0.1}, {.uniform = 0.5}, {.uniform = 0.9}});
}

TEST_CASE("every token has its share") {
  const std::vector<float> row{1, -2, 0.5f, 3, 3, -kInfinity, 2};
  std::vector<DrawParameters> parameters;
  for (int i = 0; i < 50; ++i)
    parameters.push_back({.temperature = 1.5, .uniform = (i + 0.5) / 50});
  check("seven tokens", row, parameters);
}

TEST_CASE("of equal logits the lower ids stay") {
  std::vector<float> row(3000, 1.5f);
  CHECK(sample_rows({row}, {{.temperature = 0}})[0] == 0);
  check("all equal", row, many_parameters({0.999}));
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 3);
  check("three values", row, many_parameters({0.999}));
  row[17] = -0.f;
  row[18] = 0.f;
  row[2999] = 40;
  check("one far above", row, many_parameters({0.999}));
  // 1000 of value 2, of which 7 stay: ids 2, 5, ..., 20.
  row[2999] = 2;
  CHECK(sample_rows({row}, {{.top_k = 7, .uniform = 0.9999}})[0] == 23);
}

TEST_CASE("logits far apart, and close together") {
  std::vector<float> row = normal_row(2500, 5, 1e4);
  check("far apart", row, many_parameters({0.4}));
  row = normal_row(2500, 6, 1e-3);
  check("close together", row, many_parameters({0.4}));
  row = normal_row(2500, 7, 1e-12);
  for (float& x : row) x += 7;
  check("all the same but a few", row, many_parameters({0.4}));
  row.assign(100, -3e38f);
  row[50] = 3e38f;
  check("the ends of the range", row, many_parameters({0.4}));
  check("infinite temperature", normal_row(300, 8, 3),
        {{.temperature = 1e300, .uniform = 0.5},
         {.temperature = 1e300, .top_k = 10, .top_p = 0.5, .uniform = 0.7}});
  row = normal_row(300, 9, 2);
  for (size_t i = 0; i < row.size(); i += 2) row[i] = -kInfinity;
  row[0] = -kInfinity;
  check("masked", row, many_parameters({0, 0.4}));
}

TEST_CASE("rows that cannot be drawn from say so") {
  const std::vector<float> good = normal_row(600, 10, 1);
  std::vector<std::vector<float>> rows(6, good);
  rows[0][599] = std::nanf("");
  rows[1][3] = kInfinity;
  rows[2].assign(600, -kInfinity);
  rows[3][0] = -std::nanf("");
  rows[4][7] = -kInfinity;
  for (const double temperature : {0.0, 1.0})
    in_each_order([&] {
      const std::vector<DrawParameters> parameters(
          6, DrawParameters{.temperature = temperature, .uniform = 0.3});
      const std::vector<int32_t> drawn = sample_rows(rows, parameters);
      CHECK(drawn[0] == -1);
      CHECK(drawn[1] == -1);
      CHECK(drawn[2] == -2);
      CHECK(drawn[3] == -1);
      CHECK(drawn[4] >= 0);
      CHECK(drawn[5] >= 0);
    });
}

}  // namespace plimsoll::testing
