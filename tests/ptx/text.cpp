#include "ptx/text.h"

#include <algorithm>
#include <bit>
#include <cctype>

namespace plimsoll::ptx {

std::string without_comments(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    if (text.substr(at, 2) == "//") end = std::min(text.find('\n', at), text.size());
    if (text.substr(at, 2) == "/*") end = std::min(text.find("*/", at), text.size() - 2) + 2;
    kept += end == at ? std::string(1, text[at]) : std::string(end - at, ' ');
    at = std::max(end, at + 1);
  }
  return kept;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

bool is_of_name(char character) {
  const bool letter = std::isalnum(static_cast<unsigned char>(character)) != 0;
  return letter || std::string_view("_$%.").find(character) != std::string_view::npos;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> list;
  std::string element;
  int depth = 0;
  for (const char character : text) {
    if (std::string_view("{[(").find(character) != std::string_view::npos) ++depth;
    if (std::string_view("}])").find(character) != std::string_view::npos) --depth;
    if (character != ',' || depth != 0) {
      element += character;
      continue;
    }
    list.push_back(trimmed(element));
    element.clear();
  }
  if (!trimmed(element).empty()) list.push_back(trimmed(element));
  return list;
}

std::vector<std::string> split_vector(const std::string& text) {
  if (text.empty() || text[0] != '{') return {text};
  return split_list(std::string_view(text).substr(1, text.size() - 2));
}

std::vector<std::string> split_name(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

size_t type_bytes(std::string_view type) {
  if (type == "pred") return 1;
  const size_t digit = type.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;
  return std::stoul(std::string(type.substr(digit))) / 8;
}

size_t take_count(std::string& name) {
  const size_t bracket = name.find('[');
  if (bracket == std::string::npos) return 1;
  const std::string inside = trimmed(name.substr(bracket + 1, name.find(']') - bracket - 1));
  name = trimmed(name.substr(0, bracket));
  return inside.empty() ? 0 : std::stoul(inside);
}

uint64_t parse_number(const std::string& text, bool wide) {
  const std::string prefix = text.substr(0, 2),
                    rest = text.substr(std::min<size_t>(2, text.size()));
  if (prefix == "0f" || prefix == "0F") {
    const auto bits = static_cast<uint32_t>(std::stoul(rest, nullptr, 16));
    if (!wide) return bits;
    return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
  }
  if (prefix == "0d" || prefix == "0D") return std::stoull(rest, nullptr, 16);
  if (text.find('.') != std::string::npos) {
    const double value = std::stod(text);
    return wide ? std::bit_cast<uint64_t>(value)
                : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (text[0] == '-') return static_cast<uint64_t>(std::stoll(text, nullptr, 0));
  return std::stoull(text, nullptr, 0);
}

size_t reserve(size_t& bytes, size_t size, size_t alignment) {
  const size_t place = (bytes + alignment - 1) / alignment * alignment;
  bytes = place + size;
  return place;
}

bool Statement::has(std::string_view part) const {
  return std::ranges::find(parts, part) != parts.end();
}

bool Statement::has_beginning(std::string_view part) const {
  return std::ranges::any_of(parts, [&](const std::string& own) { return own.starts_with(part); });
}

std::string Statement::name() const {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ".") + part;
  return joined;
}

Statement parse_statement(const std::string& text) {
  Statement statement;
  std::string rest = text;
  const auto take_word = [&] {
    const size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
    std::string word = rest.substr(0, end);
    rest = trimmed(rest.substr(end));
    return word;
  };
  if (rest[0] == '@') statement.guard = take_word().substr(1);
  statement.parts = split_name(take_word());
  statement.operands = split_list(rest);
  return statement;
}

std::string plain_symbol(const std::string& mangled) {
  constexpr std::string_view kAnonymous = "_GLOBAL__N_", kHosts = "12_GLOBAL__N_1";
  std::string plain;
  for (size_t at = 0; at < mangled.size();) {
    const size_t name = mangled.find(kAnonymous, at);
    if (name == std::string::npos) return plain + mangled.substr(at);
    size_t digits = name;
    while (digits > at && std::isdigit(static_cast<unsigned char>(mangled[digits - 1])) != 0)
      --digits;
    // The name's length, perhaps behind the digits of another name.
    size_t length = mangled.size();
    while (digits < name &&
           name + (length = std::stoul(mangled.substr(digits, name - digits))) > mangled.size())
      ++digits;
    plain += mangled.substr(at, digits - at) + std::string(kHosts);
    at = name + length;
  }
  return plain;
}

}  // namespace plimsoll::ptx
