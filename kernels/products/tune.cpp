// Products by the clock, and, where one algorithm is to serve all row counts, by its bits.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cuda/slices.h"
#include "kernels/products/product.h"
#include "kernels/rows/random.h"
#include "kernels/runtime/cuda_error.h"
#include "memory/arena.h"

namespace plimsoll::kernels {
namespace {

constexpr size_t kTimed = 4;  // of the heuristic's candidates
/// Row counts over which a row must keep its bits (one, an odd few, a tile, several, many), beside
/// few columns.
constexpr std::array<int64_t, 5> kRowTrials{1, 7, 64, 256, 2048};
/// Column counts over which a column must, of few rows.
constexpr std::array<int64_t, 4> kColumnTrials{96, 256, 1000, 4096};
constexpr int64_t kFewRows = 7, kFewColumns = 64;
/// Largest term of rows, and of the matrix with both signs: products of 2^18 that cancel each other
/// to the last bit. While a sum holds one, each addition of numbers below 1 is rounded to 2^-5:
/// results differ as much as the orders, in 16 bits too, whose rounding would hide one in ten
/// thousand.
constexpr float kLargeTerm = 512;

/// Writes one column of a matrix [rows, ...] on the device, and waits.
void write_column(std::byte* matrix, size_t row_bytes, DType type, int64_t rows, int64_t column,
                  float value, cudaStream_t stream) {
  if (rows <= 0) return;
  const size_t element = dtype_size(type);
  const std::vector<float> values(static_cast<size_t>(rows), value);
  std::vector<std::byte> written(values.size() * element);
  convert(values.data(), DType::f32, written.data(), type, values.size());
  check(cudaMemcpy2DAsync(matrix + static_cast<size_t>(column) * element, row_bytes, written.data(),
                          element, element, values.size(), cudaMemcpyHostToDevice, stream),
        "cudaMemcpy2DAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

/// Operands for trials in somebody's scratch: rows of random numbers, for clocks and bits depend on
/// them, and room for as many results.
struct Products::Trial {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t rows = 0;  // rows with room in the scratch

  Trial(const Key& key, std::span<std::byte> scratch, int64_t wanted, cudaStream_t stream) {
    const size_t in_row = static_cast<size_t>(key.k) * dtype_size(key.in);
    const size_t out_row = static_cast<size_t>(key.n) * dtype_size(key.out);
    const size_t room = scratch.size() - std::min(scratch.size(), memory::Arena::kAlignment);
    rows = std::min(wanted, static_cast<int64_t>(room / (in_row + out_row)));
    in = scratch.data();
    out = in + memory::Arena::aligned(static_cast<size_t>(rows) * in_row);
    if (rows > 0) fill_random(in, key.in, rows * key.k, 1, 1, stream);
  }
};

void Products::tune(std::span<std::byte> scratch, int64_t rows) {
  for (const auto& product : products_) {
    if (product->key.scaling != Scaling::none) continue;
    if (pinning_ == Pinning::single) {
      if (!product->proven) prove(*product, scratch);
      continue;
    }
    product->most_rows = std::max(product->most_rows, rows);
    const size_t last = row_bucket(product->most_rows);
    const auto is_open = [&](size_t bucket) { return !product->best[bucket]; };
    size_t bucket = 0;
    while (bucket <= last && !is_open(bucket)) ++bucket;
    if (bucket > last) continue;
    const Trial trial(product->key, scratch, std::min(kRowBuckets[last], product->most_rows),
                      stream_);
    for (; bucket <= last; ++bucket) {
      if (is_open(bucket)) time_candidates(*product, bucket, trial);
    }
  }
}

void Products::time_candidates(Product& product, size_t bucket, const Trial& trial) {
  const Key& key = product.key;
  Call call{.weight = product.weights.front(),
            .in = trial.in,
            .out = trial.out,
            .bias = product.bias,
            .rows = std::min(kRowBuckets[bucket], product.most_rows),
            .columns = key.n,
            .weight_stride = key.k,
            .in_stride = key.k,
            .out_stride = key.n};
  const bool timed_here = call.rows <= trial.rows && !key.alike;
  // The chosen algorithm must do all row counts of its bucket.
  const int64_t fewest = bucket == 0 ? 1 : kRowBuckets[bucket - 1] + 1;
  double least = std::numeric_limits<double>::infinity();
  size_t timed = 0;
  for (const Algorithm& candidate : candidates(product, call)) {
    if (!works(product, candidate, call, call.rows)) continue;
    if (!works(product, candidate, call, std::min(fewest, call.rows))) continue;
    const double seconds = timed_here ? time(product, candidate, call) : static_cast<double>(timed);
    if (seconds < least) {
      least = seconds;
      product.best[bucket] = candidate;
    }
    if (++timed == kTimed) break;
  }
}

// Seconds of launches over the weights of this shape in turn.
double Products::time(Product& product, const Algorithm& algorithm, Call call) {
  size_t turn = 0;
  return watch_.seconds([&] {
    call.weight = product.weights[turn++ % product.weights.size()];
    return launch(product, algorithm, call) == CUBLAS_STATUS_SUCCESS;
  });
}

/// Operands for trials of bits, in somebody else's scratch. They depend on a launch only in how
/// many find room.
struct Products::PinTrial {
  std::byte* in = nullptr;
  std::byte* weight = nullptr;
  std::byte* bias = nullptr;
  std::byte* out = nullptr;
  size_t in_row = 0;   // bytes of a row of `in`, and of the weight
  size_t element = 0;  // of `out`
  int64_t depth = 0;   // elements of a row, of all slices
  int64_t slices = 1;
  int64_t rows = 0, columns = 0;  // sizes with room in the scratch

  PinTrial(const Key& key, std::span<std::byte> scratch, cudaStream_t stream)
      : element(dtype_size(key.out)), slices(key.sliced ? backend::cuda::kTrialSlices : 1) {
    depth = slices * key.k;
    in_row = static_cast<size_t>(depth) * dtype_size(key.in);
    // A half for rows and what comes of them beside few columns, a half for columns likewise.
    const size_t half = scratch.size() / 2 - std::min(scratch.size() / 2, kGaps);
    const auto fitting = [&](int64_t most, int64_t others) {
      const size_t each = in_row + (static_cast<size_t>(slices * others) + 1) * element;
      return std::min(most, static_cast<int64_t>(half / each));
    };
    rows = fitting(kRowTrials.back(), kFewColumns);
    columns = fitting(kColumnTrials.back(), kFewRows);
    std::byte* at = scratch.data();
    const auto take = [&](size_t bytes) {
      return std::exchange(at, at + memory::Arena::aligned(bytes));
    };
    in = take(static_cast<size_t>(rows) * in_row);
    weight = take(static_cast<size_t>(columns) * in_row);
    bias = take(static_cast<size_t>(columns) * element);
    out = at;
    fill_random(in, key.in, rows * depth, 1, 1, stream);
    fill_random(weight, key.in, columns * depth, 2, 1, stream);
    fill_random(bias, key.out, columns, 3, 1, stream);
    // Far apart, in the slice whose results are looked at.
    const int64_t first = (slices - 1) * key.k + key.k / 8;
    const int64_t last = slices * key.k - 1 - key.k / 8;
    for (const int64_t column : {first, last}) {
      write_column(in, in_row, key.in, rows, column, kLargeTerm, stream);
      write_column(weight, in_row, key.in, columns, column,
                   column == first ? kLargeTerm : -kLargeTerm, stream);
    }
  }
  /// True when there is room for operands that can show a difference.
  [[nodiscard]] bool has_room() const {
    return rows >= kRowTrials[2] && columns >= kColumnTrials[1];
  }

 private:
  static constexpr size_t kGaps = 4 * memory::Arena::kAlignment;
};

void Products::prove(Product& product, std::span<std::byte> scratch) {
  product.proven = true;
  const PinTrial trial(product.key, scratch, stream_);
  std::erase_if(product.pinned,
                [&](const Algorithm& algorithm) { return !keeps_bits(product, algorithm, trial); });
}

// The first and the last row, and column, of each trial against the same alone or beside few.
bool Products::keeps_bits(Product& product, const Algorithm& algorithm, const PinTrial& trial) {
  struct Part {
    int64_t first, count;
  };
  if (!trial.has_room()) return false;
  const bool with_bias = (product.key.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  // The product of some rows with some columns: its element of the last slice at (row, column).
  const auto compute = [&](const Part& rows, const Part& columns, const Part& wanted) {
    const Call call{.weight = trial.weight + static_cast<size_t>(columns.first) * trial.in_row,
                    .in = trial.in + static_cast<size_t>(rows.first) * trial.in_row,
                    .out = trial.out,
                    .bias = with_bias
                                ? trial.bias + static_cast<size_t>(columns.first) * trial.element
                                : nullptr,
                    .rows = rows.count,
                    .columns = columns.count,
                    .weight_stride = trial.depth,
                    .in_stride = trial.depth,
                    .out_stride = columns.count,
                    .slices = trial.slices};
    std::vector<std::byte> found(static_cast<size_t>(wanted.count) * trial.element);
    if (launch(product, algorithm, call) != CUBLAS_STATUS_SUCCESS) found.clear();
    const int64_t last = (trial.slices - 1) * rows.count * columns.count;
    copy_to_host(found.data(), trial.out + static_cast<size_t>(last + wanted.first) * trial.element,
                 found.size(), stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return found;
  };
  const auto keeps = [](const std::vector<std::byte>& alone, const std::vector<std::byte>& among) {
    return !alone.empty() && alone == among;
  };
  const Part few{0, kFewColumns};
  for (const int64_t count : kRowTrials) {
    if (count > trial.rows) break;
    for (const int64_t row : {int64_t{0}, count - 1}) {
      const auto alone = compute({row, 1}, few, {0, kFewColumns});
      if (!keeps(alone, compute({0, count}, few, {row * kFewColumns, kFewColumns}))) return false;
    }
  }
  for (const int64_t count : kColumnTrials) {
    if (count > trial.columns) break;
    // Compares the last row, where the few columns lie in a narrow result and in the wide one.
    for (const int64_t first : {int64_t{0}, (count - kFewColumns) / 8 * 8}) {
      const auto alone =
          compute({0, kFewRows}, {first, kFewColumns}, {(kFewRows - 1) * kFewColumns, kFewColumns});
      const auto among =
          compute({0, kFewRows}, {0, count}, {(kFewRows - 1) * count + first, kFewColumns});
      if (!keeps(alone, among)) return false;
    }
  }
  return true;
}

}  // namespace plimsoll::kernels
