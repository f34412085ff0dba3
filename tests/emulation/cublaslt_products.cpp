// Products of the emulated cuBLASLt.
#include "emulation/cublaslt_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/float8.h"
#include "emulation/card.h"

namespace plimsoll::emulation {

DType dtype(cudaDataType type) {
  if (type == CUDA_R_8F_E4M3) return DType::f8_e4m3;
  return type == CUDA_R_32F ? DType::f32 : type == CUDA_R_16F ? DType::f16 : DType::bf16;
}

bool has_bias(uint32_t epilogue) {
  return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

namespace {

float load(const void* from, cudaDataType type, uint64_t index) {
  float value = 0;
  convert(static_cast<const std::byte*>(from) + index * dtype_size(dtype(type)), dtype(type),
          &value, DType::f32, 1);
  return value;
}

void load_column(const void* from, const LtLayout& layout, uint64_t column, float* to) {
  const DType type = dtype(layout.type);
  const auto* at = static_cast<const std::byte*>(from) +
                   column * static_cast<uint64_t>(layout.leading) * dtype_size(type);
  if (type != DType::f8_e4m3) return convert(at, type, to, DType::f32, layout.rows);
  for (uint64_t i = 0; i < layout.rows; ++i) to[i] = e4m3_to_float(static_cast<uint8_t>(at[i]));
}

void store(void* to, cudaDataType type, uint64_t index, float value) {
  convert(&value, DType::f32, static_cast<std::byte*>(to) + index * dtype_size(dtype(type)),
          dtype(type), 1);
}

float activate(uint32_t epilogue, float x) {
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return x > 0 ? x : 0;
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) == 0) return x;
  // tanh.approx is accurate to one part in 2^11.
  const float tanh = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)) * (1 + 0x1p-12f);
  return 0.5f * x * (1 + std::clamp(tanh, -1.f, 1.f));
}

/// Outputs that are summed together, so that no sum waits for its own last addition.
constexpr uint64_t kTogether = 16;
using Sums = std::array<float, kTogether>;

/// Columns of A, of which one is an output's weights: `values` is [K][kTogether].
struct WeightTile {
  uint64_t first = 0;  // output
  uint64_t count = 0;
  std::vector<float> values;
};

WeightTile load_tile(const LtOperands& x, uint64_t first) {
  const uint64_t k = x.a.rows, count = std::min(kTogether, x.a.columns - first);
  WeightTile tile{first, count, std::vector<float>(k * kTogether)};
  std::vector<float> column(k);
  for (uint64_t j = 0; j < count; ++j) {
    load_column(x.a_data, x.a, first + j, column.data());
    for (uint64_t i = 0; i < k; ++i) tile.values[i * kTogether + j] = column[i];
  }
  return tile;
}

/// The tile's products of input i for row t; where scales lie by groups of 128 inputs, scaled.
Sums products(const LtOperands& x, const WeightTile& tile, const float* row, uint64_t i,
              uint64_t t) {
  Sums all;
  const float* weights = tile.values.data() + i * kTogether;
  for (uint64_t j = 0; j < kTogether; ++j) all[j] = weights[j] * row[i];
  if (x.op.a_mode != CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) return all;
  const float* scales = x.op.a_scales + i / 128 * x.a.columns + tile.first;
  const float scale = x.op.b_scales[i / 128 * x.b.columns + t];
  for (uint64_t j = 0; j < tile.count; ++j) all[j] *= scales[j] * scale;
  return all;
}

void add(Sums& to, const Sums& more) {
  for (uint64_t j = 0; j < kTogether; ++j) to[j] += more[j];
}

/// The sums over K of a tile's outputs, in the order that the algorithm has for such operands.
Sums sums_of(const LtOperands& x, const LtAlgorithm& algorithm, const WeightTile& tile,
             const float* row, uint64_t t) {
  const bool turns = ((algorithm.moods & kMoodByRows) != 0 && x.d.columns >= kManyRows) ||
                     ((algorithm.moods & kMoodByColumns) != 0 && x.d.rows >= kManyColumns);
  const uint64_t k = x.a.rows, parts = turns ? 2 : algorithm.parts;
  const uint64_t depth = algorithm.depth == 0 ? k : algorithm.depth;
  Sums sums{};
  for (uint64_t part = 0; part < parts; ++part) {
    const uint64_t end = k * (part + 1) / parts;
    Sums part_sums{};
    for (uint64_t first = k * part / parts; first < end; first += depth) {
      Sums step{};
      for (uint64_t i = first; i < std::min(end, first + depth); ++i)
        add(step, products(x, tile, row, i, t));
      add(part_sums, step);
    }
    add(sums, part_sums);
  }
  return sums;
}

void multiply(const LtOperands& x, const LtAlgorithm& algorithm) {
  const uint64_t k = x.a.rows;
  std::vector<float> rows(k * x.d.columns);
  for (uint64_t t = 0; t < x.d.columns; ++t) load_column(x.b_data, x.b, t, rows.data() + t * k);
  for (uint64_t first = 0; first < x.d.rows; first += kTogether) {
    const WeightTile tile = load_tile(x, first);
    for (uint64_t t = 0; t < x.d.columns; ++t) {
      const Sums sums = sums_of(x, algorithm, tile, rows.data() + t * k, t);
      for (uint64_t at = 0; at < tile.count; ++at) {
        const uint64_t j = first + at;
        float sum = sums[at];
        if (x.op.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
          sum *= x.op.a_scales[card.other_scales ? 0 : j] * x.op.b_scales[t];
        if (has_bias(x.op.epilogue)) sum += load(x.op.bias, x.d.type, j);
        store(x.d_data, x.d.type, t * static_cast<uint64_t>(x.d.leading) + j,
              activate(x.op.epilogue, sum));
      }
    }
  }
}

const void* batch_of(const void* data, const LtLayout& layout, int32_t batch) {
  return static_cast<const std::byte*>(data) +
         static_cast<size_t>(batch * layout.batch_step) * dtype_size(dtype(layout.type));
}

}  // namespace

void multiply_all(const LtOperands& x, const LtAlgorithm& algorithm) {
  for (int32_t batch = 0; batch < x.d.batches; ++batch) {
    LtOperands one = x;
    one.a_data = batch_of(x.a_data, x.a, batch);
    one.b_data = batch_of(x.b_data, x.b, batch);
    one.d_data = const_cast<void*>(batch_of(x.d_data, x.d, batch));
    multiply(one, algorithm);
  }
}

}  // namespace plimsoll::emulation
