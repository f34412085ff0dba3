#include "ptx/arithmetic.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::ptx {
namespace {

/// Nearest even is how every function here rounds; the other words are hints, or approximations,
/// for which the host's functions stand.
std::string plain_name(const std::vector<std::string>& parts) {
  std::string name;
  for (const std::string& part : parts) {
    const bool says_nothing = part == "approx" || part == "full" || part == "lo" ||
                              (part == "rn" && parts[0] != "cvt") || part.empty();
    if (says_nothing) continue;
    if (!name.empty()) name += '.';
    name += part;
  }
  return name;
}

std::unordered_map<std::string, Arithmetic> table() {
  Rows rows;
  add_integers(rows);
  add_floats(rows);
  add_logic(rows);
  add_conversions(rows);
  return {rows.begin(), rows.end()};
}

}  // namespace

std::optional<Arithmetic> find_arithmetic(const std::vector<std::string>& parts) {
  static const std::unordered_map<std::string, Arithmetic> known = table();
  const auto found = known.find(plain_name(parts));
  if (found == known.end()) return {};
  return found->second;
}

}  // namespace plimsoll::ptx
