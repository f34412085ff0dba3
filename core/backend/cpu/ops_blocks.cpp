// Products with matrices that are kept as ggml's blocks: a strip is decoded to floats and
// multiplied as a plain one, so that a row's bits are those of the decoded matrix, whatever the
// batch.
#include <algorithm>
#include <array>

#include "backend/cpu/ops_product.h"
#include "backend/cpu/packed_layout.h"
#include "base/ggml/decode.h"

namespace plimsoll::backend {
namespace {

/// Columns that are decoded at a time, whole blocks of every type.
constexpr int64_t kColumns = 256;

/// Decodes rows [first, first + 32) of a part to a strip of floats [columns][32], zeros where the
/// part has no more rows.
void decode_strip(const model::Packing& packing, const PackedPart& layout, const std::byte* data,
                  int64_t first, float* strip) {
  const int64_t rows = std::min(kStrip, layout.rows - first);
  std::array<float, kStrip * kColumns> decoded{};
  for (int64_t column = 0; column < layout.columns; column += kColumns) {
    const int64_t count = std::min(kColumns, layout.columns - column);
    const int64_t before = packing.block_row_bytes(column);
    for (int64_t r = 0; r < rows; ++r)
      decode_ggml(packing.blocks, data + (first + r) * layout.row_bytes + before, count,
                  decoded.data() + r * kColumns);
    float* const to = strip + column * kStrip;
    for (int64_t k = 0; k < count; ++k)
      for (int64_t r = 0; r < kStrip; ++r) to[k * kStrip + r] = decoded[r * kColumns + k];
  }
  if (!packing.factors) return;
  const auto* const factors = reinterpret_cast<const float*>(data + layout.factors) + first;
  for (int64_t i = 0; i < layout.columns * kStrip; ++i) strip[i] *= factors[i % kStrip];
}

}  // namespace

void CpuBackend::multiply_blocks(const Product& product, const ProductJob& job, int64_t first_strip,
                                 int64_t last_strip, int thread) {
  const PackedPart layout(*job.part, product.k);
  std::vector<float>& strip = decoded_[thread];
  const int64_t room = padded_columns(product.k) * kStrip;
  strip.resize(std::max(strip.size(), static_cast<size_t>(room)));
  for (int64_t s = first_strip; s < last_strip; ++s) {
    const int64_t first = s * kStrip;
    // Columns up to the padded number are zeros.
    std::fill(strip.begin() + product.k * kStrip, strip.begin() + room, 0.f);
    decode_strip(*job.part->packing, layout, job.matrix, first, strip.data());
    Product one = product;
    one.n = std::min(kStrip, product.n - first);
    one.bias = product.bias == nullptr ? nullptr : product.bias + first;
    one.dtype = DType::f32;
    one.jobs = {};
    ProductJob plain = job;
    plain.matrix = reinterpret_cast<const std::byte*>(strip.data());
    plain.part = nullptr;
    plain.out = job.out + first;
    multiply_strips(one, plain, 0, 1, 1);
  }
}

}  // namespace plimsoll::backend
