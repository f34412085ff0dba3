// Figures of several replicas, added up.
#include <catch2/catch.hpp>
#include <tuple>
#include <type_traits>

#include "engine/engine.h"

using plimsoll::engine::EngineStats;

namespace {

using S = EngineStats;
constexpr std::tuple kFigures(&S::steps, &S::prompt_tokens, &S::cached_prompt_tokens,
                              &S::generated_tokens, &S::drafted_tokens, &S::kept_tokens,
                              &S::forced_tokens, &S::kept_forced_tokens, &S::preemptions,
                              &S::encoded_images, &S::prefix_queries_tokens, &S::running,
                              &S::waiting, &S::under_way, &S::peak_running, &S::kv_blocks,
                              &S::kv_blocks_used, &S::kv_blocks_peak, &S::prefill_seconds,
                              &S::decode_seconds, &S::encode_seconds);
static_assert(sizeof(S) == 8 * std::tuple_size_v<decltype(kFigures)>,
              "a figure has no place above");

/// Calls `use` with each figure and its number.
template <class Use>
void for_each_figure(const Use& use) {
  int number = 0;
  std::apply([&](auto... figure) { (use(figure, ++number), ...); }, kFigures);
}

}  // namespace

TEST_CASE("every figure of a replica is added to the others'") {
  EngineStats one, sum;
  for_each_figure([&](auto figure, int number) { one.*figure += 1 << number; });
  sum += one;
  sum += one;
  for_each_figure([&](auto figure, int number) {
    INFO("figure " << number);
    CHECK(static_cast<double>(sum.*figure) == 2 << number);
  });
}

TEST_CASE("of replicas the counts and peaks are added up, of the times it is the mean") {
  EngineStats one, three;
  for_each_figure([&](auto figure, int number) {
    one.*figure += number;
    three.*figure += 3 * number;
  });
  const EngineStats both = plimsoll::engine::joined({one, three});
  for_each_figure([&](auto figure, int number) {
    INFO("figure " << number);
    const bool is_time = std::is_same_v<decltype(figure), double S::*> &&
                         static_cast<const void*>(&(both.*figure)) != &both.under_way;
    CHECK(static_cast<double>(both.*figure) == (is_time ? 2 : 4) * number);
  });
  CHECK(plimsoll::engine::joined({one}).encode_seconds == one.encode_seconds);
}
