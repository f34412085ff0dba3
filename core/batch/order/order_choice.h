// In which order the lines of an input run, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/order/schedule_forecast.h"

namespace plimsoll::batch {

/// --order. Automatic is by prefixes where that saves enough.
enum class Order : uint8_t { automatic, file, prefix };
/// "auto", "file", "prefix".
std::string_view order_name(Order order);

struct OrderChoice {
  Order asked = Order::automatic;
  Order used = Order::file;
  std::string reason;
  std::optional<ScheduleForecast> in_file_order;    // absent: not looked at
  std::optional<ScheduleForecast> in_prefix_order;  // likewise
  double survey_seconds = 0;                        // of reading and tokenizing all prompts
  double choose_seconds = 0;                        // of ordering them and of forecasts
};

/// The choice, and the order by prefixes.
struct ChosenLines {
  OrderChoice choice;
  std::vector<uint32_t> order;  // numbers of the index; empty where it was not needed
};

/// Forecasts run the scheduler over all lines: both orders always, or where the choice hangs on it.
enum class Forecasts : uint8_t { both, deciding };

/// Chooses between the input's order and that by prefixes, by the prompt tokens that the prefix
/// cache of the launch saves in each, as forecast, unless `asked` says which. `shared_tokens`: of
/// the prompts, in whole blocks that lines share; absent: not known. Where they are too few, no
/// order saves enough.
ChosenLines choose_order(Order asked, const PrefixIndex& index, const engine::ScheduleShape& launch,
                         std::optional<uint64_t> shared_tokens = {},
                         Forecasts forecasts = Forecasts::both);

}  // namespace plimsoll::batch
