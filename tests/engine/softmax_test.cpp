#include "engine/sampling/softmax.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/sampling/logprobs.h"

using namespace plimsoll::engine;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_row(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 5);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

/// Few distinct values, so that many are equal.
std::vector<float> coarse_row(size_t size, unsigned seed) {
  std::vector<float> row = random_row(size, seed);
  for (float& value : row) value = std::round(value);
  return row;
}

double exact_log_sum_exp(const std::vector<float>& row) {
  long double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<long double>(value));
  return static_cast<double>(std::log(sum));
}

std::vector<int32_t> sorted_ids(const std::vector<float>& row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  return ids;
}

}  // namespace

TEST_CASE("the largest value is found with the lowest id") {
  for (const size_t size : {1u, 15u, 16u, 17u, 1000u}) {
    const std::vector<float> row = coarse_row(size, 1);
    const RowScan scan = scan_row(row);
    CHECK(scan.finite);
    CHECK(scan.best == std::ranges::max_element(row) - row.begin());
    CHECK(scan.maximum == *std::ranges::max_element(row));
  }
}

TEST_CASE("NaN and infinities are noticed wherever they are") {
  for (const size_t at : {0u, 7u, 99u}) {
    for (const float value : {std::nanf(""), -std::nanf(""), kInfinity, -kInfinity}) {
      std::vector<float> row = random_row(100, 1);
      row[at] = value;
      CHECK_FALSE(scan_row(row).finite);
    }
  }
  CHECK(scan_row(std::vector<float>{std::numeric_limits<float>::max(), -0.f, 1e-45f}).finite);
}

TEST_CASE("exponentials are within float precision") {
  for (float x = 0; x > -87.3f; x -= 0.013f) {
    float weight = 0;
    const double sum = exp_weights({&x, 1}, 0, 1, {&weight, 1});
    const double exact = std::exp(static_cast<double>(x));
    REQUIRE(sum == static_cast<double>(weight));
    REQUIRE(std::abs(sum - exact) <= 2e-7 * exact);
  }
  const std::vector<float> far = {0, -88, -1e30f, -kInfinity};
  std::vector<float> weights(4);
  CHECK(exp_weights(far, 0, 1, weights) == 1);
  CHECK(weights == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("log_sum_exp is exact to 1e-6 at any scale") {
  for (const float shift : {0.f, 1e4f, -1e4f}) {
    std::vector<float> row = random_row(130'000, 3);
    const double exact = exact_log_sum_exp(row) + static_cast<double>(shift);
    std::vector<float> shifted = row;
    for (float& value : shifted) value += shift;
    // A float near 1e4 is good to 5e-4.
    const double tolerance = shift == 0 ? 1e-6 : 1e-3;
    CHECK(log_sum_exp(shifted, *std::ranges::max_element(shifted)) ==
          Approx(exact).margin(tolerance));
  }
}

TEST_CASE("the best are selected as a full sort would, equal ones by id") {
  const bool coarse = GENERATE(true, false);
  const std::vector<float> row = coarse ? coarse_row(5000, 4) : random_row(5000, 4);
  const std::vector<int32_t> expected = sorted_ids(row);
  std::vector<int32_t> ids(row.size());
  for (const int64_t count : {0, 1, 2, 50, 256, 257, 4999, 5000, 9999}) {
    const auto found = select_top(row, count, ids);
    REQUIRE(found.size() == static_cast<size_t>(std::min<int64_t>(count, 5000)));
    REQUIRE(std::equal(found.begin(), found.end(), expected.begin()));
  }
}

TEST_CASE("logprobs name the token first, then the best by rank without it") {
  const std::vector<float> row = {1, 3, 2, 3, 0};
  std::vector<int32_t> ids(row.size());
  const double normalizer = exact_log_sum_exp(row);
  const auto position = position_logprobs(row, 2, 2, ids);
  REQUIRE(position);
  REQUIRE(position->size() == 3);
  CHECK(position->at(0).token == 2);
  CHECK(position->at(0).rank == 3);
  CHECK(position->at(0).logprob == Approx(2 - normalizer).epsilon(1e-6));
  CHECK(position->at(1).token == 1);
  CHECK(position->at(1).rank == 1);
  CHECK(position->at(2).token == 3);
  CHECK(position->at(2).rank == 2);
  CHECK(position_logprobs(row, 3, 2, ids)->size() == 2);
  CHECK(position_logprobs(row, 3, 0, ids)->at(0).rank == 2);
  CHECK(position_logprobs(row, 3, 0, ids)->size() == 1);
  CHECK(position_logprobs(row, 4, -1, ids)->size() == 5);
  CHECK_FALSE(position_logprobs(std::vector<float>{1, std::nanf("")}, 0, 0, ids));
}
