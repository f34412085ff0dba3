// Yes or no of many tensors, written down by the pattern of their names.
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace plimsoll::shard {

/// Remembers which tensors a question was answered yes for. All layers and experts mostly have the
/// same answer, so that "model.layers.*.self_attn.k_scale" stands for many.
class TensorPatterns {
 public:
  TensorPatterns() = default;
  /// From patterns(). Throws Json::exception for what is none.
  explicit TensorPatterns(const Json& patterns);

  bool note(const std::string& name, bool answer);
  [[nodiscard]] bool contains(const std::string& name) const;
  /// A list of patterns, and of names where a pattern's answers differ.
  [[nodiscard]] Json patterns() const;

 private:
  std::map<std::string, bool> answers_;  // by name or pattern
};

}  // namespace plimsoll::shard
