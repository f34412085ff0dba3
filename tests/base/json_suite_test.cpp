// JSONTestSuite: y_ cases are JSON, n_ cases are not, i_ cases are pinned here.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "base/json.h"

using namespace plimsoll;

namespace {

/// Free to accept or refuse, and accepted: numbers are rounded, a mark at the start of a text is
/// passed over.
const std::set<std::string> kAccepted = {
    "i_number_double_huge_neg_exp",   "i_number_real_underflow",
    "i_number_too_big_neg_int",       "i_number_too_big_pos_int",
    "i_number_very_big_negative_int", "i_structure_UTF-8_BOM_empty_object"};
/// A key that comes twice is a mistake that must not be settled silently.
const std::set<std::string> kRefused = {"y_object_duplicated_key",
                                        "y_object_duplicated_key_and_value"};

bool is_wanted(const std::string& name) {
  return kAccepted.contains(name) || (name.starts_with("y_") && !kRefused.contains(name));
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

template <typename Value>
void check(const std::string& name, const std::string& text) {
  INFO(name);
  bool accepted = true;
  try {
    (void)parse_json<Value>(text, kOrderedLimits);
  } catch (const JsonError& error) {
    accepted = false;
    CHECK(error.line >= 1);
    CHECK(error.column <= text.size() + 1);
  }
  CHECK(accepted == is_wanted(name));
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("the cases of JSONTestSuite are read as they should be, or as is pinned") {
  std::ifstream cases(PLIMSOLL_SOURCE_DIR "/tests/data/json_suite/cases.tsv");
  size_t count = 0;
  for (std::string line; std::getline(cases, line); ++count) {
    const size_t tab = line.find('\t');
    const std::string text = bytes_of(line.substr(tab + 1));
    check<Json>(line.substr(0, tab), text);
    check<OrderedJson>(line.substr(0, tab), text);
  }
  CHECK(count == 316);
  check<Json>("n_structure_100000_opening_arrays", std::string(100'000, '['));
  check<OrderedJson>("n_structure_open_array_object", repeated("[{\"\":", 50'000));
}
