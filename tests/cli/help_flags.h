// Flags in the help and in the manual.
#pragma once

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace plimsoll::test {

inline std::set<std::string> flags_in(const std::string& text) {
  static const std::regex flag(R"((^|[ ,(])(--?[a-zA-Z][a-z-]*))", std::regex::multiline);
  std::set<std::string> flags;
  for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at) {
    flags.insert((*at)[2]);
  }
  return flags;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Flags stand at the beginning of their lines, in both.
inline std::set<std::string> flags_of_help(const std::string& help) {
  std::set<std::string> flags;
  std::istringstream lines(help.substr(help.find("\nHelp:")));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  -")) flags.merge(flags_in(line.substr(0, line.find("  ", 3))));
  }
  return flags;
}

}  // namespace plimsoll::test
