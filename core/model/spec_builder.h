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

  /// All rows of a module.
  static Rows all(std::string module, int64_t rows) {
    return {.module = std::move(module), .stored = rows, .block = rows};
  }
};

struct LinearLayout {
  Split split = Split::replicated;
  bool bias = false;
  bool transposed = false;  // weights stored [in, out]
};

/// One expert's checkpoint modules.
struct ExpertNames {
  std::string gate, up, down;
};

class SpecBuilder {
 public:
  explicit SpecBuilder(ModelSpec& spec) : spec_(spec) {}

  WeightId add(WeightSpec weight);
  /// [rows, columns] that is stored under `tensor` as it is.
  WeightId matrix(const std::string& name, const std::string& tensor, int64_t rows, int64_t columns,
                  WeightUse use, Split split);
  /// [n], replicated, stored under its own name.
  WeightId vector(const std::string& name, int64_t n);
  /// NAME.weight [sum of rows, columns] and, where the layout says so, NAME.bias.
  Linear linear(const std::string& name, const std::vector<Rows>& parts, int64_t columns,
                const LinearLayout& layout);
  /// NAME.w13_weight [experts, 2 * intermediate, hidden] and NAME.w2_weight [experts, hidden,
  /// intermediate] of modules MODULE.E.{gate, up, down}.
  std::pair<Linear, Linear> experts(const std::string& name, const std::string& module,
                                    const ExpertNames& names, const MlpSpec& sizes, int64_t hidden);
  /// NAME.weight, and NAME.bias for a LayerNorm.
  Norm norm(const std::string& name, int64_t n, const Norm& kind);

 private:
  ModelSpec& spec_;
};

}  // namespace plimsoll::model
