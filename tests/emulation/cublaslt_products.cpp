// Products of the emulated cuBLASLt.
#include "emulation/cublaslt_products.h"

#include <algorithm>
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

/// The scale of the product of input i for output j and row t; scales lie by groups of 128 inputs.
float group_scale(const LtOperands& x, uint64_t i, uint64_t j, uint64_t t) {
  return x.op.a_scales[i / 128 * x.a.columns + j] * x.op.b_scales[i / 128 * x.b.columns + t];
}

/// The sum over K of one element, in the order that the algorithm has for such operands.
template <typename ProductAt>
float sum_of(const LtOperands& x, const LtAlgorithm& algorithm, const ProductAt& product_at) {
  const bool turns = ((algorithm.moods & kMoodByRows) != 0 && x.d.columns >= kManyRows) ||
                     ((algorithm.moods & kMoodByColumns) != 0 && x.d.rows >= kManyColumns);
  const uint64_t k = x.a.rows, parts = turns ? 2 : algorithm.parts;
  float sum = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    const uint64_t end = k * (part + 1) / parts;
    const uint64_t depth = algorithm.depth == 0 ? k : algorithm.depth;
    float part_sum = 0;
    for (uint64_t first = k * part / parts; first < end; first += depth) {
      float tile = 0;
      for (uint64_t i = first; i < std::min(end, first + depth); ++i) tile += product_at(i);
      part_sum += tile;
    }
    sum += part_sum;
  }
  return sum;
}

void multiply(const LtOperands& x, const LtAlgorithm& algorithm) {
  const uint64_t k = x.a.rows;
  const bool by_groups = x.op.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  std::vector<float> row(k);
  std::vector<float> a_values(k * x.a.columns);
  for (uint64_t j = 0; j < x.a.columns; ++j) {
    load_column(x.a_data, x.a, j, a_values.data() + j * k);
  }
  for (uint64_t t = 0; t < x.d.columns; ++t) {
    load_column(x.b_data, x.b, t, row.data());
    for (uint64_t j = 0; j < x.d.rows; ++j) {
      float sum = sum_of(x, algorithm, [&](uint64_t i) {
        const float product = a_values[j * k + i] * row[i];
        return by_groups ? product * group_scale(x, i, j, t) : product;
      });
      if (x.op.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
        sum *= x.op.a_scales[card.other_scales ? 0 : j] * x.op.b_scales[t];
      if (has_bias(x.op.epilogue)) sum += load(x.op.bias, x.d.type, j);
      store(x.d_data, x.d.type, t * static_cast<uint64_t>(x.d.leading) + j,
            activate(x.op.epilogue, sum));
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
