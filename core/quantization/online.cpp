#include "quantization/online.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/float8.h"
#include "model/slices.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

using model::ModelSpec;
using model::WeightSpec;

constexpr model::Packing kOnline{.format = model::PackedFormat::online_fp8,
                                 .code = model::Code::e4m3,
                                 .bits = 8,
                                 .scale = model::ScaleType::f32};

/// vLLM's linear layers: neither tables and heads nor routers, nor experts' biases.
bool is_layer(const ModelSpec& spec, model::WeightId id) {
  const WeightSpec& weight = spec.weight(id);
  const bool matrix = weight.use == model::WeightUse::linear ||
                      (weight.use == model::WeightUse::experts && !weight.is_vector());
  return matrix && !spec.is_router(id) && weight.split != model::Split::vocabulary &&
         id != spec.embedding && id != spec.head && id != spec.position_embedding;
}

class OnlineRows final : public model::PackedRows {
 public:
  OnlineRows(int64_t columns, const model::Inputs& inputs, ReadFloats read)
      : columns_(columns), inputs_(inputs), read_(std::move(read)) {}

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    const std::vector<float> rows = floats(first, count);
    for (int64_t r = 0; r < count; ++r) {
      const float* const row = rows.data() + r * columns_;
      const float inverse = 1 / scale_of(row);
      for (int64_t n = 0; n < inputs_.count; ++n)
        *to++ = float_to_e4m3(row[inputs_.first + n] * inverse);
    }
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const std::vector<float> rows = floats(first, count);
    for (int64_t r = 0; r < count; ++r) {
      const float scale = scale_of(rows.data() + r * columns_);
      std::memcpy(to + static_cast<size_t>(r) * sizeof scale, &scale, sizeof scale);
    }
  }
  void zeros(int64_t, int64_t, uint8_t*) const override {}
  void factors(int64_t, int64_t, float*) const override {}
  void input_groups(int32_t*) const override {}
  void table(std::span<float, 16>) const override {}
  void nested(model::NestedScales&) const override {}
  [[nodiscard]] model::InputScale input_scale() const override { return {}; }

 private:
  [[nodiscard]] std::vector<float> floats(int64_t first, int64_t count) const {
    std::vector<float> rows(static_cast<size_t>(count * columns_));
    read_(first, count, rows.data());
    return rows;
  }
  [[nodiscard]] float scale_of(const float* row) const {
    float most = 0;
    for (int64_t n = 0; n < columns_; ++n) {
      if (!std::isfinite(row[n])) {
        fail(ExitCode::checkpoint_unusable,
             "--quantization fp8: a weight is not a finite number; run the model without it");
      }
      most = std::max(most, std::fabs(row[n]));
    }
    // A row of zeros has any scale; so small a one that its inverse is infinite has none.
    return most / kLargestE4m3 > 1e-37f ? most / kLargestE4m3 : 1.f;
  }

  int64_t columns_;
  model::Inputs inputs_;
  ReadFloats read_;
};

}  // namespace

bool is_online(std::string_view method) {
  return method == "fp8" || method == "fp8_per_channel";
}

void assign_online(std::string_view method, Activations activations, ModelSpec& spec) {
  if (!is_online(method) || !spec.quantization.empty()) return;
  if (std::ranges::any_of(spec.weights, &WeightSpec::is_packed)) return;
  for (size_t i = 0; i < spec.weights.size(); ++i) {
    if (!is_layer(spec, static_cast<model::WeightId>(i))) continue;
    for (model::Part& part : spec.weights[i].parts) {
      part.packing = kOnline;
      if (activations != Activations::whole) part.packing->inputs = model::InputRounding::fp8_token;
    }
  }
  model::slice_sums(spec);
}

std::unique_ptr<model::PackedRows> online_rows(int64_t columns, const model::Inputs& inputs,
                                               ReadFloats read) {
  return std::make_unique<OnlineRows>(columns, inputs, std::move(read));
}

}  // namespace plimsoll::quantization
