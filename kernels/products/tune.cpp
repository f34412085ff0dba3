// Products by the clock, and, where one algorithm is to serve all row counts, by its bits.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/products/product.h"
#include "kernels/rows/random.h"
#include "kernels/runtime/cuda_error.h"
#include "memory/arena.h"

namespace plimsoll::kernels {
namespace {

constexpr size_t kTimed = 4;  // of the heuristic's candidates
/// Row counts over which a row must keep its bits: one, an odd few, a tile, several, many.
constexpr std::array<int64_t, 5> kTrials{1, 7, 64, 256, 2048};

}  // namespace

/// Operands for trials in somebody's scratch: rows of random numbers, for clocks and bits depend on
/// them, and room for as many results.
struct Products::Trial {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t rows = 0;  // that find room

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
            .in_stride = key.k,
            .out_stride = key.n};
  const bool timed_here = call.rows <= trial.rows && !key.alike;
  // What is chosen must do all row counts of its bucket.
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

// Of launches over the weights of this shape in turn.
double Products::time(Product& product, const Algorithm& algorithm, Call call) {
  size_t turn = 0;
  return watch_.seconds([&] {
    call.weight = product.weights[turn++ % product.weights.size()];
    return launch(product, algorithm, call) == CUBLAS_STATUS_SUCCESS;
  });
}

void Products::prove(Product& product, std::span<std::byte> scratch) {
  product.proven = true;
  const Trial trial(product.key, scratch, kTrials.back(), stream_);
  std::erase_if(product.pinned,
                [&](const Algorithm& algorithm) { return !keeps_bits(product, algorithm, trial); });
}

// The first and the last row of each trial against the same row alone.
bool Products::keeps_bits(Product& product, const Algorithm& algorithm, const Trial& trial) {
  const Key& key = product.key;
  const size_t in_row = static_cast<size_t>(key.k) * dtype_size(key.in);
  const size_t out_row = static_cast<size_t>(key.n) * dtype_size(key.out);
  std::vector<std::byte> alone(out_row), among(out_row);
  // Row `wanted` of the product of rows [first, first + count).
  const auto compute = [&](int64_t first, int64_t count, int64_t wanted, std::byte* to) {
    const Call call{.weight = product.weights.front(),
                    .in = trial.in + static_cast<size_t>(first) * in_row,
                    .out = trial.out,
                    .bias = product.bias,
                    .rows = count,
                    .in_stride = key.k,
                    .out_stride = key.n};
    if (launch(product, algorithm, call) != CUBLAS_STATUS_SUCCESS) return false;
    copy_to_host(to, trial.out + static_cast<size_t>(wanted - first) * out_row, out_row, stream_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return true;
  };
  for (const int64_t count : kTrials) {
    if (count > trial.rows) return count > kTrials[1];  // nothing is shown by one row alone
    for (const int64_t row : {int64_t{0}, count - 1}) {
      if (!compute(row, 1, row, alone.data()) || !compute(0, count, row, among.data()))
        return false;
      if (std::memcmp(alone.data(), among.data(), out_row) != 0) return false;
    }
  }
  return true;
}

}  // namespace plimsoll::kernels
