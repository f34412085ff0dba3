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

constexpr const char* kEngineParts = "engine parts";

/// The text at a key; empty where there is none.
std::string text_at(const OrderedJson& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// Has the engine be its name, and keeps what another engine than vLLM and ours says apart.
void name_engine(OrderedJson& plan) {
  if (!plan.contains("engine") || !plan["engine"].is_object()) return;
  plan[kEngineParts] = plan["engine"];
  plan["engine"] = text_at(plan[kEngineParts], "name");
}

/// Puts what an engine settles on and sizes beside the plan's own keys.
void put_flat(OrderedJson& plan) {
  if (!plan.contains(kEngineParts)) return;
  const OrderedJson engine = plan[kEngineParts];
  for (const char* part : {"resolved", "sizing"}) {
    const OrderedJson object = engine.value(part, OrderedJson());
    if (!object.is_object()) continue;
    for (const auto& [key, value] : object.items())
      if (!value.is_array() && !value.is_object()) plan[fmt::format("{}.{}", part, key)] = value;
  }
}

/// Bytes of a plan's parts with their formulas, which say why they differ.
std::string parts_difference(const OrderedJson& before, const OrderedJson& after) {
  std::string text;
  const auto add = [&](const OrderedJson& plan) {
    text += fmt::format("\n{} {}\n", text_at(plan, "engine"), text_at(plan, "engine_version"));
    for (const OrderedJson& part : plan["parts"]) {
      if (!part.is_object() || !part.contains("bytes") || !part["bytes"].is_number_integer())
        continue;
      text += fmt::format("  {:<26}{:>12}  {}\n", text_at(part, "name"),
                          readable_bytes(part["bytes"].get<int64_t>()), text_at(part, "formula"));
    }
  };
  add(before);
  add(after);
  return text;
}

OrderedJson parse_plan(const std::string& text, const char* which) {
  try {
    OrderedJson json = parse_json<OrderedJson>(text, kOrderedLimits);
    if (json.is_object() && json.contains("schema_version") && json.contains("parts")) {
      take_middles(json);
      name_engine(json);
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
  OrderedJson before = parse_plan(before_text, "first");
  OrderedJson after = parse_plan(after_text, "second");
  const bool alike = text_at(before, "engine") == text_at(after, "engine");
  for (OrderedJson* plan : {&before, &after}) {
    if (alike) put_flat(*plan);
    plan->erase(kEngineParts);
  }
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
  if (!alike) text += parts_difference(before, after);
  return text.empty() ? "no difference\n" : text;
}

}  // namespace plimsoll::plan
