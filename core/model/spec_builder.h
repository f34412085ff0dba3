// Adds weights to a model's weight table, in the order of vLLM's state dict.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::model {

/// Rows of a checkpoint module (its `.weight` and `.bias`) that go into an engine weight: `count`
/// blocks of `block` rows, the first at `first`, `stride` apart, of `stored` rows in all.
struct Rows {
  std::string module;
  int64_t stored = 0;
  int64_t first = 0;
  int64_t block = 0;
  int64_t stride = 0;
  int64_t count = 1;
  RowOrder order = RowOrder::stored;

  /// All rows of a module.
  static Rows all(std::string module, int64_t rows) {
    return {.module = std::move(module), .stored = rows, .block = rows};
  }
  /// A module's rows in parts: each of `groups` equal runs of rows has parts of these `sizes`, in
  /// order.
  static std::vector<Rows> parts(const std::string& module, const std::vector<int64_t>& sizes,
                                 int64_t groups = 1);
};

struct LinearLayout {
  Split split = Split::replicated;
  bool bias = false;
  Kept bias_kept = Kept::in_model;
  bool transposed = false;  // weights stored [in, out]
  int64_t heads = 0;        // of a tower's attention, or of biases that `run` does without
  int64_t kv_heads = 0;
  UnevenHeads uneven_heads = UnevenHeads::refused;
  InterleavedCut interleaved = InterleavedCut::blindly;
};

/// Which tensors a norm has.
enum class NormTensors : uint8_t { none, weight, weight_and_bias };

/// Names of one expert's modules in the checkpoint.
struct ExpertNames {
  std::string gate, up, down;
};

class SpecBuilder {
 public:
  explicit SpecBuilder(ModelSpec& spec) : SpecBuilder(spec.weights) {}
  /// Builder of a table of its own, such as ModelSpec::towers.
  explicit SpecBuilder(std::vector<WeightSpec>& weights) : weights_(weights) {}

  WeightId add(WeightSpec weight);
  [[nodiscard]] WeightSpec& at(WeightId id) { return weights_[static_cast<size_t>(id)]; }
  [[nodiscard]] WeightId last() const { return static_cast<WeightId>(weights_.size() - 1); }
  /// Adds a matrix [rows, columns] that is stored under `tensor` unchanged.
  WeightId matrix(const std::string& name, const std::string& tensor, int64_t rows, int64_t columns,
                  WeightUse use, Split split);
  /// Adds a vector [n], replicated, stored under its own name.
  WeightId vector(const std::string& name, int64_t n);
  /// Adds a parameter of any shape, replicated, stored under its own name.
  WeightId parameter(const std::string& name, std::vector<int64_t> shape);
  /// Adds NAME.weight [sum of rows, columns] and, where the layout says so, NAME.bias.
  Linear linear(const std::string& name, const std::vector<Rows>& parts, int64_t columns,
                const LinearLayout& layout);
  /// Adds NAME.weight [rows, columns], and NAME.bias by the layout, stored under vLLM's name.
  Linear linear(const std::string& name, int64_t rows, int64_t columns, const LinearLayout& layout);
  /// Adds NAME.weight, and NAME.bias for a LayerNorm.
  Norm norm(const std::string& name, int64_t n, const Norm& kind);
  Norm norm(const std::string& name, int64_t n, const Norm& kind, NormTensors tensors);

 private:
  std::vector<WeightSpec>& weights_;
};

}  // namespace plimsoll::model
