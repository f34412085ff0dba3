#include "shard/quantized/implied_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::Part;
using model::WeightSpec;

void store(int64_t value, DType dtype, std::byte* to) {
  if (dtype == DType::i64) {
    std::memcpy(to, &value, sizeof value);
  } else if (dtype == DType::i32) {
    const auto narrow = static_cast<int32_t>(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const auto number = static_cast<float>(value);
    convert(&number, DType::f32, to, dtype, 1);
  }
}

float value_of(const checkpoint::TensorEntry& tensor) {
  float value = 0;
  const checkpoint::GuardedRead guard(*tensor.file);
  convert(tensor.data, tensor.dtype, &value, DType::f32, 1);
  guard.finish();
  return value;
}

void check_told(const checkpoint::TensorEntry& tensor, const Part& part) {
  std::vector<std::byte> expected(tensor.bytes);
  fill_implied_values(part, tensor.dtype, 0, part.stored_shape[0], expected.data());
  const checkpoint::GuardedRead guard(*tensor.file);
  const bool same = std::equal(expected.begin(), expected.end(), tensor.data);
  guard.finish();
  if (same) return;
  refuse_quantized(fmt::format(
      "tensor {} in {} {}", tensor.name, tensor.file->path().string(),
      part.values.empty() ? "does not give the groups of inputs in order, as vLLM 0.32 takes them"
                          : "is not the shape that config.json gives the weight"));
}

}  // namespace

void fill_implied_values(const Part& part, DType dtype, int64_t first, int64_t count,
                         std::byte* to) {
  for (int64_t i = first; i < first + count; ++i) {
    store(part.values.empty() ? i / part.index_group : part.values[static_cast<size_t>(i)], dtype,
          to);
    to += dtype_size(dtype);
  }
}

void check_implied_values(const checkpoint::WeightReader& reader, const ModelSpec& spec) {
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const WeightSpec& weight : *table) {
      for (const Part& part : weight.parts) {
        if (part.is_told()) check_told(reader.tensor(part), part);
      }
    }
  }
}

void check_input_scales(const checkpoint::WeightReader& reader, const ModelSpec& spec) {
  constexpr float kTolerance = 1e-5f;  // vLLM's own
  for (const WeightSpec& weight : spec.weights) {
    if (!weight.is_stack() || !weight.name.ends_with("w13_input_scale")) continue;
    for (size_t i = 0; i + 1 < weight.parts.size(); i += 2) {
      const checkpoint::TensorEntry& gate = reader.tensor(weight.parts[i]);
      const checkpoint::TensorEntry& up = reader.tensor(weight.parts[i + 1]);
      const float one = value_of(gate);
      const float other = value_of(up);
      if (std::abs(one - other) <= kTolerance) continue;
      refuse_quantized(
          fmt::format("{} is {} and {} is {}; vLLM takes experts only where they are "
                      "alike",
                      gate.name, one, up.name, other));
    }
  }
}

}  // namespace plimsoll::shard
