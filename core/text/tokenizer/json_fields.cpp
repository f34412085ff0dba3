#include "text/tokenizer/json_fields.h"

#include "base/base64.h"
#include "base/error.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

[[noreturn]] void wrong(const char* name, const char* kind) {
  throw ModelError(fmt::format("\"{}\" is not {}", name, kind));
}

}  // namespace

bool present(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && !object.at(name).is_null();
}

const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) throw ModelError(fmt::format("an object with \"{}\" is expected", name));
  const auto found = object.find(name);
  if (found == object.end()) throw ModelError(fmt::format("\"{}\" is missing", name));
  return *found;
}

const Json& list_field(const Json& object, const char* name) {
  const Json& list = field(object, name);
  if (!list.is_array()) wrong(name, "a list");
  return list;
}

std::string text_field(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_string()) wrong(name, "a text");
  return value.get<std::string>();
}

bool flag_field(const Json& object, const char* name, bool absent) {
  if (!present(object, name)) return absent;
  const Json& value = object.at(name);
  if (!value.is_boolean()) wrong(name, "true or false");
  return value.get<bool>();
}

size_t size_field(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_number_unsigned()) wrong(name, "a whole number");
  return value.get<size_t>();
}

TokenId id_field(const Json& json, const std::string& where) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= static_cast<uint64_t>(kMaxTokens)) {
    throw ModelError(fmt::format("{}: an id is a whole number below {}, not {}", where, kMaxTokens,
                                 json.dump()));
  }
  return json.get<TokenId>();
}

char32_t character_field(const Json& object, const char* name) {
  const std::string text = text_field(object, name);
  size_t at = 0;
  if (text.empty() || utf8_length(text[0]) != text.size()) wrong(name, "one character");
  return next_character(text, at);
}

std::string optional_text(const Json& object, const char* name) {
  return present(object, name) ? text_field(object, name) : std::string();
}

std::string type_of(const Json& json) {
  const bool named = present(json, "type") && json.at("type").is_string();
  return named ? json.at("type").get<std::string>() : std::string();
}

std::string base64_bytes(std::string_view text) {
  std::string bytes(base64_room(text.size()), '\0');
  const auto count = decode_base64(text, reinterpret_cast<uint8_t*>(bytes.data()));
  if (!count) throw ModelError("not base64");
  bytes.resize(*count);
  return bytes;
}

}  // namespace plimsoll::text
