// Digests of answers that no reference has given: draws that are the same on any machine, and the
// files of tests/data/digests (README there).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll::testing {

namespace fs = std::filesystem;

inline const fs::path kData = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data";

/// Numbers that depend on a text alone, on any machine.
class Draw {
 public:
  explicit Draw(const std::string& text) : random_(static_cast<uint32_t>(digest(text))) {}

  size_t below(size_t count) { return random_() % count; }
  const auto& of(const auto& values) { return values[below(std::size(values))]; }

  /// FNV-1a.
  static uint64_t digest(const std::string& text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return hash;
  }

 private:
  std::mt19937 random_;
};

struct Answered {
  std::string question, answer;
};

/// A question with what `answer` returns, or the words of its refusal.
template <typename Answer>
Answered answered(std::string question, Answer&& answer) {
  try {
    std::string said = answer();
    return {std::move(question), std::move(said)};
  } catch (const Error& error) {
    return {std::move(question), error.what()};
  } catch (const std::invalid_argument& error) {
    return {std::move(question), fmt::format("refused: {}", error.what())};
  }
}

/// The digests of a file of tests/data/digests, by what was asked about.
class Digests {
 public:
  explicit Digests(const std::string& set) : set_(set), path_(kData / "digests" / (set + ".txt")) {
    std::ifstream file(path_);
    for (std::string name, digest; file >> name >> digest;) known_[name] = digest;
  }

  void compare(std::string name, const std::vector<Answered>& all) {
    std::ranges::replace(name, ' ', '_');
    std::string text;
    for (const Answered& one : all) text += one.question + "\n" + one.answer + "\n";
    const char* const shown = std::getenv("PLIMSOLL_SHOW_DIGEST");
    if (shown != nullptr && shown == set_ + " " + name) std::cout << text;
    found_[name] = fmt::format("{:016x}", Draw::digest(text));
    if (renews()) return;
    INFO(set_ << " " << name);
    CHECK(known_[name] == found_[name]);
  }

  /// Writes the file anew, or checks that all of its lines were asked about. `asked_all` is false
  /// where some of like cases were asked: they cannot write it.
  void finish(bool asked_all = true) {
    if (!asked_all) {
      CHECK_FALSE(renews());
      return;
    }
    if (!renews()) {
      for (const auto& [name, digest] : known_) {
        INFO(set_ << " " << name << " is not asked about any more");
        CHECK(found_.contains(name));
      }
      return;
    }
    std::ofstream file(path_);
    for (const auto& [name, digest] : found_) file << name << " " << digest << "\n";
  }

 private:
  static bool renews() { return std::getenv("PLIMSOLL_RENEW_DIGESTS") != nullptr; }

  std::string set_;
  fs::path path_;
  std::map<std::string, std::string> known_, found_;
};

}  // namespace plimsoll::testing
