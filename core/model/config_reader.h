// Typed, ranged look-ups in config.json: every refusal names key, value and what was expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace plimsoll::model {

struct IntegerRange {
  int64_t least = 1;
  int64_t most = std::numeric_limits<int64_t>::max();
  int64_t most_described = 0;  // for a model that is described, not run; 0: as `most`
};
/// Limit of sizes in descriptions, which may be of models that no machine could hold.
inline constexpr int64_t kMostDescribed = int64_t{1} << 31;

/// An object of config.json. Look-ups take several spellings of a key and use the first that has a
/// value other than null; a missing key gives the default.
class ConfigReader {
 public:
  using Keys = std::initializer_list<std::string_view>;

  /// The root; sizes of the language model are looked for in `text_config` or `llm_config` first.
  static ConfigReader root(const Json& config);
  /// Reader of an object, without a root around it.
  static ConfigReader plain(const Json& object);
  /// Reader for a model that is described, not run: kinds of RoPE, activations and routers that
  /// `run` lacks are accepted, because they change no weight (`doubt`). The class's defaults have
  /// been filled in.
  static ConfigReader describing(const Json& object);
  [[nodiscard]] bool describes() const { return describes_; }
  /// The object that is read; for root() the language model's.
  [[nodiscard]] const Json& json() const { return *inner_; }
  /// Reader of the root around the object, or of the object itself.
  [[nodiscard]] ConfigReader whole() const;
  /// Reader of `object` at this reader's place in config.json, without the root around it.
  [[nodiscard]] ConfigReader reading(const Json& object) const;
  /// The object at `key` within this one; nullopt when missing, null or empty.
  [[nodiscard]] std::optional<ConfigReader> object(std::string_view key) const;
  /// The object at `key` within this one; an empty one when missing, null or empty.
  [[nodiscard]] ConfigReader object_or_empty(std::string_view key) const;

  /// True when the key is present, even as null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The first spelling that has a value; nullptr when none has.
  [[nodiscard]] const Json* find(Keys keys) const;

  [[nodiscard]] int64_t integer(Keys keys, int64_t missing, IntegerRange range = {}) const;
  [[nodiscard]] std::optional<int64_t> integer(Keys keys, IntegerRange range = {}) const;
  /// The integer at `keys`; refuses a missing one.
  [[nodiscard]] int64_t required(Keys keys, IntegerRange range = {}) const;
  /// A finite number above 0.
  [[nodiscard]] double positive(Keys keys, double missing) const;
  [[nodiscard]] std::optional<double> positive(Keys keys) const;
  [[nodiscard]] bool boolean(Keys keys, bool missing) const;
  [[nodiscard]] std::string text(Keys keys, std::string_view missing) const;
  [[nodiscard]] std::vector<double> positives(std::string_view key, size_t count) const;
  /// Strings of a list; nullopt when the key is missing.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;

  /// Refuses the value at `key`: 'config.json: "key" is VALUE; expected WHAT'.
  [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;
  /// Refuses the value at `key`, as refuse() does, unless the reader describes: a description does
  /// not depend on it.
  void doubt(std::string_view key, const std::string& expected) const;

 private:
  ConfigReader(std::string path, const Json* inner, const Json* outer, bool describes = false)
      : path_(std::move(path)), inner_(inner), outer_(outer), describes_(describes) {}
  [[nodiscard]] std::pair<std::string_view, const Json*> entry(Keys keys) const;

  std::string path_;  // of this object in config.json, with a trailing dot; empty at the root
  const Json* inner_;
  const Json* outer_;  // the root around text_config, where dtype and tying may stand; or nullptr
  bool describes_;
};

}  // namespace plimsoll::model
