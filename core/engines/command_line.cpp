#include "engines/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/split_text.h"
#include "engines/answer.h"

namespace plimsoll::engines {
namespace {

template <typename Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string key_of(const Flag& flag) {
  return std::string(split_text(flag.names, ",").front());
}

/// "--tensor-parallel-size/--tp-size".
std::string shown(const Flag& flag) {
  return fmt::format("{}", fmt::join(split_text(flag.names, ","), "/"));
}

}  // namespace

bool is_value(const std::string& word) {
  return !word.starts_with('-') || word == "-" || number_in<double>(word) ||
         word.find(' ') != std::string::npos;
}

size_t count_values(const Flag& flag, std::span<const std::string> behind) {
  if (flag.kind == FlagKind::bare || behind.empty() || !is_value(behind.front())) return 0;
  if (flag.kind == FlagKind::optional) {
    const std::vector<std::string_view> choices = split_text(flag.choices, ",");
    return std::ranges::find(choices, behind.front()) == choices.end() ? 0 : 1;
  }
  if (flag.kind != FlagKind::list && flag.kind != FlagKind::names) return 1;
  return static_cast<size_t>(std::ranges::find_if_not(behind, is_value) - behind.begin());
}

const Flag* find_named(std::span<const Flag> flags, std::string_view name) {
  const auto found = std::ranges::find_if(flags, [&](const Flag& flag) {
    return std::ranges::count(split_text(flag.names, ","), name) > 0;
  });
  return found == flags.end() ? nullptr : &*found;
}

const Flag* find_flag(std::span<const Flag> flags, std::string_view word,
                      std::vector<std::string>* candidates) {
  const std::string_view name = word.substr(0, word.find('='));
  if (const Flag* const named = find_named(flags, name)) return named;
  const Flag* begun = nullptr;
  std::vector<std::string> found;
  for (const Flag& flag : flags) {
    for (const std::string_view known : split_text(flag.names, ",")) {
      if (!name.starts_with("--") || name.size() < 3 || !known.starts_with(name)) continue;
      begun = &flag;
      found.emplace_back(known);
    }
  }
  if (found.size() == 1) return begun;
  if (candidates != nullptr) *candidates = std::move(found);
  return nullptr;
}

void CommandLine::refuse(const std::string& what) const {
  throw Refusal{"arguments", fmt::format("{}: error: {}", program_, what)};
}

void CommandLine::check(const Flag& flag, const std::vector<std::string>& values) const {
  if (flag.kind == FlagKind::list || flag.kind == FlagKind::names) {
    if (values.empty())
      refuse(fmt::format("argument {}: expected at least one argument", shown(flag)));
  } else if (flag.kind != FlagKind::bare && flag.kind != FlagKind::optional && values.empty()) {
    refuse(fmt::format("argument {}: expected one argument", shown(flag)));
  }
  for (const std::string& value : values) {
    // "$PORT", "%PORT%", "{port}", "<port>" of a pasted line: what stands there moves no memory.
    constexpr std::string_view kPlaceholders = "$%{<";
    if (!flag.moves && !value.empty() && kPlaceholders.find(value[0]) != std::string_view::npos)
      continue;
    const bool whole = flag.kind == FlagKind::integer || flag.kind == FlagKind::list;
    if (whole && !number_in<int64_t>(value))
      refuse(fmt::format("argument {}: invalid int value: '{}'", shown(flag), value));
    if (flag.kind == FlagKind::number && !number_in<double>(value))
      refuse(fmt::format("argument {}: invalid float value: '{}'", shown(flag), value));
    const std::vector<std::string_view> choices = split_text(flag.choices, ",");
    if (flag.choices.empty() || std::ranges::find(choices, value) != choices.end()) continue;
    refuse(fmt::format("argument {}: invalid choice: '{}' (choose from '{}')", shown(flag), value,
                       fmt::join(choices, "', '")));
  }
}

CommandLine::CommandLine(std::span<const Flag> flags, std::string_view program,
                         const std::vector<std::string>& words)
    : program_(program) {
  std::vector<std::string> strangers;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    std::vector<std::string> candidates;
    const Flag* const flag = word.starts_with('-') ? find_flag(flags, word, &candidates) : nullptr;
    if (flag == nullptr && candidates.size() > 1) {
      refuse(fmt::format("ambiguous option: {} could match {}", word, fmt::join(candidates, ", ")));
    }
    if (flag == nullptr) {
      strangers.push_back(word);
      continue;
    }
    std::vector<std::string> values;
    const size_t equals = word.find('=');
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
    if (flag->kind == FlagKind::bare && !values.empty())
      refuse(fmt::format("argument {}: ignored explicit argument '{}'", shown(*flag), values[0]));
    if (equals == std::string::npos) {
      const size_t count = count_values(*flag, std::span(words).subspan(i + 1));
      for (size_t k = 0; k < count; ++k) values.push_back(words[++i]);
    }
    if (!flag->unplanned.empty())
      fail(ExitCode::usage, "{}: {}", word.substr(0, equals), flag->unplanned);
    check(*flag, values);
    if (!flag->moves) unmoved_.push_back(key_of(*flag));
    if (!flag->uncounted.empty() && !values_.contains(key_of(*flag)))
      uncounted_notes_.push_back(fmt::format("{}: {}", key_of(*flag), flag->uncounted));
    auto& all = all_values_[key_of(*flag)];
    all.insert(all.end(), values.begin(), values.end());
    values_[key_of(*flag)] = std::move(values);
  }
  if (!strangers.empty())
    refuse(fmt::format("unrecognized arguments: {}", fmt::join(strangers, " ")));
}

void CommandLine::add_notes(std::vector<std::string>& notes) const {
  notes.insert(notes.end(), uncounted_notes_.begin(), uncounted_notes_.end());
}

std::string CommandLine::text(std::string_view key, std::string_view missing) const {
  const auto at = values_.find(key);
  return at == values_.end() || at->second.empty() ? std::string(missing) : at->second.front();
}

std::vector<std::string> CommandLine::texts(std::string_view key) const {
  const auto at = all_values_.find(key);
  return at == all_values_.end() ? std::vector<std::string>() : at->second;
}

std::optional<int64_t> CommandLine::integer(std::string_view key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return std::nullopt;
  // What is far beyond any size is no size: sums and products of several stay below 2^63.
  constexpr int64_t kMost = int64_t{1} << 40;
  return std::clamp(number_in<int64_t>(at->second.front()).value_or(0), -kMost, kMost);
}

int64_t CommandLine::integer(std::string_view key, int64_t missing) const {
  return integer(key).value_or(missing);
}

std::optional<double> CommandLine::number(std::string_view key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return std::nullopt;
  const double value = number_in<double>(at->second.front()).value_or(0);
  return std::isfinite(value) ? value : 0;
}

std::vector<int64_t> CommandLine::integers(std::string_view key) const {
  std::vector<int64_t> values;
  const auto at = values_.find(key);
  if (at == values_.end()) return values;
  for (const std::string& text : at->second) values.push_back(number_in<int64_t>(text).value_or(0));
  return values;
}

}  // namespace plimsoll::engines
