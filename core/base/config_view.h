// A config.json as hostile input: typed, bounded look-ups whose refusals name key, value and what
// was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace plimsoll {

/// Keys in order of preference: configs name the same thing differently (`hidden_size`, `n_embd`).
using Keys = std::initializer_list<const char*>;

/// Bounds of a number that a config may state.
struct Bounds {
  int64_t least = 0;
  int64_t most = int64_t{1} << 31;
};

/// One object of a config.json. Borrows the JSON, which must outlive it. Every look-up throws
/// Error(checkpoint_unusable) on a value of the wrong type or outside its bounds; JSON null counts
/// as absent.
class ConfigView {
 public:
  ConfigView(const nlohmann::json& object, std::string path);

  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] bool is_text(const char* key) const;
  [[nodiscard]] int64_t integer(Keys keys, int64_t fallback, Bounds bounds = {}) const;
  /// An integer of at least 1; refuses a config without any of the keys.
  [[nodiscard]] int64_t required(Keys keys, Bounds bounds = {1, int64_t{1} << 31}) const;
  [[nodiscard]] double number(Keys keys, double fallback) const;
  [[nodiscard]] bool flag(Keys keys, bool fallback) const;
  [[nodiscard]] std::string text(Keys keys, const std::string& fallback) const;
  /// One of the known words; the first of them where the key is absent.
  [[nodiscard]] std::string choice(const char* key, std::initializer_list<const char*> known) const;
  /// A list of integers, a single integer as a list of one, or empty when absent.
  [[nodiscard]] std::vector<int64_t> integers(Keys keys) const;
  [[nodiscard]] std::vector<std::string> texts(Keys keys) const;
  /// A list of lists of two integers, or empty when absent.
  [[nodiscard]] std::vector<std::vector<int64_t>> pairs(Keys keys) const;
  /// True when one of the keys holds an object.
  [[nodiscard]] bool has_child(Keys keys) const;
  /// The object at the first of the keys that holds one, or an empty one.
  [[nodiscard]] ConfigView child(Keys keys) const;

  [[nodiscard]] const nlohmann::json& json() const { return *object_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] const nlohmann::json* find(Keys keys, const char** found) const;
  [[noreturn]] void refuse(const char* key, const nlohmann::json& value,
                           const std::string& expected) const;
  [[nodiscard]] int64_t to_integer(const char* key, const nlohmann::json& value,
                                   Bounds bounds) const;

  const nlohmann::json* object_;
  std::string path_;
};

}  // namespace plimsoll
