#include "batch/order/order_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace plimsoll::batch {
namespace {

constexpr double kLeastSaving = 0.05;  // of the prompt tokens

double cached_share(const ScheduleForecast& forecast) {
  const auto prompts = static_cast<double>(std::max<uint64_t>(forecast.prompt_tokens, 1));
  return static_cast<double>(forecast.cached_tokens) / prompts;
}

}  // namespace

std::string_view order_name(Order order) {
  switch (order) {
    case Order::automatic:
      return "auto";
    case Order::file:
      return "file";
    case Order::prefix:
      return "prefix";
  }
  return "";
}

// What waits for the blocks of others must still find them in the pool.
PrefixIndex::Steps steps_of(const engine::ScheduleShape& launch) {
  const int64_t pool = launch.cache.blocks * launch.cache.block_size / 4;
  return {std::min(launch.limits.tokens, pool) * launch.replicas,
          launch.limits.sequences * launch.replicas};
}

ChosenLines choose_order(Order asked, const PrefixIndex& index,
                         const engine::ScheduleShape& launch) {
  ChosenLines chosen;
  OrderChoice& choice = chosen.choice;
  choice.asked = asked;
  chosen.order = index.prefix_order(steps_of(launch));
  std::vector<uint32_t> as_read(index.lines());
  std::iota(as_read.begin(), as_read.end(), 0);
  choice.in_file_order = forecast_schedule(index, as_read, launch);
  choice.in_prefix_order = forecast_schedule(index, chosen.order, launch);
  const double file = cached_share(*choice.in_file_order);
  const double prefix = cached_share(*choice.in_prefix_order);
  const bool saves = prefix - file >= kLeastSaving;
  choice.used = asked != Order::automatic ? asked : saves ? Order::prefix : Order::file;
  choice.reason = fmt::format("--order {}", order_name(asked));
  if (asked != Order::automatic) return chosen;
  choice.reason = fmt::format(
      "of {} prompt tokens the prefix cache has {:.1f} % in the order by prefixes, {:.1f} % in the "
      "file's{}",
      index.prompt_tokens(), 100 * prefix, 100 * file, saves ? "" : "; less than 5 % more");
  return chosen;
}

}  // namespace plimsoll::batch
