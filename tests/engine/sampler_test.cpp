#include "engine/sampling/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace plimsoll::engine;

namespace {

const std::vector<TokenId> kEos = {0};

/// One choice that is asked for its next token again and again.
struct Draws {
  explicit Draws(SamplingParams sampling, std::vector<TokenId> prompt_tokens = {5})
      : params(std::move(sampling)), prompt(std::move(prompt_tokens)) {}

  SampleResult sample(const std::vector<float>& logits, const std::string& key = "line") {
    std::vector<float> values(logits.size());
    std::vector<int32_t> ids(logits.size());
    SamplingState state(params, prompt, kEos, output, TokenRandom(0, key, params.seed, 0));
    for (const TokenId token : output) state.accept(token);
    return Sampler(values, ids).sample(logits, state);
  }
  TokenId token(const std::vector<float>& logits) {
    const SampleResult result = sample(logits);
    REQUIRE(result.outcome == Sampled::token);
    return result.token;
  }
  /// Share of each token among draws of many lines.
  std::vector<double> shares(const std::vector<float>& logits, int draws = 20'000) {
    std::vector<double> shares(logits.size());
    for (int i = 0; i < draws; ++i) {
      shares[static_cast<size_t>(sample(logits, std::to_string(i)).token)] += 1.0 / draws;
    }
    return shares;
  }

  SamplingParams params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
};

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

/// Probabilities that remain when only `kept` tokens take part.
std::vector<double> expected_shares(const std::vector<float>& logits, double temperature,
                                    const std::vector<size_t>& kept) {
  std::vector<double> shares(logits.size());
  double total = 0;
  for (const size_t id : kept) total += shares[id] = std::exp(logits[id] / temperature);
  for (double& share : shares) share /= total;
  return shares;
}

// Five standard deviations of 20,000 draws.
void check_shares(const std::vector<double>& shares, const std::vector<double>& expected) {
  for (size_t id = 0; id < shares.size(); ++id) {
    INFO("token " << id);
    const double p = expected[id];
    if (p == 0) {
      CHECK(shares[id] == 0);
    } else {
      CHECK(std::abs(shares[id] - p) < 5 * std::sqrt(p * (1 - p) / 20'000) + 1e-9);
    }
  }
}

const std::vector<float> kRow = {0.5f, 2.f, -1.f, 1.5f, 2.f, 0.f};
const std::vector<size_t> kAll = {0, 1, 2, 3, 4, 5};

}  // namespace

TEST_CASE("greedy takes the largest logit, of equals the lowest id") {
  CHECK(Draws(greedy()).token(kRow) == 1);
  SamplingParams almost = greedy();
  almost.temperature = 9e-6;
  almost.top_p = 0.1;
  CHECK(Draws(almost).token(kRow) == 1);
}

TEST_CASE("rows with NaN or infinity are refused") {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    std::vector<float> row = kRow;
    row[3] = value;
    CHECK(Draws(greedy()).sample(row).outcome == Sampled::not_finite);
    CHECK(Draws({}).sample(row).outcome == Sampled::not_finite);
  }
}

TEST_CASE("steps before the temperature change the greedy choice") {
  SamplingParams params = greedy();
  SECTION("allowed_token_ids") {
    params.allowed_token_ids = {0, 3, 5};
    CHECK(Draws(params).token(kRow) == 3);
  }
  SECTION("bad_words of one token") {
    params.bad_words = {{1}};
    CHECK(Draws(params).token(kRow) == 4);
  }
  SECTION("bad_words of several tokens, completed only") {
    params.bad_words = {{3, 2, 1}};
    Draws draws(params, {3, 2});
    CHECK(draws.token(kRow) == 1);
    draws.output = {2};
    CHECK(draws.token(kRow) == 1);
    draws.output = {4, 3, 2};
    CHECK(draws.token(kRow) == 4);
    draws.output = {3, 2, 4};
    CHECK(draws.token(kRow) == 1);
  }
  SECTION("min_tokens masks end of sequence and stop tokens") {
    params.min_tokens = 2;
    params.stop_token_ids = {1};
    params.logit_bias = {{0, 50}};
    Draws draws(params);
    CHECK(draws.token(kRow) == 4);
    draws.output = {4};
    CHECK(draws.token(kRow) == 4);
    draws.output = {4, 4};
    CHECK(draws.token(kRow) == 0);
  }
  SECTION("logit_bias") {
    params.logit_bias = {{2, 10}, {1, -1}};
    CHECK(Draws(params).token(kRow) == 2);
  }
  SECTION("logit_bias does not revive what is masked") {
    params.allowed_token_ids = {3};
    params.logit_bias = {{1, 100}};
    CHECK(Draws(params).token(kRow) == 3);
  }
  SECTION("nothing left") {
    params.allowed_token_ids = {3};
    params.bad_words = {{3}};
    CHECK(Draws(params).sample(kRow).outcome == Sampled::nothing_allowed);
  }
}

TEST_CASE("penalties follow vLLM's formulas") {
  SamplingParams params;
  std::vector<float> adjusted(4);
  const std::vector<float> row = {1, -1, 2, 3};
  const std::vector<TokenId> prompt = {1, 1, 2};
  std::vector<TokenId> output = {2, 3, 3};
  const auto adjust = [&] {
    SamplingState state(params, prompt, kEos, output, TokenRandom(0, "", {}, 0));
    for (const TokenId token : output) state.accept(token);
    CHECK(state.adjusts(state.position()));
    state.adjust(row, adjusted);
    return adjusted;
  };
  SECTION("repetition: prompt and output, once") {
    params.repetition_penalty = 2;
    CHECK(adjust() == std::vector<float>{1, -2, 1, 1.5f});
  }
  SECTION("frequency: output, per occurrence") {
    params.frequency_penalty = 0.5;
    CHECK(adjust() == std::vector<float>{1, -1, 1.5f, 2});
  }
  SECTION("presence: output, once") {
    params.presence_penalty = 0.5;
    CHECK(adjust() == std::vector<float>{1, -1, 1.5f, 2.5f});
  }
  SECTION("presence leaves out what only the prompt holds") {
    params.repetition_penalty = 2;
    params.presence_penalty = 0.5;
    CHECK(adjust() == std::vector<float>{1, -2, 0.5f, 1});
  }
  SECTION("bias comes before repetition") {
    params.repetition_penalty = 2;
    params.logit_bias = {{1, 5}};
    CHECK(adjust() == std::vector<float>{1, 2, 1, 1.5f});
  }
}

TEST_CASE("draws are distributed as the probabilities") {
  SamplingParams params;
  params.temperature = GENERATE(0.3, 1.0, 2.5);
  check_shares(Draws(params).shares(kRow), expected_shares(kRow, params.temperature, kAll));
}

TEST_CASE("truncation keeps what vLLM keeps") {
  // Probabilities at temperature 1: 1 and 4 0.333 each, 3 0.202, 0 0.074, 5 0.045, 2 0.017.
  struct Row {
    const char* label;
    int64_t top_k;
    double top_p, min_p;
    std::vector<size_t> kept;
  };
  const Row row = GENERATE(
      Row{"top_k", 3, 1, 0, {1, 4, 3}}, Row{"top_k, equal values: lower id", 1, 1, 0, {1}},
      Row{"top_k beyond the vocabulary", 99, 1, 0, {0, 1, 2, 3, 4, 5}},
      Row{"top_p: until the sum reaches it", 0, 0.6, 0, {1, 4}},
      Row{"top_p: one more", 0, 0.7, 0, {1, 4, 3}}, Row{"top_p: the first always", 0, 1e-9, 0, {1}},
      Row{"top_p nearly all", 0, 0.99, 0, {0, 1, 2, 3, 4, 5}},
      Row{"min_p relative to the best", 0, 1, 0.5, {1, 4, 3}},
      Row{"top_p over what min_p leaves", 0, 0.75, 0.5, {1, 4}},
      Row{"top_p over what top_k leaves", 3, 0.76, 0, {1, 4}},
      Row{"min_p over what top_k leaves", 5, 1, 0.5, {1, 4, 3}},
      Row{"all three", 5, 0.8, 0.2, {1, 4, 3}}, Row{"all three, min_p first", 5, 0.8, 0.7, {1, 4}});
  INFO(row.label);
  SamplingParams params;
  params.top_k = row.top_k;
  params.top_p = row.top_p;
  params.min_p = row.min_p;
  check_shares(Draws(params).shares(kRow), expected_shares(kRow, 1, row.kept));
}

TEST_CASE("temperature comes before truncation") {
  SamplingParams params;
  params.temperature = 0.25;  // 1 and 4 have 0.45 each
  params.top_p = 0.85;
  check_shares(Draws(params).shares(kRow), expected_shares(kRow, 0.25, {1, 4}));
  params.temperature = 1;
  check_shares(Draws(params).shares(kRow), expected_shares(kRow, 1, {1, 3, 4}));
}

TEST_CASE("a large vocabulary is truncated as a full sort would") {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> row(20'000);
  for (float& value : row) value = std::round(normal(random) * 8) / 8;  // many equal ones
  SamplingParams params;
  params.top_p = GENERATE(0.5, 0.9, 0.999);
  params.top_k = GENERATE(0, 40, 5000);
  std::vector<size_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return row[a] > row[b]; });
  if (params.top_k > 0) order.resize(static_cast<size_t>(params.top_k));
  const std::vector<double> shares = expected_shares(row, 1, order);
  double mass = 0;
  size_t kept = 0;
  while (mass < params.top_p) mass += shares[order[kept++]];
  order.resize(kept);
  std::ranges::sort(order);
  Draws draws(params);
  double mean = 0;
  for (int i = 0; i < 300; ++i) {
    const TokenId token = draws.sample(row, std::to_string(i)).token;
    REQUIRE(std::ranges::binary_search(order, static_cast<size_t>(token)));
    mean += row[static_cast<size_t>(token)] / 300;
  }
  double expected = 0;
  for (const size_t id : order) expected += shares[id] / mass * row[id];
  CHECK(mean == Approx(expected).margin(0.5));
}

TEST_CASE("a draw depends on the row and the choice's numbers alone") {
  SamplingParams params;
  params.seed = 11;
  Draws first(params), second(params);
  CHECK(first.sample(kRow, "a").token == second.sample(kRow, "b").token);
  params.temperature = 1e6;
  params.top_p = 0.999999;
  CHECK(Draws(params).sample(std::vector<float>(1000, 1.f)).outcome == Sampled::token);
}
