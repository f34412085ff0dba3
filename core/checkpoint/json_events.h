// JSON read as events, for files of a fixed form with many entries; nothing is built but what the
// reader keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plimsoll::checkpoint {

/// Letters of a file's names that messages show as they are: UTF-8 that was checked, or ASCII
/// alone.
enum class Letters : uint8_t { utf8, ascii };

/// A name from a file as messages show it: bounded, control characters and other letters escaped.
std::string shown(std::string_view name, Letters letters = Letters::utf8);
/// "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

/// Refuses every event that a reader does not override.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  /// False when the text is no JSON or a reader stopped: problem() says why.
  bool parse(std::string_view text);
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return stop("a null where none belongs"); }
  bool boolean(bool) override { return stop("a boolean where none belongs"); }
  bool number_integer(int64_t) override { return stop("a negative number where none belongs"); }
  bool number_unsigned(uint64_t) override { return stop("a number where none belongs"); }
  bool number_float(double, const std::string&) override {
    return stop("a fraction where a whole number belongs");
  }
  bool string(std::string&) override { return stop("a string where none belongs"); }
  bool binary(binary_t&) override { return stop("binary data"); }
  bool start_object(size_t) override { return stop("an object where none belongs"); }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return stop("a list where none belongs"); }
  bool end_array() override { return true; }
  bool key(std::string&) override { return true; }
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& cause) override;

 protected:
  /// Ends the parse; returns false.
  bool stop(std::string why);

 private:
  std::string problem_;
};

}  // namespace plimsoll::checkpoint
