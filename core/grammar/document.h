// A JSON schema as it is parsed once: where its parts are, what references mean, which draft it is.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

/// Years of drafts, and 3 to 7 for those that have a number alone.
enum class Draft { d3, d4, d6, d7, d2019, d2020 };

/// Throws Error(input_unusable): "JSON schema: KEYWORD at POINTER: WHY".
[[noreturn]] void refuse(std::string_view keyword, std::string_view pointer, std::string_view why);

/// A key as a step of a JSON pointer, without its slash.
std::string pointer_step(std::string_view key);

struct Schema {
  /// Throws Error(input_unusable) for what is no JSON, nested too deep or no schema.
  explicit Schema(std::string_view json);
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  /// The schema that `$ref` (or the like, `keyword`) of `from` names. Throws Error(input_unusable).
  [[nodiscard]] const OrderedJson& target(const OrderedJson& from, std::string_view keyword) const;
  /// JSON pointer of a part of the schema.
  [[nodiscard]] std::string pointer(const OrderedJson& part) const;

  /// The texts in which a pattern of the schema is found; worked out once. Throws RegexError,
  /// TooLarge.
  [[nodiscard]] DfaPtr pattern(const std::string& regex) const;

  /// Throws Error(input_unusable) for the whole schema, or a document within it ($id), without any
  /// keyword that says what is valid, but with the name of a wrapper around a schema or a key that
  /// is nearly a keyword.
  void check_keywords(const OrderedJson& part) const;

  OrderedJson root;
  Draft draft = Draft::d2020;

 private:
  struct Where {
    std::string base;
    std::string pointer;
  };
  void walk(const OrderedJson& part, const Where& where, bool is_schema);

  mutable std::mutex mutex_;
  mutable std::map<std::string, DfaPtr> patterns_;
  std::unordered_map<const OrderedJson*, Where> where_;
  std::map<std::string, const OrderedJson*, std::less<>> resources_;  // by URI, with anchors
  std::map<std::string, int, std::less<>> dynamic_anchors_;           // how often each is there
};

}  // namespace plimsoll::grammar
