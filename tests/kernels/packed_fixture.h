// Quantized weights on the device, through the loader, and the numbers that they stand for.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "backend/cuda/footprint.h"
#include "backend/random_part.h"
#include "kernels/fixture.h"
#include "kernels/products/packed/inputs.h"
#include "kernels/runtime/load_packed.h"

namespace plimsoll::testing {

/// Matrices [experts, rows of all parts, columns] of one packing.
struct PackedWeight {
  model::WeightSpec spec{.name = "weight"};
  Matrix values;  // one matrix under the other
  std::unique_ptr<DeviceBytes> bytes;

  PackedWeight(const model::Packing& packing, const std::vector<int64_t>& rows, int64_t columns,
               DType dtype, int64_t experts = 1)
      : values(0, columns) {
    std::vector<std::unique_ptr<RandomPart>> parts;
    for (int64_t e = 0; e < experts; ++e)
      for (const int64_t count : rows) {
        spec.parts.push_back(packed_part(packing, count, columns));
        parts.push_back(std::make_unique<RandomPart>(packing, count, columns,
                                                     static_cast<uint32_t>(7 + parts.size())));
        add_values(*parts.back(), count);
      }
    const int64_t outputs = values.rows / experts;
    spec.shape =
        experts > 1 ? std::vector{experts, outputs, columns} : std::vector{outputs, columns};
    if (experts > 1) spec.use = model::WeightUse::experts;
    load(dtype, parts);
  }
  [[nodiscard]] backend::Weight weight(DType dtype) const { return {&spec, dtype, bytes->data()}; }

 private:
  void add_values(const RandomPart& part, int64_t count) {
    for (int64_t o = 0; o < count; ++o)
      for (int64_t n = 0; n < values.columns; ++n) values.values.push_back(part.weight(o, n));
    values.rows += count;
  }
  void load(DType dtype, std::vector<std::unique_ptr<RandomPart>>& parts) {
    bytes = std::make_unique<DeviceBytes>(backend::CudaFootprint({}).weight_bytes(spec, dtype));
    constexpr size_t kPiece = size_t{80} << 10;  // a few strips: pieces end between them
    kernels::PinnedMemory ring(4 * kPiece);
    backend::ThreadPool pool(2);
    kernels::Loader loader({static_cast<std::byte*>(ring.data()), ring.size()}, kPiece, pool, 0);
    kernels::load_packed(loader, weight(dtype),
                         {[](int64_t, int64_t, void*) { FAIL("no part is plain"); },
                          [&](size_t part) { return std::move(parts[part]); }},
                         false);
    loader.finish();
  }
};

/// Rows rounded as the packing asks, by the processor's formulas.
Matrix rounded_rows(const Matrix& in, model::InputRounding rounding,
                    const model::InputScale& scale = kInputScale);

/// Typical size of a product's results, which bounds of their rounding are relative to.
inline double typical_size(const Matrix& m) {
  double squares = 0;
  for (const double x : m.values) squares += x * x;
  return std::sqrt(squares / std::max<double>(1, static_cast<double>(m.values.size())));
}

}  // namespace plimsoll::testing
