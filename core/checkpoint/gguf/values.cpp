#include "checkpoint/gguf/values.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

namespace plimsoll::checkpoint::gguf {
namespace {

const char* name_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return "u8";
    case ValueType::i8:
      return "i8";
    case ValueType::u16:
      return "u16";
    case ValueType::i16:
      return "i16";
    case ValueType::u32:
      return "u32";
    case ValueType::i32:
      return "i32";
    case ValueType::f32:
      return "f32";
    case ValueType::boolean:
      return "bool";
    case ValueType::string:
      return "string";
    case ValueType::array:
      return "array";
    case ValueType::u64:
      return "u64";
    case ValueType::i64:
      return "i64";
    case ValueType::f64:
      return "f64";
  }
  return "unknown";
}

template <typename T>
T load(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::optional<int64_t> integer_at(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::u8:
      return load<uint8_t>(at);
    case ValueType::i8:
      return load<int8_t>(at);
    case ValueType::u16:
      return load<uint16_t>(at);
    case ValueType::i16:
      return load<int16_t>(at);
    case ValueType::u32:
      return load<uint32_t>(at);
    case ValueType::i32:
      return load<int32_t>(at);
    case ValueType::boolean:
      return load<uint8_t>(at) != 0 ? 1 : 0;
    case ValueType::i64:
      return load<int64_t>(at);
    case ValueType::u64: {
      const auto value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(ValueType type, const std::byte* at) {
  if (type == ValueType::f32) return static_cast<double>(load<float>(at));
  if (type == ValueType::f64) return load<double>(at);
  const std::optional<int64_t> whole = integer_at(type, at);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole);
}

/// The items of a value, each read by `read`, which may decline; under the guard of the file.
template <typename T, typename Read>
std::optional<std::vector<T>> items_of(const Value& value, Read read) {
  const size_t size = value_size(value.item);
  if (size == 0) return std::nullopt;
  std::vector<T> items;
  items.reserve(value.count);
  const GuardedRead guard(*value.file);
  for (uint64_t i = 0; i < value.count; ++i) {
    const std::optional<T> item = read(value.item, value.data + i * size);
    if (!item) return std::nullopt;
    items.push_back(*item);
  }
  guard.finish();
  return items;
}

}  // namespace

size_t value_size(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    default:
      return 0;
  }
}

std::string Value::type_text() const {
  return is_array() ? fmt::format("array of {}", name_of(item)) : name_of(type);
}

std::optional<int64_t> Value::integer() const {
  if (is_array()) return std::nullopt;
  const auto items = items_of<int64_t>(*this, integer_at);
  return items ? std::optional(items->front()) : std::nullopt;
}

std::optional<double> Value::number() const {
  if (is_array()) return std::nullopt;
  const auto items = items_of<double>(*this, number_at);
  return items ? std::optional(items->front()) : std::nullopt;
}

std::optional<std::string> Value::text() const {
  if (type != ValueType::string) return std::nullopt;
  const GuardedRead guard(*file);
  std::string text(reinterpret_cast<const char*>(data) + sizeof(uint64_t),
                   bytes - sizeof(uint64_t));
  guard.finish();
  return text;
}

std::optional<std::vector<int64_t>> Value::integers() const {
  return is_array() ? items_of<int64_t>(*this, integer_at) : std::nullopt;
}

std::optional<std::vector<double>> Value::numbers() const {
  return is_array() ? items_of<double>(*this, number_at) : std::nullopt;
}

std::optional<std::vector<std::string>> Value::texts() const {
  if (!is_array() || item != ValueType::string) return std::nullopt;
  std::vector<std::string> items;
  items.reserve(count);
  const GuardedRead guard(*file);
  const std::byte* at = data;
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = load<uint64_t>(at);
    at += sizeof length;
    // The lengths were checked when the file was opened; it may have been rewritten since.
    if (length > static_cast<uint64_t>(data + bytes - at)) return std::nullopt;
    items.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  guard.finish();
  return items;
}

}  // namespace plimsoll::checkpoint::gguf
