// Sizes of the CPU backend.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/experts_layout.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"
#include "backend/row_maxima.h"

namespace plimsoll::backend {
namespace {

class CpuFootprint final : public Footprint {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] DType activation_dtype(DType) const override { return DType::f32; }
  [[nodiscard]] bool sees_images() const override { return true; }
  [[nodiscard]] size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const override {
    // All experts' matrices are alike.
    if (spec.is_packed()) {
      return spec.matrices() * packed_segments(spec, dtype, 0).end;
    }
    const auto elements = static_cast<size_t>(spec.elements());
    if (spec.is_vector()) return elements * sizeof(float);
    if (spec.use == model::WeightUse::embedding) return elements * dtype_size(dtype);
    return spec.matrices() * matrix_bytes(spec, dtype);
  }
  [[nodiscard]] bool stores_kv(DType kv, DType model) const override {
    return kv == model || kv == DType::f8_e4m3;
  }
  [[nodiscard]] size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                DType dtype) const override {
    return KvBlock(spec, block_size, dtype).bytes();
  }
  [[nodiscard]] size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                        DType) const override {
    return packed_rows_bytes(rows, spec.columns()) + rows * RowMaxima(spec).count * sizeof(float);
  }
  [[nodiscard]] size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp, int64_t hidden,
                                         DType) const override {
    return ExpertsLayout(rows, mlp, hidden).bytes;
  }
  [[nodiscard]] size_t attention_workspace(int64_t, int64_t sequences,
                                           const model::AttentionSpec&) const override {
    return (sequences + 1) * sizeof(int64_t);
  }
  [[nodiscard]] size_t choice_workspace(int64_t rows, int64_t longest) const override {
    return std::min(rows, kChoiceRows) * longest * sizeof(float);
  }
};

}  // namespace

const Footprint& cpu_footprint() {
  static const CpuFootprint footprint;
  return footprint;
}

}  // namespace plimsoll::backend
