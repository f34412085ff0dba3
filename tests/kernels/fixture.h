// Helpers for the tests of kernels: memory on the device (or in the emulator), between zones that
// must not change, random rows, comparison with the reference. The same sources are built for the
// emulator (test_kernels) and for a device (test_kernels_device).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "like_cases.h"
#include "reference/ops.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#include "emulation/emulator.h"
#include "kernels/runtime/launch.h"
#endif

namespace plimsoll::testing {

using backend::View;
using reference::Matrix;

inline void require(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

#ifdef PLIMSOLL_EMULATION
/// Makes the emulator imitate another card while the object lives.
class OnCard {
 public:
  explicit OnCard(const emulation::Card& card) : before_(std::exchange(emulation::card, card)) {
    kernels::allow_overlap(kernels::Overlap::yes);  // what was known of kernels is forgotten
  }
  ~OnCard() {
    cudaDeviceSynchronize();
    emulation::card = before_;
    kernels::allow_overlap(kernels::Overlap::yes);
  }
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;

 private:
  emulation::Card before_;
};
#endif

/// Calls `test` once on a device. In the emulator once with threads and blocks taking turns forward
/// and once backward, where a missing barrier shows in one of the two, and once with kernels that
/// start before the kernels ahead have run.
template <typename F>
void in_each_order(F test) {
#ifdef PLIMSOLL_EMULATION
  static size_t turn = 0;  // where one is taken, by turns
  if (is_taken(++turn, 3)) {
    INFO("overlapped");
    const OnCard hopper(emulation::kHopper);
    test();
  }
  for (const auto order : {emulation::Order::forward, emulation::Order::backward}) {
    if (!is_taken(turn + (order == emulation::Order::forward ? 1 : 2), 3)) continue;
    INFO("order " << (order == emulation::Order::forward ? "forward" : "backward"));
    emulation::set_order(order);
    test();
  }
  emulation::set_order(emulation::Order::forward);
#else
  test();
#endif
}

/// Bytes on the device that start as 0xff (NaN in all types), `skew` bytes behind an address that
/// is aligned to 256.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes, size_t skew = 0) : bytes_(bytes), skew_(skew) {
    require(cudaMalloc(&memory_, bytes + skew + 2 * kGuard));
    std::vector<unsigned char> fill(bytes + skew + 2 * kGuard, kCanary);
    std::fill_n(fill.begin() + static_cast<ptrdiff_t>(kGuard + skew), bytes, 0xff);
    require(cudaMemcpy(memory_, fill.data(), fill.size(), cudaMemcpyHostToDevice));
    require(cudaDeviceSynchronize());
  }
  ~DeviceBytes() {
    std::vector<unsigned char> now(bytes_ + skew_ + 2 * kGuard);
    CHECK(cudaMemcpy(now.data(), memory_, now.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    bool intact = true;
    for (size_t i = 0; i < now.size(); ++i)
      if (i < kGuard + skew_ || i >= kGuard + skew_ + bytes_) intact = intact && now[i] == kCanary;
    CHECK(intact);  // nothing was written beside the bytes
    CHECK(cudaFree(memory_) == cudaSuccess);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  [[nodiscard]] void* data() const { return static_cast<unsigned char*>(memory_) + kGuard + skew_; }
  [[nodiscard]] size_t size() const { return bytes_; }
  void upload(const void* from) {
    if (bytes_ == 0) return;
    require(cudaMemcpy(data(), from, bytes_, cudaMemcpyHostToDevice));
    require(cudaDeviceSynchronize());  // tests run in streams that would not wait for it
  }
  void download(void* to) const {
    if (bytes_ > 0) require(cudaMemcpy(to, data(), bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kCanary = 0xa5;
  void* memory_ = nullptr;
  size_t bytes_;
  size_t skew_;
};

/// An array on the device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values)
      : count_(values.size()), bytes_(values.size() * sizeof(T)) {
    bytes_.upload(values.data());
  }
  explicit DeviceArray(size_t count) : count_(count), bytes_(count * sizeof(T)) {}
  [[nodiscard]] T* data() const { return static_cast<T*>(bytes_.data()); }
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> values(count_);
    bytes_.download(values.data());
    return values;
  }

 private:
  size_t count_;
  DeviceBytes bytes_;
};

/// How rows lie in memory.
struct Layout {
  int64_t gap = 0;   // elements from the end of a row to the next
  int64_t skew = 0;  // elements by which the first row misses its alignment
};
inline constexpr Layout kAligned{};
inline constexpr Layout kOdd{.gap = 3, .skew = 1};

/// A value rounded to the type and back.
inline double rounded(double value, DType dtype) {
  std::byte bits[8];
  convert(&value, DType::f64, bits, dtype, 1);
  double result = 0;
  convert(bits, dtype, &result, DType::f64, 1);
  return result;
}

/// Half the distance from 1 to the next number of a type: the relative error of rounding once.
inline double epsilon(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

/// Rows on the device; gaps between them must not change.
class DeviceRows {
 public:
  DeviceRows(int64_t rows, int64_t columns, DType dtype, Layout layout = kAligned)
      : rows_(rows),
        columns_(columns),
        stride_(columns + layout.gap),
        dtype_(dtype),
        bytes_(static_cast<size_t>(rows * stride_) * dtype_size(dtype),
               static_cast<size_t>(layout.skew) * dtype_size(dtype)) {}
  DeviceRows(const Matrix& values, DType dtype, Layout layout = kAligned)
      : DeviceRows(values.rows, values.columns, dtype, layout) {
    upload(values);
  }

  [[nodiscard]] View view() const { return {bytes_.data(), dtype_, rows_, columns_, stride_}; }
  void upload(const Matrix& values) {
    std::vector<std::byte> stored(bytes_.size(), std::byte{0xff});
    for (int64_t r = 0; r < rows_; ++r)
      convert(values.values.data() + r * columns_, DType::f64, stored.data() + offset(r), dtype_,
              static_cast<size_t>(columns_));
    bytes_.upload(stored.data());
  }
  [[nodiscard]] Matrix matrix() const {
    std::vector<std::byte> stored(bytes_.size());
    bytes_.download(stored.data());
    Matrix values(rows_, columns_);
    for (int64_t r = 0; r < rows_; ++r) {
      convert(stored.data() + offset(r), dtype_, values.values.data() + r * columns_, DType::f64,
              static_cast<size_t>(columns_));
      const size_t end = offset(r) + static_cast<size_t>(columns_) * dtype_size(dtype_);
      const size_t next = offset(r + 1);
      CHECK(std::all_of(stored.begin() + static_cast<ptrdiff_t>(end),
                        stored.begin() + static_cast<ptrdiff_t>(next),
                        [](std::byte b) { return b == std::byte{0xff}; }));
    }
    return values;
  }

 private:
  [[nodiscard]] size_t offset(int64_t row) const {
    return static_cast<size_t>(row * stride_) * dtype_size(dtype_);
  }
  int64_t rows_, columns_, stride_;
  DType dtype_;
  DeviceBytes bytes_;
};

/// Normal numbers that the type can hold.
inline Matrix random_matrix(int64_t rows, int64_t columns, DType dtype, uint32_t seed,
                            double size = 1) {
  Matrix values(rows, columns);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, size);
  for (double& x : values.values) x = rounded(normal(random), dtype);
  return values;
}

inline Matrix slice_rows(const Matrix& from, int64_t first, int64_t rows) {
  Matrix slice(rows, from.columns);
  std::copy_n(from.values.begin() + first * from.columns, rows * from.columns,
              slice.values.begin());
  return slice;
}

/// The largest |a - b| / (|b| + `floor`).
inline double largest_error(const Matrix& a, const Matrix& b, double floor) {
  REQUIRE(a.values.size() == b.values.size());
  double worst = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double error = std::abs(a.values[i] - b.values[i]) / (std::abs(b.values[i]) + floor);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

inline constexpr DType kActivationTypes[] = {DType::bf16, DType::f16, DType::f32};

/// The default stream; results are read by copies that wait for it.
#ifdef PLIMSOLL_EMULATION
inline constexpr cudaStream_t kStream = nullptr;
#else
/// The default stream that can be recorded.
inline const cudaStream_t kStream = cudaStreamPerThread;
#endif

}  // namespace plimsoll::testing
