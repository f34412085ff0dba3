// Matrix products: packing of rows, and the walk over strips, blocks of k and tiles of rows.
#include "backend/cpu/ops_product.h"

#include <algorithm>
#include <array>

namespace plimsoll::backend {
namespace {

/// Columns of the weight that are multiplied at a time where there are several tiles of rows: a
/// tile's part of a block and a strip's stay in the caches nearest to the core.
constexpr int64_t kBlock = 512;
/// Strips that one task multiplies at most.
constexpr int64_t kTaskStrips = 4;
/// Bytes that a single tile's products fetch ahead.
constexpr size_t kPrefetchDistance = 4096;

}  // namespace

int64_t CpuBackend::product_tiles(int64_t rows) const {
  return (rows + kernels_.product_rows - 1) / kernels_.product_rows;
}

void CpuBackend::multiply(const Product& product) {
  const int64_t strips = round_up(product.n, kStrip) / kStrip;
  const int64_t wanted = strips / (4 * pool_.threads());
  const int64_t task_strips = std::clamp<int64_t>(wanted, 1, kTaskStrips);
  const int64_t tasks = (strips + task_strips - 1) / task_strips;
  pool_.run(tasks * static_cast<int64_t>(product.jobs.size()), [&](int64_t task, int) {
    const ProductJob& job = product.jobs[static_cast<size_t>(task / tasks)];
    const int64_t first = task % tasks * task_strips;
    multiply_strips(product, job, first, std::min(task_strips, strips - first));
  });
}

void CpuBackend::multiply_strips(const Product& product, const ProductJob& job, int64_t first_strip,
                                 int64_t strips) const {
  const int64_t k = padded_columns(product.k);
  const int64_t tiles = product_tiles(job.rows);
  const int64_t block = tiles > 1 ? kBlock : k;
  const size_t element = kernels_.packed_element(product.dtype);
  const size_t bytes = strip_bytes(product.k, product.dtype);
  const int64_t first_column = first_strip * kStrip;
  const int64_t columns = std::min(strips * kStrip, product.n - first_column);
  const int64_t whole = columns / kStrip;
  const size_t step_bytes = strip_bytes(pair_step(product.dtype), product.dtype);
  // Over its tiles, a block's products fetch the block after it.
  const auto lines = static_cast<int>((kPrefetchSteps * step_bytes / 64 + tiles - 1) / tiles);
  for (int64_t begin = 0; begin < k; begin += block) {
    const int64_t end = std::min(k, begin + block);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first_row = t * job.rows / tiles;
      const int64_t rows = (t + 1) * job.rows / tiles - first_row;
      float* c = job.out + first_row * job.out_stride + first_column;
      const std::byte* weight = job.matrix + static_cast<size_t>(first_strip) * bytes;
      const size_t block_bytes = static_cast<size_t>(block) * bytes / static_cast<size_t>(k);
      const std::byte* next = weight + static_cast<size_t>(begin) * bytes / static_cast<size_t>(k) +
                              (tiles == 1 ? kPrefetchDistance
                                          : block_bytes + block_bytes * static_cast<size_t>(t) /
                                                              static_cast<size_t>(tiles));
      ProductTile tile{
          .a = job.rows_packed + static_cast<size_t>(first_row * k + begin * rows) * element,
          .rows = static_cast<int>(rows),
          .weight = weight,
          .strip_bytes = bytes,
          .k_begin = begin,
          .k_end = end,
          .strips = static_cast<int>(whole),
          .c = c,
          .c_stride = job.out_stride,
          .continues = begin > 0,
          .prefetch = next,
          .prefetch_lines = lines};
      if (whole > 0) kernels_.product(tile, product.dtype);
      if (whole < strips) {
        // The last strip is wider than what is left of the rows: take a detour.
        std::array<float, kMaxProductRows * kStrip> detour{};
        const int64_t left = columns - whole * kStrip;
        float* rest = c + whole * kStrip;
        for (int64_t r = 0; r < rows && tile.continues; ++r)
          std::copy_n(rest + r * job.out_stride, left, detour.data() + r * kStrip);
        tile.weight += static_cast<size_t>(whole) * bytes;
        tile.strips = 1;
        tile.c = detour.data();
        tile.c_stride = kStrip;
        kernels_.product(tile, product.dtype);
        for (int64_t r = 0; r < rows; ++r)
          std::copy_n(detour.data() + r * kStrip, left, rest + r * job.out_stride);
      }
      if (end < k) continue;
      const Epilogue epilogue{product.bias != nullptr ? product.bias + first_column : nullptr,
                              product.activation};
      if (epilogue.bias == nullptr && epilogue.activation == model::Activation::none) continue;
      for (int64_t r = 0; r < rows; ++r) kernels_.finish(c + r * job.out_stride, columns, epilogue);
    }
  }
}

void CpuBackend::do_linear(View out, View in, const Weight& weight, const Weight& bias,
                           model::Activation activation, std::byte* workspace) {
  if (in.rows == 0) return;
  const auto* from = static_cast<const float*>(in.data);
  pack(in.rows, in.columns, weight.dtype, workspace,
       [&](int64_t row) { return from + row * in.stride; });
  const ProductJob job{workspace, in.rows, static_cast<const std::byte*>(weight.data),
                       static_cast<float*>(out.data), out.stride};
  multiply({.n = weight.spec->rows(),
            .k = weight.spec->columns(),
            .dtype = weight.dtype,
            .bias = static_cast<const float*>(bias.data),
            .activation = activation,
            .jobs = {&job, 1}});
}

}  // namespace plimsoll::backend
