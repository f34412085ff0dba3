// Helpers for the tests of the CPU backend: backends of every instruction set, random rows and
// weights, comparison with the reference.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/tiles/twin_products.h"
#include "reference/ops.h"

namespace plimsoll::testing {

namespace ops = backend::ops;
using backend::CpuIsa;
using reference::Matrix;

/// Instruction sets that this processor has.
inline std::vector<CpuIsa> isas() {
  std::vector<CpuIsa> all;
  for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512bf16})
    if (backend::has_isa(isa)) all.push_back(isa);
  return all;
}

/// A processor for products: an instruction set, and tiles beside it by a twin (tiles/tile_twin.h).
struct Processor {
  CpuIsa isa;
  bool twin = false;

  Processor(CpuIsa set, bool has_twin = false) : isa(set), twin(has_twin) {}
  [[nodiscard]] std::string name() const {
    return std::string(backend::isa_name(isa)) + (twin ? " with tiles" : "");
  }
  [[nodiscard]] backend::CpuOptions options(int threads) const {
    if (twin) return with_twin_of_tiles({isa, threads});
    return {isa, threads};
  }
};

inline std::vector<Processor> processors() {
  const std::vector<CpuIsa> sets = isas();
  std::vector<Processor> all(sets.begin(), sets.end());
  if (can_run_twin_of_tiles()) all.emplace_back(CpuIsa::avx512, true);
  return all;
}

/// A backend with scratch for small ops.
class CpuFixture {
 public:
  CpuFixture(const Processor& processor, int threads)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(kScratch)),
        arena_(memory::Arena::placing(memory_.get(), kScratch)),
        backend_(backend::make_cpu_backend(processor.options(threads))) {
    backend_->use_scratch(arena_);
  }
  backend::Backend* operator->() { return backend_.get(); }
  backend::Backend& operator*() { return *backend_; }

 private:
  static constexpr size_t kScratch = size_t{16} << 20;
  std::unique_ptr<std::byte[]> memory_;
  memory::Arena arena_;
  std::unique_ptr<backend::Backend> backend_;
};

/// Rows of floats that start at an odd address and keep a gap between rows.
class Rows {
 public:
  Rows(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), values_(static_cast<size_t>(rows * (columns + 3) + 1)) {}
  static Rows random(int64_t rows, int64_t columns, uint32_t seed, double size = 1) {
    Rows result(rows, columns);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, size);
    for (float& x : result.values_) x = static_cast<float>(normal(random));
    return result;
  }

  operator backend::View() {
    return {values_.data() + 1, DType::f32, rows_, columns_, columns_ + 3};
  }
  [[nodiscard]] int64_t columns() const { return columns_; }
  [[nodiscard]] int64_t count() const { return rows_; }
  float* row(int64_t r) { return values_.data() + 1 + r * (columns_ + 3); }
  [[nodiscard]] const float* row(int64_t r) const {
    return values_.data() + 1 + r * (columns_ + 3);
  }
  [[nodiscard]] Matrix matrix() const {
    Matrix m(rows_, columns_);
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) m.at(r, c) = double(row(r)[c]);
    return m;
  }
  [[nodiscard]] bool same_bits(int64_t r, const Rows& other, int64_t other_row) const {
    return std::memcmp(row(r), other.row(other_row),
                       static_cast<size_t>(columns_) * sizeof(float)) == 0;
  }

 private:
  int64_t rows_, columns_;
  std::vector<float> values_;
};

/// A random weight loaded into a backend, and its values as the run dtype holds them.
class LoadedWeight {
 public:
  LoadedWeight(backend::Backend& backend, std::vector<int64_t> shape, model::WeightUse use,
               DType dtype, uint32_t seed, double size = 1)
      : spec_{.name = "weight", .shape = std::move(shape), .use = use},
        values(spec_.matrices() * spec_.rows(), spec_.columns()),
        storage_(backend.footprint().weight_bytes(spec_, dtype), std::byte{0xff}) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, size);
    std::vector<double> exact(static_cast<size_t>(spec_.elements()));
    for (double& x : exact) x = normal(random);
    std::vector<std::byte> stored(exact.size() * dtype_size(dtype));
    convert(exact.data(), DType::f64, stored.data(), dtype, exact.size());
    convert(stored.data(), dtype, values.values.data(), DType::f64, exact.size());
    const size_t row = static_cast<size_t>(spec_.columns()) * dtype_size(dtype);
    weight = backend.load_weight(spec_, dtype, storage_.data(),
                                 [&](int64_t first, int64_t count, void* to) {
                                   std::memcpy(to, stored.data() + static_cast<size_t>(first) * row,
                                               static_cast<size_t>(count) * row);
                                 });
  }
  LoadedWeight(const LoadedWeight&) = delete;
  LoadedWeight& operator=(const LoadedWeight&) = delete;

 private:
  model::WeightSpec spec_;

 public:
  Matrix values;  // all matrices stacked
  backend::Weight weight;

 private:
  std::vector<std::byte> storage_;
};

/// ||a - b|| / ||b|| over all elements.
inline double distance(const Matrix& a, const Matrix& b) {
  REQUIRE(a.values.size() == b.values.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    difference += std::pow(a.values[i] - b.values[i], 2);
    size += b.values[i] * b.values[i];
  }
  return std::sqrt(difference / std::max(size, 1e-300));
}

}  // namespace plimsoll::testing
