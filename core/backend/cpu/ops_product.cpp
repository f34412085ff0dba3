// Matrix products: packing of rows, and the walk over strips, blocks of k and tiles of rows.
#include "backend/cpu/ops_product.h"

#include <algorithm>
#include <array>

namespace plimsoll::backend {
namespace {

/// Columns of the weight that are multiplied at a time where there are several tiles of rows: a
/// tile's part of a block and a strip's stay in the caches nearest to the core.
constexpr int64_t kBlock = 512;
/// Most plain strips of one task: strips of a single tile are streams of memory side by side,
/// strips of several tiles are read one by one, so that the weight is read in the order of memory.
constexpr int64_t kTaskStrips = 4;
/// Most quantized strips of one task, read one by one or nearly: a task's strips are one stream of
/// memory, which processors fetch ahead better than instructions that ask for it.
constexpr int64_t kPackedTaskStrips = 16;
/// Tiles of rows with which all strips of a task are multiplied before the next tiles, so that what
/// they read and sum stays in the second cache.
constexpr int64_t kTogether = 16;
/// Bytes that a single tile's products fetch ahead.
constexpr size_t kPrefetchDistance = 4096;

/// Tiles of rows whose slices are summed together, while other slices' sums wait.
constexpr int64_t kSliceTiles = 4;

}  // namespace

int64_t CpuBackend::product_tiles(int64_t rows) const {
  return divide_up(rows, kernels_.product_rows);
}

void CpuBackend::multiply(const Product& product) {
  const int64_t strips = round_up(product.n, kStrip) / kStrip;
  const int64_t wanted = strips / (8 * pool_.threads());
  const bool packed = !product.jobs.empty() && product.jobs.front().part != nullptr;
  const int64_t task_strips =
      std::clamp<int64_t>(wanted, 1, packed ? kPackedTaskStrips : kTaskStrips);
  const int64_t tasks = divide_up(strips, task_strips);
  int64_t rows = 0;
  for (const ProductJob& job : product.jobs) rows += job.rows;
  const int64_t operations = 2 * rows * product.n * product.k;
  const auto run = [&](int64_t task, int thread) {
    const ProductJob& job = product.jobs[task / tasks];
    const int64_t first = task % tasks * task_strips;
    const int64_t last = std::min(strips, first + task_strips);
    if (job.part != nullptr && has_integers(*job.part, product.k / product.slices)) {
      multiply_integers(product, job, first, last);
    } else if (job.part != nullptr && job.part->packing->code == model::Code::none) {
      multiply_widened(product, job, first, last, thread);
    } else if (job.planes > 0) {
      multiply_fixed(product, job, first, last, thread);
    } else if (job.part != nullptr) {
      multiply_packed(product, job, first, last, thread);
    } else if (has_tiles(product.dtype, product.k / product.slices)) {
      multiply_tiles(product, job, first, last);
    } else {
      multiply_strips(product, job, first, last, task_strips);
    }
  };
  pool_.run(tasks * static_cast<int64_t>(product.jobs.size()), operations, run);
}

void CpuBackend::multiply_strips(const Product& product, const ProductJob& job, int64_t first_strip,
                                 int64_t last_strip, int64_t task_strips) const {
  const int64_t tiles = product_tiles(job.rows);
  const int64_t together = product.slices == 1 ? kTogether : kSliceTiles;
  const int64_t width = tiles == 1 ? task_strips : 1;
  for (int64_t tile = 0; tile < tiles; tile += together)
    for (int64_t s = first_strip; s < last_strip; s += width)
      multiply_region(product, job,
                      {s, std::min(width, last_strip - s), tile, std::min(tiles, tile + together)});
}

void CpuBackend::multiply_region(const Product& product, const ProductJob& job,
                                 const ProductRegion& region) const {
  const int64_t tiles = product_tiles(job.rows);
  const int64_t first_row = region.first_tile * job.rows / tiles;
  const int64_t rows = region.end_tile * job.rows / tiles - first_row;
  const int64_t first_column = region.first_strip * kStrip;
  const int64_t columns = std::min(region.strips * kStrip, product.n - first_column);
  const RegionSums out{job.out + first_row * job.out_stride + first_column, job.out_stride};
  if (product.slices == 1) {
    const bool in_blocks = region.end_tile - region.first_tile > 1 && product.k > kBlock;
    return in_blocks ? multiply_aside(product, job, region, {rows, columns}, out)
                     : multiply_slice(product, job, region, 0, out);
  }
  constexpr int64_t kRegion = kSliceTiles * kMaxProductRows * kTaskStrips * kStrip;
  std::array<float, kWaitingSums * kRegion> waiting;
  const auto at = [&](int64_t level) {
    return level == 0 ? out
                      : RegionSums{waiting.data() + (level - 1) * kRegion, region.strips * kStrip};
  };
  const auto make = [&](int64_t slice, int64_t level) {
    multiply_slice(product, job, region, slice, at(level));
  };
  const auto join = [&](int64_t level) {
    const RegionSums to = at(level), from = at(level + 1);
    for (int64_t r = 0; r < rows; ++r)
      kernels_.add(to.data + r * to.stride, from.data + r * from.stride, columns);
  };
  sum_slices(product.slices, make, join);
  if (product.activation == model::Activation::none) return;
  for (int64_t r = 0; r < rows; ++r)
    kernels_.finish(out.data + r * out.stride, columns, {nullptr, product.activation});
}

void CpuBackend::multiply_aside(const Product& product, const ProductJob& job,
                                const ProductRegion& region, const RegionSize& size,
                                const RegionSums& out) const {
  std::array<float, kTogether * kMaxProductRows * kStrip> sums;
  multiply_slice(product, job, region, 0, {sums.data(), kStrip});
  // Each row is in a page of its own: all are on their way before the first is written.
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t r = 0; r < size.rows; ++r)
    for (int64_t c = 0; c < size.columns; c += kLine)
      __builtin_prefetch(out.data + r * out.stride + c, 1);
  for (int64_t r = 0; r < size.rows; ++r)
    std::copy_n(sums.data() + r * kStrip, size.columns, out.data + r * out.stride);
}

void CpuBackend::multiply_slice(const Product& product, const ProductJob& job,
                                const ProductRegion& region, int64_t slice,
                                const RegionSums& out) const {
  const int64_t k = padded_columns(product.k);
  const int64_t width = k / product.slices;
  const int64_t all_tiles = product_tiles(job.rows);
  const int64_t tiles = region.end_tile - region.first_tile;
  const int64_t block = tiles > 1 ? kBlock : width;
  const size_t element = kernels_.packed_element(product.dtype);
  const size_t column_bytes = kStrip * dtype_size(product.dtype);
  const std::byte* weight = job.matrix + region.first_strip * k * column_bytes;
  const int64_t first_column = region.first_strip * kStrip;
  const Epilogue epilogue = epilogue_of(product, slice, first_column);
  // Over its tiles, a block's products fetch the block after it.
  const int64_t steps_bytes =
      kPrefetchSteps * pair_step(product.dtype) * static_cast<int64_t>(column_bytes);
  // Halves of a strip are fetched twice where that is asked for.
  const bool ahead_pays = tiles > 1 || job.rows <= kernels_.strip_rows;
  const auto lines = ahead_pays ? static_cast<int>(divide_up(steps_bytes / 64, tiles)) : 0;
  const int64_t end = (slice + 1) * width;
  for (int64_t begin = slice * width; begin < end; begin += block)
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t tile = region.first_tile + t;
      const int64_t first_row = tile * job.rows / all_tiles;
      const int64_t rows = (tile + 1) * job.rows / all_tiles - first_row;
      const int64_t row_of_region = first_row - region.first_tile * job.rows / all_tiles;
      const size_t ahead =
          tiles == 1 ? kPrefetchDistance : (block + block * t / tiles) * column_bytes;
      multiply_tile({.a = job.rows_packed + (first_row * k + begin * rows) * element,
                     .rows = static_cast<int>(rows),
                     .weight = weight,
                     .strip_bytes = k * column_bytes,
                     .k_begin = begin,
                     .k_end = std::min(end, begin + block),
                     .strips = static_cast<int>(region.strips),
                     .c = out.data + row_of_region * out.stride,
                     .c_stride = out.stride,
                     .continues = begin > slice * width,
                     .prefetch = weight + begin * column_bytes + ahead,
                     .prefetch_lines = lines},
                    product.dtype, std::min(region.strips * kStrip, product.n - first_column),
                    begin + block < end ? Epilogue{} : epilogue);
    }
}

void CpuBackend::multiply_tiles(const Product& product, const ProductJob& job, int64_t first_strip,
                                int64_t last_strip) const {
  const int64_t width = padded_columns(product.k) / product.slices;
  const int64_t stride = bf16_stride(product.k);
  const size_t strip = strip_bytes(product.k, DType::bf16);
  const auto* const rows = reinterpret_cast<const uint16_t*>(job.rows_packed);
  for (int64_t first = 0; first < job.rows; first += kBf16Rows)
    for (int64_t s = first_strip; s < last_strip; ++s) {
      const int64_t count = std::min<int64_t>(kBf16Rows, job.rows - first);
      const auto make = [&](int64_t slice, float* to) {
        bf16_tiles_({.a = rows + first * stride + slice * width,
                     .stride = stride,
                     .rows = static_cast<int>(count),
                     .weight = job.matrix + s * strip + slice * strip_bytes(width, DType::bf16),
                     .columns = width,
                     .c = to,
                     .c_stride = kStrip});
      };
      add_slices<kBf16Rows * kStrip>(product, job, {first, count, s}, make);
    }
}

void CpuBackend::finish(float* row, int64_t columns, const Epilogue& epilogue) const {
  if (epilogue.bias == nullptr && epilogue.activation == model::Activation::none) return;
  kernels_.finish(row, columns, epilogue);
}

void CpuBackend::multiply_tile(ProductTile tile, DType dtype, int64_t columns,
                               const Epilogue& epilogue) const {
  const auto whole = static_cast<int>(columns / kStrip);
  const int64_t left = columns % kStrip;
  float* c = tile.c;
  tile.strips = whole;
  if (whole > 0) kernels_.product(tile, dtype);
  if (left > 0) {
    // The last strip is wider than what is left of the rows: take a detour.
    std::array<float, kMaxProductRows * kStrip> detour{};
    float* rest = c + whole * kStrip;
    for (int64_t r = 0; r < tile.rows && tile.continues; ++r)
      std::copy_n(rest + r * tile.c_stride, left, detour.data() + r * kStrip);
    ProductTile last = tile;
    last.weight += whole * tile.strip_bytes;
    last.strips = 1;
    last.c = detour.data();
    last.c_stride = kStrip;
    kernels_.product(last, dtype);
    for (int64_t r = 0; r < tile.rows; ++r)
      std::copy_n(detour.data() + r * kStrip, left, rest + r * tile.c_stride);
  }
  for (int64_t r = 0; r < tile.rows; ++r) finish(c + r * tile.c_stride, columns, epilogue);
}

void CpuBackend::compute(const ops::Linear& op, std::byte* workspace) {
  if (op.in.rows == 0) return;
  if (op.weight.spec->is_packed()) return linear_packed(op, workspace);
  const auto* from = static_cast<const float*>(op.in.data);
  const int64_t slices = op.weight.spec->slices;
  pack(op.in.rows, op.in.columns, op.weight.dtype, workspace,
       [&](int64_t row) { return from + row * op.in.stride; }, {.slices = slices});
  const ProductJob job{.rows_packed = workspace,
                       .rows = op.in.rows,
                       .matrix = static_cast<const std::byte*>(op.weight.data),
                       .out = static_cast<float*>(op.out.data),
                       .out_stride = op.out.stride};
  multiply({.n = op.weight.spec->rows(),
            .k = op.weight.spec->columns(),
            .slices = slices,
            .dtype = op.weight.dtype,
            .bias = static_cast<const float*>(op.bias.data),
            .activation = op.activation,
            .jobs = {&job, 1}});
}

}  // namespace plimsoll::backend
