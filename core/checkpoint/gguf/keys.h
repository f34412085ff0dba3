// Typed look-ups of keys in a GGUF file's metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/gguf/model.h"

namespace plimsoll::checkpoint::gguf {

/// Keys behind a prefix: "block_count" of "llama.block_count". Look-ups throw
/// Error(checkpoint_unusable) naming file, key and what was found, where a value is of another kind
/// or no finite number.
class Keys {
 public:
  /// Keys of the model's architecture.
  explicit Keys(const Model& model) : Keys(model, model.architecture() + ".", "") {}
  /// `cure` ends refusals.
  Keys(const Model& model, std::string prefix, std::string cure)
      : model_(model), prefix_(std::move(prefix)), cure_(std::move(cure)) {}

  [[nodiscard]] const Model& model() const { return model_; }
  /// Null: it is not there.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// A whole number from 0; of a list, its largest.
  [[nodiscard]] std::optional<int64_t> integer(std::string_view key) const;
  /// A whole number that must be there, from 1 to `most`.
  [[nodiscard]] int64_t count(std::string_view key, int64_t most) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool missing) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view missing) const;
  /// One number for each layer; nullopt where the key is missing or holds a single number.
  [[nodiscard]] std::optional<std::vector<int64_t>> by_layer(std::string_view key,
                                                             int64_t layers) const;
  /// True when the file has the tensor.
  [[nodiscard]] bool has_tensor(std::string_view name) const;
  /// Values of a one-dimensional float32 tensor; nullopt where there is none.
  [[nodiscard]] std::optional<std::vector<float>> tensor(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const;

 private:
  [[nodiscard]] const Tensor* find_tensor(std::string_view name) const;

  const Model& model_;
  std::string prefix_;
  std::string cure_;
};

}  // namespace plimsoll::checkpoint::gguf
