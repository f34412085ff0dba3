#include "text/answer/json_reader.h"

#include <array>

#include "base/json.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

/// The text that a string stands for; none for one with half a surrogate pair or a bad escape.
std::optional<std::string> decoded(std::string_view quoted) {
  const Json json = Json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  if (!json.is_string()) return std::nullopt;
  return json.get<std::string>();
}

}  // namespace

std::string json_quoted(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> JsonReader::value() {
  std::string out;
  if (!write_value(out, 0)) return std::nullopt;
  return out;
}

std::optional<JsonReader::Members> JsonReader::object() {
  Members members;
  if (!skip("{")) return std::nullopt;
  const bool whole = list("}", LastComma::refused, [&](size_t) {
    std::optional<std::string> key = string();
    skip_space();
    if (!key || !skip(":")) return false;
    skip_space();
    std::optional<std::string> member = value();
    if (member) members.emplace_back(std::move(*key), std::move(*member));
    return member.has_value();
  });
  return whole ? std::optional(std::move(members)) : std::nullopt;
}

std::optional<std::string> JsonReader::string() {
  const std::string_view whole = quoted();
  return whole.empty() ? std::nullopt : decoded(whole);
}

std::string_view JsonReader::quoted() {
  const size_t begin = at_;
  if (!skip("\"")) return {};
  while (!at_end()) {
    const char c = text_[at_++];
    if (c == '"') return text_.substr(begin, at_ - begin);
    if (static_cast<unsigned char>(c) < 0x20) return {};
    if (c == '\\' && !at_end()) ++at_;
  }
  return {};
}

bool JsonReader::write_value(std::string& out, int depth) {
  constexpr std::array<std::string_view, 3> kWords = {"true", "false", "null"};
  switch (peek()) {
    case '{':
      return depth < kMostLevels && write_object(out, depth + 1);
    case '[':
      return depth < kMostLevels && write_array(out, depth + 1);
    case '"':
      return write_string(out);
    default:
      break;
  }
  for (const std::string_view word : kWords) {
    if (!skip(word)) continue;
    out += word;
    return true;
  }
  return write_number(out);
}

bool JsonReader::write_object(std::string& out, int depth) {
  out += text_[at_++];
  const bool whole = list("}", LastComma::refused, [&](size_t i) {
    if (i > 0) out += ", ";
    if (peek() != '"' || !write_string(out)) return false;
    skip_space();
    if (!skip(":")) return false;
    out += ": ";
    skip_space();
    return write_value(out, depth);
  });
  out += '}';
  return whole;
}

bool JsonReader::write_array(std::string& out, int depth) {
  out += text_[at_++];
  const bool whole = list("]", LastComma::refused, [&](size_t i) {
    if (i > 0) out += ", ";
    return write_value(out, depth);
  });
  out += ']';
  return whole;
}

bool JsonReader::write_string(std::string& out) {
  const std::string_view whole = quoted();
  if (whole.empty()) return false;
  if (whole.find('\\') == std::string_view::npos) {
    out += whole;
    return true;
  }
  const std::optional<std::string> text = decoded(whole);
  if (!text) return false;
  out += json_quoted(*text);
  return true;
}

bool JsonReader::skip_digits() {
  const size_t begin = at_;
  while (is_decimal(peek())) ++at_;
  return at_ > begin;
}

bool JsonReader::write_number(std::string& out) {
  const size_t begin = at_;
  skip("-");
  if (!skip("0") && !skip_digits()) return false;
  if (skip(".") && !skip_digits()) return false;
  if (skip("e") || skip("E")) {
    if (!skip("+")) skip("-");
    if (!skip_digits()) return false;
  }
  out += text_.substr(begin, at_ - begin);
  return true;
}

std::optional<std::string> json_of(std::string_view text) {
  JsonReader reader(text, 0);
  reader.skip_space();
  std::optional<std::string> value = reader.value();
  reader.skip_space();
  return reader.at_end() ? value : std::nullopt;
}

}  // namespace plimsoll::text
