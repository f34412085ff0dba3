// Loading and packing of weights, and gathering from tables.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"

namespace plimsoll::backend {
namespace {

/// Rows read at a time into temporary memory of at most about this many bytes for each thread.
constexpr int64_t kReadBytes = int64_t{1} << 20;

/// Writes up to 32 rows [rows, columns], row-major, as a strip.
template <typename Element, int kStep>
void pack_strip(const Element* from, int64_t rows, int64_t columns, Element* to) {
  constexpr int64_t kStepElements = kStrip * kStep;
  const int64_t steps = padded_columns(columns) / kStep;
  // A few steps at a time, so that what is written stays in the cache until its lines are full.
  constexpr int64_t kChunk = 64 / (kStep * static_cast<int64_t>(sizeof(Element)));
  for (int64_t first = 0; first < steps; first += kChunk) {
    const int64_t last = std::min(steps, first + kChunk);
    if (rows < kStrip || last * kStep > columns)
      std::fill(to + first * kStepElements, to + last * kStepElements, Element{});
    for (int64_t r = 0; r < rows; ++r) {
      const Element* row = from + r * columns;
      for (int64_t s = first; s < last; ++s)
        for (int64_t i = 0; i < kStep && s * kStep + i < columns; ++i)
          to[s * kStepElements + r * kStep + i] = row[s * kStep + i];
    }
  }
}

void pack_strip(const std::byte* from, int64_t rows, int64_t columns, DType dtype, std::byte* to) {
  if (dtype == DType::f32)
    return pack_strip<uint32_t, 1>(reinterpret_cast<const uint32_t*>(from), rows, columns,
                                   reinterpret_cast<uint32_t*>(to));
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  if (dtype == DType::bf16)
    return pack_strip<uint16_t, 2>(halves, rows, columns, reinterpret_cast<uint16_t*>(to));
  pack_strip<uint16_t, 1>(halves, rows, columns, reinterpret_cast<uint16_t*>(to));
}

/// Row `id` of a table packed as strips, as floats.
void gather_packed(const std::byte* table, DType dtype, int64_t columns, int64_t id, float* out) {
  const int64_t step = pair_step(dtype);
  const std::byte* strip = table + static_cast<size_t>(id / kStrip) * strip_bytes(columns, dtype);
  const size_t element = dtype_size(dtype);
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t at = (c / step * kStrip + id % kStrip) * step + c % step;
    convert(strip + static_cast<size_t>(at) * element, dtype, out + c, DType::f32, 1);
  }
}

}  // namespace

void CpuBackend::do_load_weight(const Weight& weight, const RowReader& read) {
  const model::WeightSpec& spec = *weight.spec;
  const int64_t rows = spec.rows();
  const int64_t columns = spec.columns();
  auto* to = static_cast<std::byte*>(weight.data);
  const size_t row_bytes = static_cast<size_t>(columns) * dtype_size(weight.dtype);
  if (spec.use == model::WeightUse::vector) {
    std::vector<std::byte> buffer(static_cast<size_t>(spec.elements()) * dtype_size(weight.dtype));
    read(0, rows, buffer.data());
    convert(buffer.data(), weight.dtype, to, DType::f32, static_cast<size_t>(spec.elements()));
    return;
  }
  const int64_t chunk = std::clamp<int64_t>(kReadBytes / static_cast<int64_t>(row_bytes), 1, 1024);
  if (spec.use == model::WeightUse::embedding) {
    pool_.run((rows + chunk - 1) / chunk, [&](int64_t task, int) {
      const int64_t first = task * chunk;
      read(first, std::min(chunk, rows - first), to + static_cast<size_t>(first) * row_bytes);
    });
    return;
  }
  const int64_t strips = round_up(rows, kStrip) / kStrip;
  const size_t bytes = strip_bytes(columns, weight.dtype);
  pool_.run(spec.matrices() * strips, [&](int64_t task, int) {
    const int64_t first = task % strips * kStrip;
    const int64_t count = std::min(kStrip, rows - first);
    // Plain memory, without the zeros that a vector would write first.
    const auto buffer =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(count) * row_bytes);
    read(task / strips * rows + first, count, buffer.get());
    pack_strip(buffer.get(), count, columns, weight.dtype, to + static_cast<size_t>(task) * bytes);
  });
}

void CpuBackend::do_embed(View out, const Weight& table, std::span<const int32_t> ids, float scale,
                          Store store) {
  const auto* from = static_cast<const std::byte*>(table.data);
  const bool packed = table.spec->use == model::WeightUse::linear;
  const int64_t width = table.spec->columns();
  const auto fill = [&](int32_t id, float* row) {
    if (packed)
      gather_packed(from, table.dtype, width, id, row);
    else
      convert(from + static_cast<size_t>(id * width) * dtype_size(table.dtype), table.dtype, row,
              DType::f32, static_cast<size_t>(width));
    if (scale != 1.f) kernels_.scale(row, scale, width);
  };
  for_rows(out.rows, out.columns, [&](int64_t t) {
    float* row = static_cast<float*>(out.data) + t * out.stride;
    const int32_t id = ids[static_cast<size_t>(t)];
    if (store == Store::overwrite) return fill(id, row);
    std::vector<float> addend(static_cast<size_t>(width));
    fill(id, addend.data());
    kernels_.add(row, addend.data(), width);
  });
}

void CpuBackend::do_gather_rows(View out, View in, std::span<const int32_t> rows) {
  for_rows(out.rows, out.columns, [&](int64_t i) {
    std::memcpy(static_cast<float*>(out.data) + i * out.stride,
                static_cast<const float*>(in.data) + rows[static_cast<size_t>(i)] * in.stride,
                static_cast<size_t>(out.columns) * sizeof(float));
  });
}

}  // namespace plimsoll::backend
