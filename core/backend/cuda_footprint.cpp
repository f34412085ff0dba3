#include "backend/cuda_footprint.h"

#include <algorithm>

namespace plimsoll::backend {
namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace

std::vector<kernels::FlashShape> flash_shapes(const model::ModelSpec& spec) {
  std::vector<kernels::FlashShape> shapes;
  for (const model::LayerSpec& layer : spec.layers) {
    const model::AttentionSpec& of = layer.attention;
    const kernels::FlashShape shape{of.heads, of.kv_heads, of.head_dim, of.window};
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

size_t rope_table_bytes(const model::ModelSpec& spec) {
  size_t values = 0;
  for (const model::RopeSpec& rope : spec.ropes) {
    values += rope.table.inverse_frequencies.size();
    if (rope.long_table) values += rope.long_table->inverse_frequencies.size();
  }
  return aligned(values * sizeof(float));
}

kernels::FlashLimits flash_limits(const StepShape& shape, const CardFigures& card) {
  return {.tokens = shape.tokens,
          .sequences = shape.sequences,
          .context = shape.table_stride * shape.block_size,
          .multiprocessors = card.processors,
          .fixed_split = card.deterministic ? kFixedSplit : 0};
}

size_t CudaFootprint::weight_bytes(const model::WeightSpec& spec, DType dtype) const {
  return aligned(static_cast<size_t>(spec.elements()) * dtype_size(dtype));
}

size_t CudaFootprint::kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                               DType dtype) const {
  return aligned(static_cast<size_t>(2 * spec.kv_heads * block_size * spec.head_dim) *
                 dtype_size(dtype));
}

size_t CudaFootprint::linear_workspace(int64_t, const model::WeightSpec&, DType) const {
  return 0;  // device_workspace_bytes serves all products
}

size_t CudaFootprint::attention_workspace(int64_t, int64_t, const model::AttentionSpec&) const {
  return 0;  // device_workspace_bytes holds the parts of split sequences
}

size_t CudaFootprint::step_plan_bytes(const StepShape& shape) const {
  size_t bytes = 0;
  for (const kernels::FlashShape& flash : flash_shapes(*shape.spec)) {
    bytes += aligned(kernels::flash_slab(flash_limits(shape, card_), flash).bytes);
  }
  return bytes;
}

size_t CudaFootprint::device_workspace_bytes(const StepShape& shape) const {
  size_t partials = 0;
  for (const kernels::FlashShape& flash : flash_shapes(*shape.spec)) {
    partials =
        std::max(partials, kernels::flash_workspace_bytes(flash_limits(shape, card_), flash));
  }
  return product_workspace_bytes(card_) + rope_table_bytes(*shape.spec) + aligned(partials);
}

size_t CudaFootprint::host_workspace_bytes(const StepShape&) const {
  return kLoadRingBytes;
}

}  // namespace plimsoll::backend
