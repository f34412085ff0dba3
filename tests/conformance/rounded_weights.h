// Checkpoints whose layers are stored in fp8, and plain ones read as if they had been rounded so.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/float8.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/crafted.h"
#include "checkpoint/find_tensor.h"
#include "model/config.h"
#include "quantization/online.h"

namespace plimsoll::testing {

inline float scale_of(const float* row, int64_t columns) {
  float most = 0;
  for (int64_t n = 0; n < columns; ++n) most = std::max(most, std::fabs(row[n]));
  return most / kLargestE4m3;
}

/// Reads the rows of some weights rounded to fp8 and back, each by its own scale.
class RoundedRows final : public checkpoint::WeightSource {
 public:
  RoundedRows(const checkpoint::WeightSource& source, std::set<std::string> names)
      : source_(source), names_(std::move(names)) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    source_.read_rows(weight, first, count, dtype, to);
    if (!names_.contains(weight.name)) return;
    if (dtype != DType::f32) throw std::logic_error(weight.name + " is not computed in float32");
    for (int64_t i = 0; i < count; ++i) {
      float* const row = static_cast<float*>(to) + i * weight.columns();
      const float scale = scale_of(row, weight.columns());
      for (int64_t n = 0; n < weight.columns(); ++n)
        row[n] = round_to_e4m3(row[n] * (1 / scale)) * scale;
    }
  }

 private:
  const checkpoint::WeightSource& source_;
  std::set<std::string> names_;
};

/// Names of the weights that are packed, towers' weights too.
inline std::set<std::string> packed_weights(const model::ModelSpec& spec) {
  std::set<std::string> names;
  for (const auto* weights : {&spec.weights, &spec.towers})
    for (const model::WeightSpec& weight : *weights)
      if (weight.is_packed()) names.insert(weight.name);
  return names;
}

/// The tensors of layers' matrices that a checkpoint has one by one, towers' too.
inline std::set<std::string> tensors_of_layers(model::ModelSpec spec,
                                               const checkpoint::Checkpoint& checkpoint) {
  quantization::assign_online("fp8", quantization::Activations::whole, spec);
  std::set<std::string> names;
  const auto add = [&](const model::Part& part) {
    const auto* tensor = checkpoint::find_tensor(checkpoint, spec, part.tensor);
    if (!part.transposed && part.tensor.ends_with(".weight") && tensor != nullptr &&
        tensor->shape.size() == 2)
      names.insert(tensor->name);
  };
  for (const model::WeightSpec& weight : spec.weights)
    for (const model::Part& part : weight.parts)
      if (part.packing) add(part);
  for (const model::WeightSpec& weight : spec.towers)
    if (weight.use == model::WeightUse::linear) std::ranges::for_each(weight.parts, add);
  return names;
}

/// A safetensors file, tensor by tensor.
class SafetensorsWriter {
 public:
  void add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           const void* data, size_t bytes) {
    header_[name] = {{"dtype", safetensors_name(dtype)},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes}}};
    data_.append(static_cast<const char*>(data), bytes);
  }
  [[nodiscard]] std::string bytes() const { return safetensors_bytes(header_.dump(), data_); }

 private:
  Json header_ = Json::object();
  std::string data_;
};

/// Adds a tensor as codes, with a scale for each output.
inline void add_rounded(const checkpoint::TensorEntry& tensor, SafetensorsWriter& to) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  std::vector<float> values(static_cast<size_t>(rows * columns)), scales;
  convert(tensor.data, tensor.dtype, values.data(), DType::f32, values.size());
  std::vector<uint8_t> codes;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = values.data() + r * columns;
    scales.push_back(scale_of(row, columns));
    for (int64_t n = 0; n < columns; ++n)
      codes.push_back(float_to_e4m3(row[n] * (1 / scales.back())));
  }
  to.add(tensor.name, DType::f8_e4m3, tensor.shape, codes.data(), codes.size());
  const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
  to.add(module + ".weight_scale", DType::f32, {rows, 1}, scales.data(), 4 * scales.size());
}

inline constexpr const char* kFp8Config = R"({"quant_method": "compressed-tensors",
  "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {
    "targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}}}})";

/// Writes the model in `plain` to `rounded` with its layers in fp8.
inline void write_rounded(const std::filesystem::path& plain,
                          const std::filesystem::path& rounded) {
  const auto checkpoint = checkpoint::Checkpoint::open(plain);
  Json config = model::read_config(plain);
  const std::set<std::string> layers =
      tensors_of_layers(model::make_model_spec(config), checkpoint);
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (layers.contains(name)) {
      add_rounded(tensor, writer);
    } else {
      writer.add(name, tensor.dtype, tensor.shape, tensor.data, tensor.bytes);
    }
  }
  config["quantization_config"] = Json::parse(kFp8Config);
  std::filesystem::create_directories(rounded);
  std::ofstream(rounded / "config.json") << config.dump();
  std::ofstream(rounded / "model.safetensors", std::ios::binary) << writer.bytes();
}

}  // namespace plimsoll::testing
