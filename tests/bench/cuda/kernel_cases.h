// Helpers for the cases of kernels.cpp: memory, inputs and lines of results.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "backend/cuda/footprint.h"
#include "backend/random_rows.h"
#include "bench/cuda/roofs.h"
#include "kernels/products/packed/inputs.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/load_packed.h"

namespace plimsoll::testing {

using backend::View;

inline constexpr int kRepeats = 50;

/// Memory of which successive calls use one part after the other, so that none finds its data in
/// the caches.
class Ring {
 public:
  explicit Ring(const kernels::DeviceMemory& memory) : memory_(memory) {}
  View take(int64_t rows, int64_t columns, DType dtype) {
    const size_t bytes =
        (static_cast<size_t>(rows * columns) * dtype_size(dtype) + 255) / 256 * 256;
    if (at_ + bytes > memory_.size()) at_ = 0;
    void* data = static_cast<std::byte*>(memory_.data()) + at_;
    at_ += bytes;
    return {data, dtype, rows, columns, columns};
  }

 private:
  const kernels::DeviceMemory& memory_;
  size_t at_ = 0;
};

/// Prints a line for each case whose name holds the filter.
class Table {
 public:
  Table(cudaStream_t stream, double read_rate, std::string_view filter)
      : stream_(stream), read_rate_(read_rate), filter_(filter) {}
  [[nodiscard]] bool wants(const std::string& name) const {
    return name.find(filter_) != std::string::npos;
  }
  void row(const std::string& name, double bytes, const std::function<void()>& work) const {
    if (!wants(name)) return;
    const double seconds = seconds_of(stream_, kRepeats, work);
    fmt::print("{:40} {:9.1f} us {:8.0f} GB/s {:6.1f} %\n", name, seconds * 1e6,
               bytes / seconds / 1e9, 100 * bytes / seconds / read_rate_);
    std::fflush(stdout);
  }

 private:
  cudaStream_t stream_;
  double read_rate_;
  std::string_view filter_;
};

inline double bytes_of(const View& view) {
  return double(view.rows) * double(view.columns) * double(dtype_size(view.dtype));
}

/// A quantized matrix in so many copies that no cache holds the next one.
class PackedCopies {
 public:
  PackedCopies(const model::Packing& packing, int64_t n, int64_t k) : spec_{.name = "w"} {
    spec_.shape = {n, k};
    spec_.parts = {{.tensor = "w", .stored_shape = {n, k}, .block_rows = n, .block_stride = n}};
    spec_.parts[0].packing = packing;
    bytes_ = backend::CudaFootprint({}).weight_bytes(spec_, DType::bf16);
    copies_ = (size_t{256} << 20) / bytes_ + 1;
    memory_.emplace(copies_ * bytes_);
    load();
    for (size_t i = 1; i < copies_; ++i)
      kernels::check(cudaMemcpy(at(i), at(0), bytes_, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    kernels::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(bytes_); }
  kernels::PackedPart next() {
    const backend::Segments segments = backend::cuda::packed_segments(spec_, DType::bf16, 0);
    return kernels::packed_part(spec_, at(turn_++ % copies_), segments, segments.parts[0]);
  }

 private:
  [[nodiscard]] std::byte* at(size_t i) const {
    return static_cast<std::byte*>(memory_->data()) + i * bytes_;
  }
  void load() {
    backend::ThreadPool pool(8);
    kernels::PinnedMemory ring(backend::kLoadRingBytes);
    kernels::Loader loader({static_cast<std::byte*>(ring.data()), ring.size()},
                           backend::kLoadPieceBytes, pool, 0);
    kernels::load_packed(loader, {&spec_, DType::bf16, at(0)},
                         {[](int64_t, int64_t, void*) {},
                          [&](size_t) {
                            return backend::random_rows(*spec_.parts[0].packing, spec_.columns(), 1,
                                                        0.02f);
                          }},
                         false);
    loader.finish();
  }

  model::WeightSpec spec_;
  size_t bytes_ = 0, copies_ = 1, turn_ = 0;
  std::optional<kernels::DeviceMemory> memory_;
};

template <typename T>
class Uploaded {
 public:
  explicit Uploaded(const std::vector<T>& values) : memory_(values.size() * sizeof(T)) {
    kernels::check(
        cudaMemcpy(memory_.data(), values.data(), memory_.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    // The stream of the kernels does not wait for it.
    kernels::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  kernels::DeviceMemory memory_;
};

/// Sequences that continue by `rows` rows each, as kernels of recurrent mixers see them.
class Mixing {
 public:
  Mixing(int64_t sequences, int64_t rows, int64_t state_floats)
      : stride_(state_floats),
        positions_(counted(sequences * rows, [](int32_t) { return 5; })),
        row_sequence_(counted(sequences * rows, [&](int32_t i) { return i / int32_t(rows); })),
        query_start_(counted(sequences + 1, [&](int32_t i) { return i * int32_t(rows); })),
        context_(counted(sequences, [&](int32_t) { return int32_t(rows) + 5; })),
        slots_(counted(sequences, [](int32_t i) { return i; })) {
    batch = {.positions = positions_.data(),
             .row_sequence = row_sequence_.data(),
             .query_start = query_start_.data(),
             .context_length = context_.data(),
             .state_slots = slots_.data(),
             .rows = sequences * rows,
             .sequences = sequences};
  }
  [[nodiscard]] double state_bytes() const { return 4 * double(batch.sequences * stride_); }
  [[nodiscard]] backend::StateLayer states(Ring& ring) const {
    return {static_cast<std::byte*>(ring.take(batch.sequences, stride_, DType::f32).data),
            static_cast<size_t>(stride_) * sizeof(float), 0};
  }

  kernels::DeviceBatch batch;

 private:
  template <typename F>
  static std::vector<int32_t> counted(int64_t count, F f) {
    std::vector<int32_t> values;
    for (int32_t i = 0; i < count; ++i) values.push_back(f(i));
    return values;
  }
  int64_t stride_;
  Uploaded<int32_t> positions_, row_sequence_, query_start_, context_, slots_;
};

}  // namespace plimsoll::testing
