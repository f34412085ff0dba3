#include "base/units.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace plimsoll {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kUnits[] = {
    {"", 1},       {"k", 1e3},    {"m", 1e6},    {"g", 1e9},      {"t", 1e12},     {"KB", 1e3},
    {"MB", 1e6},   {"GB", 1e9},   {"TB", 1e12},  {"B", 1},        {"K", 1024},     {"M", 0x1p20},
    {"G", 0x1p30}, {"T", 0x1p40}, {"KiB", 1024}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};

[[noreturn]] void refuse(std::string_view expected, const std::string& text) {
  throw std::invalid_argument(fmt::format("expected {}, found \"{}\"", expected, text));
}

struct Quantity {
  double number;
  std::string_view unit;
};

// A decimal number at the beginning of the text, and what follows it.
std::optional<Quantity> split_number(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  return Quantity{number, text.substr(static_cast<size_t>(end - text.data()))};
}

uint64_t parse_quantity(const std::string& text, double bare_unit, std::string_view expected) {
  const std::optional<Quantity> quantity = split_number(text);
  if (!quantity) refuse(expected, text);
  for (const Unit& unit : kUnits) {
    if (unit.name != quantity->unit) continue;
    const double value = quantity->number * (unit.name.empty() ? bare_unit : unit.factor);
    if (value >= 0x1p62) refuse("a number below 2^62", text);
    if (unit.name.empty() && bare_unit == 1 && value != std::trunc(value)) refuse(expected, text);
    return static_cast<uint64_t>(value);
  }
  refuse(expected, text);
}

}  // namespace

int64_t parse_count(const std::string& text) {
  const auto is_digit = [&](size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    plain += text[i];
  }
  return static_cast<int64_t>(parse_quantity(plain, 1, "a number such as 4096, 32k or 32K"));
}

int64_t parse_count(const std::string& text, CountBounds bounds) {
  const int64_t count = parse_count(text);
  if (count >= bounds.least && count <= bounds.most) return count;
  throw std::invalid_argument(
      bounds.most == std::numeric_limits<int64_t>::max()
          ? fmt::format("expected a number of at least {}", bounds.least)
          : fmt::format("expected a number from {} to {}", bounds.least, bounds.most));
}

std::vector<int64_t> parse_counts(const std::string& text) {
  std::vector<int64_t> counts;
  std::string item;
  for (const char c : text + ",") {
    if (c == ',' || c == ' ') {
      if (!item.empty()) counts.push_back(parse_count(item));
      item.clear();
    } else if (c != '[' && c != ']') {
      item += c;
    }
  }
  return counts;
}

uint64_t parse_size(const std::string& text, uint64_t bare_unit) {
  return parse_quantity(text, static_cast<double>(bare_unit), "a size such as 4GiB or 512M");
}

uint64_t parse_size(const std::string& text, uint64_t bare_unit, uint64_t least) {
  const uint64_t size = parse_size(text, bare_unit);
  if (size < least || !std::in_range<int64_t>(size))
    throw std::invalid_argument("expected a size above 0, such as 40GiB");
  return size;
}

uint64_t parse_memory(const std::string& text) {
  constexpr uint64_t kLeastBare = uint64_t{64} << 10;
  const uint64_t size = parse_size(text, 1, 1);
  const bool is_bare = text.find_first_not_of("0123456789_") == std::string::npos;
  if (is_bare && size < kLeastBare) {
    throw std::invalid_argument(
        fmt::format("{0} is {0} bytes; is {0}{1} meant?", text, size < 1024 ? "GiB" : "MiB"));
  }
  return size;
}

double parse_share(const std::string& text) {
  size_t end = 0;
  double share = 0;
  try {
    share = std::stod(text, &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  if (end == text.size() && share > 0 && share <= 1) return share;
  throw std::invalid_argument(
      fmt::format("expected a number above 0 and at most 1, found \"{}\"", text));
}

double parse_duration(const std::string& text) {
  static constexpr std::string_view kExpected = "a time such as 90s, 20m or 3h55m";
  double seconds = 0;
  std::string_view rest = text;
  while (true) {
    const std::optional<Quantity> quantity = split_number(rest);
    if (!quantity) refuse(kExpected, text);
    rest = quantity->unit;
    const size_t unit = rest.empty() ? 0 : std::string_view("smhd").find(rest.front());
    if (unit == std::string_view::npos) refuse(kExpected, text);
    constexpr double kSeconds[] = {1, 60, 3600, 86400};
    seconds += quantity->number * kSeconds[unit];
    if (!rest.empty()) rest.remove_prefix(1);
    if (rest.empty()) return seconds;
  }
}

}  // namespace plimsoll
