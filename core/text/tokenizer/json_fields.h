// Reads fields of JSON components. Errors are a ModelError that names the field and its place.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/regex/regex.h"
#include "text/tokenizer/model.h"

namespace plimsoll::text {

/// True when the object has the field, and it is not null.
bool present(const Json& object, const char* name);
const Json& field(const Json& object, const char* name);
const Json& list_field(const Json& object, const char* name);
std::string text_field(const Json& object, const char* name);
/// The text of a field; empty when absent.
std::string optional_text(const Json& object, const char* name);
bool flag_field(const Json& object, const char* name, bool absent);
size_t size_field(const Json& object, const char* name);
/// The component's "type"; empty when it has no type that is a text.
std::string type_of(const Json& component);
char32_t character_field(const Json& object, const char* name);
/// A token's id, from 0 to kMaxTokens.
TokenId id_field(const Json& json, const std::string& where);

std::string base64_bytes(std::string_view text);

// Runs `parse`, and puts `place` before the message of its errors.
template <typename Parse>
auto within(const std::string& place, Parse&& parse) {
  try {
    return parse();
  } catch (const RegexError& error) {
    throw ModelError(place + ": " + error.what());
  } catch (const ModelError& error) {
    throw ModelError(place + ": " + error.what());
  }
}

}  // namespace plimsoll::text
