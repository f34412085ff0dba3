#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

/// Lists, and what follows from what is compared.
constexpr std::string_view kUncompared[] = {"parts",  "advice",    "kv_kinds",
                                            "bounds", "cold_boot", "machine"};

/// Has the figures of the cache be those of the bounds' middle, whichever edge was assumed.
void take_middles(OrderedJson& plan) {
  const OrderedJson bounds = plan.value("bounds", OrderedJson::object());
  for (const auto& [key, edges] : bounds.items()) {
    if (plan.contains(key) && edges.is_object() && edges.contains("middle"))
      plan[key] = edges["middle"];
  }
}

OrderedJson parse_plan(const std::string& text, const char* which) {
  try {
    OrderedJson json = parse_json<OrderedJson>(text, kOrderedLimits);
    if (json.is_object() && json.contains("schema_version") && json.contains("parts")) {
      take_middles(json);
      return json;
    }
  } catch (const JsonError& error) {
    fail(ExitCode::usage, "--diff: the {} file is no JSON: line {}, column {}: {}", which,
         error.line, error.column, error.what());
  }
  fail(ExitCode::usage, "--diff: the {} file is no plan; make one with --format json", which);
}

std::string shown(const std::string& key, const OrderedJson& value) {
  if (value.is_number_integer() && key.ends_with("_bytes"))
    return readable_bytes(value.get<int64_t>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::string diff_plans(const std::string& before_text, const std::string& after_text) {
  const OrderedJson before = parse_plan(before_text, "first");
  const OrderedJson after = parse_plan(after_text, "second");
  std::string text;
  for (const auto& [key, value] : after.items()) {
    if (std::ranges::find(kUncompared, key) != std::end(kUncompared)) continue;
    const bool known = before.contains(key);
    if (known && before[key] == value) continue;
    const bool bytes = known && key.ends_with("_bytes") && value.is_number_integer() &&
                       before[key].is_number_integer();
    std::string change;
    if (bytes) {
      const int64_t difference = value.get<int64_t>() - before[key].get<int64_t>();
      change = fmt::format(" ({}{})", difference > 0 ? "+" : "", readable_bytes(difference));
    }
    text += fmt::format("{:<26} {} -> {}{}\n", key, known ? shown(key, before[key]) : "(absent)",
                        shown(key, value), change);
  }
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key) && std::ranges::find(kUncompared, key) == std::end(kUncompared))
      text += fmt::format("{:<26} {} -> (absent)\n", key, shown(key, value));
  }
  return text.empty() ? "no difference\n" : text;
}

}  // namespace plimsoll::plan
