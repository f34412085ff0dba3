// Products with quantised weights: codes become floats a block of a strip at a time, and the floats
// are multiplied as any others, in the same order for any number of rows.
#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cpu/ops_product.h"

namespace plimsoll::backend {
namespace {

/// Columns unpacked at a time: with 32 rows of floats they stay in the nearest cache.
constexpr int64_t kUnpackColumns = 128;
/// Groups have two columns at least, and blocks may begin within one.
constexpr int64_t kUnpackGroups = kUnpackColumns / 2 + 1;
constexpr size_t kUnpackFloats = static_cast<size_t>((kUnpackColumns + kUnpackGroups) * kStrip);

/// What one quantised part has in memory.
struct PackedView {
  const model::Packing& packing;
  PackedPart layout;
  const std::byte* data;

  template <typename T>
  [[nodiscard]] const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(data + offset);
  }
};

/// Scales of a strip's groups [first, last) from double-quantised ones, [groups][32].
void nested_scales(const PackedView& view, int64_t strip, int64_t first, int64_t last, float* to) {
  const auto* numbers = view.at<float>(view.layout.nested);
  const float offset = numbers[256];
  const float* absmax = numbers + 257;
  const auto* bytes =
      view.at<uint8_t>(view.layout.scales + static_cast<size_t>(strip) * view.layout.strip_scales);
  for (int64_t g = first; g < last; ++g)
    for (int64_t r = 0; r < kStrip; ++r, ++to) {
      const int64_t row = std::min(strip * kStrip + r, view.layout.rows - 1);
      const int64_t number = view.layout.nested_first + row * view.layout.groups + g;
      *to = numbers[bytes[g * kStrip + r]] * absmax[number / model::NestedScales::kBlock] + offset;
    }
}

UnpackTile strip_tile(const PackedView& view, int64_t strip) {
  const PackedPart& layout = view.layout;
  const auto index = static_cast<size_t>(strip);
  UnpackTile tile{.packing = &view.packing,
                  .codes = view.data + index * layout.strip_codes,
                  .scales = view.data + layout.scales + index * layout.strip_scales,
                  .scale = view.packing.scale,
                  .columns = layout.columns};
  if (view.packing.zeros) tile.zeros = view.at<uint8_t>(layout.zeros + index * layout.strip_zeros);
  if (view.packing.factors) tile.factors = view.at<float>(layout.factors) + strip * kStrip;
  if (view.packing.ordered) tile.order = view.at<int32_t>(layout.order);
  if (view.packing.code == model::Code::table) tile.table = view.at<float>(layout.table);
  return tile;
}

}  // namespace

void CpuBackend::multiply_packed(const Product& product, const ProductJob& job, int64_t strip,
                                 int thread) {
  const PackedView view{*job.part->packing, PackedPart(*job.part, product.k), job.matrix};
  std::vector<float>& buffer = unpacked_[static_cast<size_t>(thread)];
  buffer.resize(kUnpackFloats);
  float* const nested = buffer.data() + kUnpackColumns * kStrip;
  UnpackTile unpack = strip_tile(view, strip);
  unpack.out = buffer.data();
  const int64_t tiles = product_tiles(job.rows);
  const int64_t row_floats = padded_columns(product.k);
  const int64_t group = view.packing.group > 0 ? view.packing.group : product.k;
  for (int64_t begin = 0; begin < product.k; begin += kUnpackColumns) {
    unpack.k_begin = begin;
    unpack.k_end = std::min(product.k, begin + kUnpackColumns);
    if (view.packing.scale == model::ScaleType::nested) {
      unpack.first_group = begin / group;
      nested_scales(view, strip, unpack.first_group, divide_up(unpack.k_end, group), nested);
      unpack.scales = reinterpret_cast<const std::byte*>(nested);
      unpack.scale = model::ScaleType::f32;
    }
    kernels_.unpack(unpack);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first = t * job.rows / tiles;
      const int64_t rows = (t + 1) * job.rows / tiles - first;
      const int64_t at = first * row_floats + begin * rows;
      multiply_tile(product, strip * kStrip,
                    {.a = job.rows_packed + static_cast<size_t>(at) * sizeof(float),
                     .rows = static_cast<int>(rows),
                     .weight = reinterpret_cast<const std::byte*>(buffer.data()),
                     .k_begin = 0,
                     .k_end = unpack.k_end - begin,
                     .strips = 1,
                     .c = job.out + first * job.out_stride + strip * kStrip,
                     .c_stride = job.out_stride,
                     .continues = begin > 0,
                     .prefetch = job.matrix},
                    unpack.k_end < product.k ? KBlock::inner : KBlock::last);
    }
  }
}

void CpuBackend::linear_packed(View out, View in, const Weight& weight, const Weight& bias,
                               model::Activation activation, std::byte* workspace) {
  const auto* from = static_cast<const float*>(in.data);
  const auto* const biases = static_cast<const float*>(bias.data);
  std::optional<std::pair<DType, InputRule>> rows_are;
  for (const Segment& segment : Segments(*weight.spec, weight.dtype, 0).parts) {
    const bool packed = segment.part->packing.has_value();
    const DType dtype = packed ? DType::f32 : weight.dtype;
    const std::byte* const matrix = static_cast<const std::byte*>(weight.data) + segment.offset;
    const InputRule rule = packed ? input_rule(*segment.part, in.columns, matrix) : InputRule{};
    if (rows_are != std::pair(dtype, rule)) {
      const auto row_of = [&](int64_t row) { return from + row * in.stride; };
      pack(in.rows, in.columns, dtype, workspace, row_of, rule);
      rows_are = std::pair(dtype, rule);
    }
    const ProductJob job{.rows_packed = workspace,
                         .rows = in.rows,
                         .matrix = matrix,
                         .part = packed ? segment.part : nullptr,
                         .out = static_cast<float*>(out.data) + segment.first_row,
                         .out_stride = out.stride};
    multiply({.n = segment.part->rows(),
              .k = weight.spec->columns(),
              .dtype = dtype,
              .bias = biases == nullptr ? nullptr : biases + segment.first_row,
              .activation = activation,
              .jobs = {&job, 1}});
  }
}

}  // namespace plimsoll::backend
