#include "batch/order/order_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace plimsoll::batch {
namespace {

constexpr double kLeastSaving = 0.05;  // of the prompt tokens

double share(uint64_t tokens, const PrefixIndex& index) {
  return static_cast<double>(tokens) /
         static_cast<double>(std::max<uint64_t>(index.prompt_tokens(), 1));
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

ChosenLines choose_order(Order asked, const PrefixIndex& index, const engine::ScheduleShape& launch,
                         std::optional<uint64_t> shared_tokens, Forecasts forecasts) {
  ChosenLines chosen;
  OrderChoice& choice = chosen.choice;
  choice.asked = asked;
  const bool is_open = asked == Order::automatic;
  const bool shares = !shared_tokens || share(*shared_tokens, index) >= kLeastSaving;
  const bool forecast = forecasts == Forecasts::both || (is_open && shares);
  if (forecast || asked == Order::prefix) chosen.order = index.prefix_order();
  if (forecast) {
    std::vector<uint32_t> as_read(index.lines());
    std::iota(as_read.begin(), as_read.end(), 0);
    choice.in_file_order = forecast_schedule(index, as_read, launch);
    choice.in_prefix_order = forecast_schedule(index, chosen.order, launch);
  }
  if (!is_open) {
    choice.used = asked;
    choice.reason = fmt::format("--order {}", order_name(asked));
  } else if (!shares) {
    choice.reason = fmt::format(
        "of {} prompt tokens {:.1f} % are in prefixes that lines share; in the order by prefixes "
        "the cache has less than 5 % more",
        index.prompt_tokens(), 100 * share(*shared_tokens, index));
  } else {
    const double file = share(choice.in_file_order->cached_tokens, index);
    const double prefix = share(choice.in_prefix_order->cached_tokens, index);
    const bool saves = prefix - file >= kLeastSaving;
    choice.used = saves ? Order::prefix : Order::file;
    choice.reason = fmt::format(
        "of {} prompt tokens the prefix cache has {:.1f} % in the order by prefixes, {:.1f} % in "
        "the file's{}",
        index.prompt_tokens(), 100 * prefix, 100 * file, saves ? "" : "; less than 5 % more");
  }
  return chosen;
}

}  // namespace plimsoll::batch
