// Sets of tensor names, stored as patterns.
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
  /// Reads what patterns() has written. Throws Json::exception for other JSON.
  explicit TensorPatterns(const Json& patterns);

  bool note(const std::string& name, bool answer);
  [[nodiscard]] bool contains(const std::string& name) const;
  /// A list of patterns, and of names where a pattern's answers differ.
  [[nodiscard]] Json patterns() const;

 private:
  std::map<std::string, bool> answers_;  // by name or pattern
};

}  // namespace plimsoll::shard
