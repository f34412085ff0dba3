// The parameters that one quantized weight is stored in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// Shape of a parameter with one value for each output: [outputs] or [outputs, 1].
enum class Axes : uint8_t { vector, column };

/// Adds parameters of a weight to a table, each under the weight's name with another ending.
class QuantizedParameters {
 public:
  /// All arguments must outlive the object.
  QuantizedParameters(const model::WeightSpec& weight, const StoredTensors& stored,
                      std::vector<model::WeightSpec>& result)
      : weight_(weight), stored_(stored), result_(result) {}

  /// A parameter of the weight's own layout, of another dtype.
  void as_stored(DType dtype);
  /// A parameter whose rows are the weight's divided by `unit`, `columns` of them.
  model::WeightSpec& by_rows(const std::string& suffix, std::optional<DType> dtype,
                             model::Split split, int64_t unit, int64_t columns);
  /// A parameter [rows, outputs / unit], parts beside each other.
  void by_columns(const std::string& suffix, std::optional<DType> dtype, model::Split split,
                  int64_t rows, int64_t unit);
  /// A parameter that the checkpoint stores beside the outputs, transposed: [outputs, columns],
  /// parts over each other.
  void turned(const std::string& suffix, int64_t columns, model::Repack repack);
  /// A value for each output, of shape `parameter` in vLLM and `stored` in the checkpoint.
  void by_output(const std::string& suffix, DType dtype, Axes parameter, Axes stored);
  /// A value for each part; no dtype: the model's.
  void by_part(const std::string& suffix, std::optional<DType> dtype = DType::f32);
  /// A parameter that no tensor fills; all its values are `value`.
  void add_constant(const std::string& suffix, std::optional<DType> dtype, float value,
                    std::vector<int64_t> shape);
  /// One value for a layer (or an expert): the last part's.
  void by_last(const std::string& suffix, DType dtype);
  /// compressed-tensors' record of the unpacked shape; a fused layer has the last part's.
  void add_shape();
  /// The group of each input, in order: vLLM 0.32 has no parameter for it; a checkpoint has a
  /// tensor.
  void add_group_indices(int64_t group);
  /// The bias of GPTQ's experts, which vLLM has whether or not the checkpoint has biases.
  void add_expert_bias();

  [[nodiscard]] const model::WeightSpec& weight() const { return weight_; }
  [[nodiscard]] int64_t inputs() const { return weight_.columns(); }
  /// True when every part (all_have) or any part (any_has) has a tensor of this ending.
  [[nodiscard]] bool all_have(const std::string& suffix) const;
  [[nodiscard]] bool any_has(const std::string& suffix) const;
  /// Split of a parameter that does not depend on the inputs: whole on every rank where inputs are
  /// cut.
  [[nodiscard]] model::Split outputs_only() const;
  [[nodiscard]] int64_t groups(const quantization::WeightScheme& scheme) const;
  /// Integers in a word of 32 bits. Throws where words do not divide the inputs.
  [[nodiscard]] int64_t integers_per_word(const quantization::WeightScheme& scheme) const;

 private:
  model::WeightSpec& next(const std::string& suffix, model::Split split);
  [[nodiscard]] std::vector<int64_t> stacked(std::vector<int64_t> matrix) const;

  const model::WeightSpec& weight_;
  const StoredTensors& stored_;
  std::vector<model::WeightSpec>& result_;
};

}  // namespace plimsoll::shard
