// Metadata of a GGUF file: keys and typed values, read from the memory map when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/mapped_file.h"

namespace plimsoll::checkpoint::gguf {

/// Types of metadata values, by GGUF's identifiers.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Bytes of a value; 0: strings and arrays, whose length stands in the file, and unknown types.
size_t value_size(ValueType type);

/// One metadata value. Items lie in the file's map, which outlives it; reading throws
/// Error(checkpoint_unusable) where the file has become unreadable.
struct Value {
  ValueType type = ValueType::u8;
  ValueType item = ValueType::u8;   // of arrays; else `type`
  uint64_t count = 1;               // items of an array
  const std::byte* data = nullptr;  // the first item; strings begin with their length
  size_t bytes = 0;                 // of all items
  const MappedFile* file = nullptr;

  [[nodiscard]] bool is_array() const { return type == ValueType::array; }
  /// The type for messages: "u32", "string", "array of string".
  [[nodiscard]] std::string type_text() const;
  /// Nullopt where the value is of another kind. Whole numbers: any integer type and bool; a u64
  /// beyond 2^63 has none. Numbers: these and floats.
  [[nodiscard]] std::optional<int64_t> integer() const;
  [[nodiscard]] std::optional<double> number() const;
  [[nodiscard]] std::optional<std::string> text() const;
  /// Items of an array; nullopt where the value is no array of that kind.
  [[nodiscard]] std::optional<std::vector<int64_t>> integers() const;
  [[nodiscard]] std::optional<std::vector<double>> numbers() const;
  [[nodiscard]] std::optional<std::vector<std::string>> texts() const;
};

struct Pair {
  std::string key;
  Value value;
};

}  // namespace plimsoll::checkpoint::gguf
