// JSON reading for hostile input: bounded depth, no duplicate keys, errors that say where.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plimsoll {

using Json = nlohmann::json;
/// JSON that keeps the order of keys; look-ups are linear, so use it only where order matters (chat
/// messages, tools).
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_depth = 128;
  /// Keys of one object. Insertion into OrderedJson is linear in the number of keys.
  size_t max_keys = 50'000'000;
  /// Numbers that are no 64-bit integers become binary values that hold their text, so that none
  /// is rounded; exact_text_of writes them.
  bool number_texts = false;
  /// Keys of the outermost object and of its members below which numbers are texts too.
  std::span<const std::string_view> exact_fields = {};
};

/// Limits for OrderedJson made from untrusted lines.
inline constexpr JsonLimits kOrderedLimits{.max_depth = 128, .max_keys = 4096};

/// A malformed text: `column` is the 1-based byte in the line, `line` the 1-based line in the text.
class JsonError : public std::runtime_error {
 public:
  JsonError(const std::string& message, size_t at_line, size_t at_column)
      : std::runtime_error(message), line(at_line), column(at_column) {}
  size_t line;
  size_t column;
};

/// Parses one JSON value that fills the whole text. Throws JsonError on malformed text, bad UTF-8,
/// lone surrogates, too deep nesting, duplicate keys.
template <typename Value = Json>
Value parse_json(std::string_view text, JsonLimits limits = {});
extern template Json parse_json<Json>(std::string_view, JsonLimits);
extern template OrderedJson parse_json<OrderedJson>(std::string_view, JsonLimits);

/// The value as compact JSON, whose binary values are texts of numbers (JsonLimits::number_texts).
std::string exact_text_of(const OrderedJson& value);
/// The value with doubles in place of its binary values.
OrderedJson rounded(OrderedJson value);

/// Parses the text of a file. Throws Error(checkpoint_unusable) naming the file, line and column.
Json parse_file_text(const std::filesystem::path& file, std::string_view text,
                     JsonLimits limits = {});

/// Reads and parses a file of at most `max_bytes`. Throws Error(checkpoint_unusable) naming the
/// file, line and column.
Json read_json_file(const std::filesystem::path& file, size_t max_bytes = size_t{512} << 20,
                    JsonLimits limits = {});

/// Reads a whole regular file. Throws Error(checkpoint_unusable) when it is missing, unreadable,
/// not a regular file, larger than `max_bytes`, or the pointer that Git LFS leaves in its place.
std::string read_text_file(const std::filesystem::path& file, size_t max_bytes = size_t{512} << 20);

}  // namespace plimsoll
