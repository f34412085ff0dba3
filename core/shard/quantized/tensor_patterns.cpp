#include "shard/quantized/tensor_patterns.h"

#include <set>

namespace plimsoll::shard {
namespace {

// The name with "*" for each number between dots.
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
    if (begin > 0) pattern += '.';
    pattern += number ? "*" : word;
    begin = end + 1;
  }
  return pattern;
}

}  // namespace

TensorPatterns::TensorPatterns(const Json& patterns) {
  for (const Json& pattern : patterns) answers_[pattern.get<std::string>()] = true;
}

bool TensorPatterns::note(const std::string& name, bool answer) {
  answers_[name] = answer;
  return answer;
}

bool TensorPatterns::contains(const std::string& name) const {
  const auto holds = [this](const std::string& key) {
    const auto at = answers_.find(key);
    return at != answers_.end() && at->second;
  };
  return holds(name) || holds(pattern_of(name));
}

Json TensorPatterns::patterns() const {
  std::set<std::string> mixed;  // patterns with a no
  for (const auto& [name, answer] : answers_) {
    if (!answer) mixed.insert(pattern_of(name));
  }
  std::set<std::string> listed;
  for (const auto& [name, answer] : answers_) {
    if (!answer) continue;
    std::string pattern = pattern_of(name);
    listed.insert(mixed.contains(pattern) ? name : std::move(pattern));
  }
  return Json(listed);
}

}  // namespace plimsoll::shard
