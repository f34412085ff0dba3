// Command lines that Python's argparse reads: names of flags may be cut as long as one flag is
// meant, refusals are argparse's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::engines {

/// `list`: whole numbers; `names`: words; `optional`: one of its choices, or nothing.
enum class FlagKind { bare, text, integer, number, list, names, optional };

struct Flag {
  std::string_view names;  // "--tensor-parallel-size,--tp-size"; the first is the flag's key
  FlagKind kind = FlagKind::text;
  std::string_view choices = {};  // "auto,fp8_e5m2"; empty: any
  /// False: taken, as the engine takes it, and no matter for memory.
  bool moves = true;
  /// Memory that the flag takes and that is not counted, in words; empty: all is counted.
  std::string_view uncounted = {};
  /// Why a launch with it has no plan, in words; empty: it has one.
  std::string_view unplanned = {};
};

/// What one row says of flags that have no plan, or whose memory is not counted.
constexpr Flag uncounted(std::string_view names, FlagKind kind, std::string_view memory) {
  return {names, kind, {}, true, memory};
}
constexpr Flag unplanned(std::string_view names, FlagKind kind, std::string_view reason) {
  return {names, kind, {}, true, {}, reason};
}

/// Why --help and its like have no plan.
inline constexpr std::string_view kExits = "prints and exits: it launches nothing";

/// The flag of this very name; null: none.
const Flag* find_named(std::span<const Flag> flags, std::string_view name);
/// Which flag a word names: "--tp" of "--tp 2". Null: none, or several (`candidates` names them).
const Flag* find_flag(std::span<const Flag> flags, std::string_view word,
                      std::vector<std::string>* candidates = nullptr);

/// True for a word that argparse takes for a value: no flag, a negative number, or a text with
/// blanks.
bool is_value(const std::string& word);

/// How many of the words behind a flag are its values.
size_t count_values(const Flag& flag, std::span<const std::string> behind);

class CommandLine {
 public:
  /// Reads an engine's flags. `program` begins argparse's refusals. Throws Refusal("arguments"),
  /// and Error(usage) for a flag that has no plan.
  CommandLine(std::span<const Flag> flags, std::string_view program,
              const std::vector<std::string>& words);

  /// `key`: the first name of a flag.
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }
  [[nodiscard]] std::string text(std::string_view key, std::string_view missing) const;
  /// Values of all times that a flag was given, in order.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  [[nodiscard]] std::optional<int64_t> integer(std::string_view key) const;
  [[nodiscard]] int64_t integer(std::string_view key, int64_t missing) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view key) const;
  /// Flags given that move no memory, by their keys.
  [[nodiscard]] const std::vector<std::string>& unmoved() const { return unmoved_; }
  /// Adds a note on each flag given whose memory is not counted.
  void add_notes(std::vector<std::string>& notes) const;

 private:
  void check(const Flag& flag, const std::vector<std::string>& values) const;
  [[noreturn]] void refuse(const std::string& what) const;

  std::string program_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;  // the last ones given
  std::map<std::string, std::vector<std::string>, std::less<>> all_values_;
  std::vector<std::string> unmoved_;
  std::vector<std::string> uncounted_notes_;  // notes
};

}  // namespace plimsoll::engines
