// One quantised weight as the parameters that it is stored in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// The shape of a value for each output.
enum class Axes : uint8_t { vector, column };

/// Adds parameters of a weight to a table, each under the weight's name with another ending.
class QuantisedParameters {
 public:
  /// The arguments must outlive it.
  QuantisedParameters(const model::WeightSpec& weight, const StoredTensors& stored,
                      std::vector<model::WeightSpec>& result)
      : weight_(weight), stored_(stored), result_(result) {}

  /// The weight's own layout, of another type.
  model::WeightSpec& as_stored(DType dtype);
  /// Rows as the weight's divided by `unit`, `columns` of them.
  model::WeightSpec& by_rows(const std::string& suffix, std::optional<DType> dtype,
                             model::Split split, int64_t unit, int64_t columns);
  /// [rows, outputs / unit], parts beside each other.
  void by_columns(const std::string& suffix, std::optional<DType> dtype, model::Split split,
                  int64_t rows, int64_t unit);
  /// What is stored beside the outputs, turned: [outputs, columns], parts over each other.
  void turned(const std::string& suffix, int64_t columns, model::Repack repack);
  /// A value for each output, [outputs] or [outputs, 1], be it stored as the one or the other.
  void by_output(const std::string& suffix, DType dtype, Axes parameter, Axes stored);
  /// A value for each part; no dtype: the model's.
  void by_part(const std::string& suffix, std::optional<DType> dtype = DType::f32);
  /// Values that no tensor has, all alike.
  void add_constant(const std::string& suffix, std::optional<DType> dtype, float value,
                    std::vector<int64_t> shape);
  /// One value for a layer (an expert): its last part's.
  void by_last(const std::string& suffix, DType dtype);
  /// compressed-tensors' record of the unpacked shape: of a fused layer the last one's.
  void add_shape();
  /// Groups of inputs in order: vLLM 0.32 has no parameter for them; a checkpoint has.
  void add_group_indices(int64_t group);
  /// What GPTQ's experts have whether the checkpoint has biases or not.
  void add_expert_bias();

  [[nodiscard]] const model::WeightSpec& weight() const { return weight_; }
  [[nodiscard]] int64_t inputs() const { return weight_.columns(); }
  /// Whether every part has a tensor of this ending, or any.
  [[nodiscard]] bool all_have(const std::string& suffix) const;
  [[nodiscard]] bool any_has(const std::string& suffix) const;
  /// What does not depend on the inputs is whole on every rank where these are cut.
  [[nodiscard]] model::Split outputs_only() const;
  /// Scales of groups of inputs are cut with them; of all inputs together, they are not.
  [[nodiscard]] model::Split group_split(const quantization::WeightScheme& scheme) const;
  [[nodiscard]] int64_t groups(const quantization::WeightScheme& scheme) const;
  /// Integers in a word of 32 bits, which the inputs must fill.
  [[nodiscard]] int64_t integers_per_word(const quantization::WeightScheme& scheme) const;

 private:
  model::WeightSpec& next(const std::string& suffix, model::Split split);
  [[nodiscard]] std::vector<int64_t> stacked(std::vector<int64_t> matrix) const;

  const model::WeightSpec& weight_;
  const StoredTensors& stored_;
  std::vector<model::WeightSpec>& result_;
};

}  // namespace plimsoll::shard
