// Loading and packing of weights, and gathering from tables.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/packed_layout.h"
#include "base/ggml/decode.h"

namespace plimsoll::backend {
namespace {

/// Rows read at a time into temporary memory of at most about this many bytes for each thread.
constexpr int64_t kReadBytes = int64_t{1} << 20;

/// Writes `rows` rows of a strip, `row_bytes` apart, as [units][32]. A unit is what one row has in
/// one step.
template <typename Unit>
void interleave(const std::byte* from, int64_t rows, size_t row_bytes, int64_t units, Unit* to) {
  // A cache line of a row at a time: the lines written meanwhile stay in the cache until full.
  constexpr int64_t kLine = 64 / sizeof(Unit);
  std::array<Unit, kLine> line;
  for (int64_t first = 0; first < units; first += kLine) {
    const int64_t count = std::min(kLine, units - first);
    for (int64_t r = 0; r < rows; ++r) {
      const std::byte* at = from + r * row_bytes;
      if (count == kLine) {
        std::memcpy(line.data(), at + first * sizeof(Unit), sizeof line);
        for (int64_t i = 0; i < kLine; ++i) to[(first + i) * kStrip + r] = line[i];
      } else {
        for (int64_t i = first; i < units; ++i)
          std::memcpy(to + i * kStrip + r, at + i * sizeof(Unit), sizeof(Unit));
      }
    }
  }
}

/// Packs up to 32 rows [rows, columns], row-major, as a strip (layout.h).
void pack_strip(const std::byte* from, int64_t rows, int64_t columns, DType dtype, std::byte* to) {
  const size_t row_bytes = columns * dtype_size(dtype);
  if (rows < kStrip || columns % 2 != 0) std::memset(to, 0, strip_bytes(columns, dtype));
  if (dtype == DType::f16)
    return interleave(from, rows, row_bytes, columns, reinterpret_cast<uint16_t*>(to));
  const int64_t step = pair_step(dtype);
  interleave(from, rows, row_bytes, columns / step, reinterpret_cast<uint32_t*>(to));
  if (columns % step == 0) return;
  for (int64_t r = 0; r < rows; ++r)  // the first of the last pair
    std::memcpy(to + (columns / 2 * kStrip + r) * sizeof(uint32_t),
                from + (r + 1) * row_bytes - sizeof(uint16_t), sizeof(uint16_t));
}

/// Row `id` of a table packed as strips, row-major in the table's type.
void unpack_row(const std::byte* table, DType dtype, int64_t columns, int64_t id, std::byte* out) {
  const size_t unit = dtype_size(dtype) * pair_step(dtype);
  const std::byte* strip = table + id / kStrip * strip_bytes(columns, dtype);
  const std::byte* from = strip + id % kStrip * unit;
  const auto units = static_cast<size_t>(columns / pair_step(dtype));
  for (size_t i = 0; i < units; ++i) std::memcpy(out + i * unit, from + i * kStrip * unit, unit);
  if (columns % pair_step(dtype) != 0)  // the first of the last pair
    std::memcpy(out + units * unit, from + units * kStrip * unit, dtype_size(dtype));
}

/// The values of a row of a matrix from a GGUF file: its lane of a strip.
void decode_row(const model::Packing& packing, const PackedPart& layout, const std::byte* data,
                int64_t row, float* to) {
  const auto strip = static_cast<size_t>(row / kStrip);
  const int64_t lane = row % kStrip;
  const std::byte* from = data + layout.scales + strip * layout.strip_scales;
  if (packing.code == model::Code::none) {
    const int64_t size = model::scale_bytes(packing.scale);
    for (int64_t k = 0; k < layout.columns; ++k)
      convert(from + (k * kStrip + lane) * size, dtype_of(packing.scale), to + k, DType::f32, 1);
    return;
  }
  const GgmlBlocks& blocks = *find_ggml_blocks(packing.blocks);
  const CodeUnit unit(packing.bits);
  const auto* words = reinterpret_cast<const uint32_t*>(data + strip * layout.strip_codes) + lane;
  std::vector<uint8_t> codes(static_cast<size_t>(blocks.values));
  std::vector<std::byte> scales(static_cast<size_t>(blocks.scale_bytes()));
  for (int64_t k = 0; k < layout.columns; ++k) {
    const uint32_t* const own = words + k / unit.columns * unit.words * kStrip;
    const auto field = [&](const CodeUnit::Place& place, int64_t bits) {
      return own[place.word * kStrip] >> place.bit & ((1u << bits) - 1);
    };
    uint32_t code = field(unit.lower_place(k % unit.columns), unit.lower());
    if (unit.upper > 0)
      code |= field(unit.upper_place(k % unit.columns), unit.upper) << unit.lower();
    const int64_t j = k % blocks.values;
    codes[static_cast<size_t>(j)] = static_cast<uint8_t>(code);
    if (j + 1 < blocks.values) continue;
    for (int64_t i = 0; i < blocks.halves; ++i)
      std::memcpy(scales.data() + 2 * i, from + (i * kStrip + lane) * 2, 2);
    for (int64_t i = 2 * blocks.halves; i < blocks.scale_bytes(); ++i)
      scales[static_cast<size_t>(i)] = from[i * kStrip + lane];
    decode_ggml_codes(blocks, codes.data(), scales.data(), to + k - j);
    from += blocks.scale_bytes() * kStrip;
  }
}

/// Row `id` of a table from a GGUF file.
void read_packed_row(const Weight& table, int64_t id, float* row) {
  for (const Segment& segment : packed_segments(*table.spec, table.dtype, 0).parts) {
    const model::Part& part = *segment.part;
    const int64_t own = id - segment.first_row;
    if (own < 0 || own >= part.rows()) continue;
    const PackedPart layout(part, table.spec->columns());
    const std::byte* const data = static_cast<const std::byte*>(table.data) + segment.offset;
    decode_row(*part.packing, layout, data, own, row);
    if (!part.packing->factors) return;
    const float factor = reinterpret_cast<const float*>(data + layout.factors)[own];
    for (int64_t i = 0; i < layout.columns; ++i) row[i] *= factor;
    return;
  }
}

}  // namespace

void CpuBackend::load_rows(const Weight& weight, const RowReader& read, int64_t first, int64_t rows,
                           std::byte* to) {
  const int64_t columns = weight.spec->columns();
  const size_t bytes = strip_bytes(columns, weight.dtype);
  const size_t buffer_bytes = kStrip * columns * dtype_size(weight.dtype);
  const auto buffers = std::make_unique_for_overwrite<std::byte[]>(pool_.threads() * buffer_bytes);
  pool_.run(divide_up(rows, kStrip), 8 * rows * columns, [&](int64_t strip, int thread) {
    std::byte* buffer = buffers.get() + thread * buffer_bytes;
    const int64_t count = std::min(kStrip, rows - strip * kStrip);
    read(first + strip * kStrip, count, buffer);
    pack_strip(buffer, count, columns, weight.dtype, to + strip * bytes);
  });
}

void CpuBackend::do_load_weight(const Weight& weight, const RowReader& read) {
  const model::WeightSpec& spec = *weight.spec;
  if (spec.is_packed()) return load_packed(weight, read);
  const int64_t rows = spec.rows();
  const int64_t columns = spec.columns();
  auto* to = static_cast<std::byte*>(weight.data);
  const size_t row_bytes = columns * dtype_size(weight.dtype);
  if (spec.is_vector()) {
    std::vector<std::byte> buffer(spec.elements() * dtype_size(weight.dtype));
    read(0, spec.matrices() * rows, buffer.data());
    convert(buffer.data(), weight.dtype, to, DType::f32, static_cast<size_t>(spec.elements()));
    return;
  }
  const int64_t chunk = std::clamp<int64_t>(kReadBytes / static_cast<int64_t>(row_bytes), 1, 1024);
  if (spec.use == model::WeightUse::embedding) {
    pool_.run(divide_up(rows, chunk), 8 * spec.elements(), [&](int64_t task, int) {
      const int64_t first = task * chunk;
      read(first, std::min(chunk, rows - first), to + first * row_bytes);
    });
    return;
  }
  for (int64_t matrix = 0; matrix < spec.matrices(); ++matrix) {
    load_rows(weight, read, matrix * rows, rows, to + matrix * matrix_bytes(spec, weight.dtype));
  }
}

void CpuBackend::read_row(const Weight& table, int64_t id, float* row) const {
  const auto* from = static_cast<const std::byte*>(table.data);
  const int64_t width = table.spec->columns();
  if (table.spec->is_packed()) return read_packed_row(table, id, row);
  const size_t row_bytes = width * dtype_size(table.dtype);
  const std::byte* stored = from + id * row_bytes;
  std::vector<std::byte> unpacked;
  if (table.spec->use == model::WeightUse::linear) {
    unpacked.resize(row_bytes);
    unpack_row(from, table.dtype, width, id, unpacked.data());
    stored = unpacked.data();
  }
  kernels_.widen(stored, table.dtype, row, width);
}

void CpuBackend::compute(const ops::Embed& op) {
  for_rows(op.out.rows, op.out.columns, [&](int64_t t) {
    float* row = static_cast<float*>(op.out.data) + t * op.out.stride;
    const std::optional<int64_t> own = op.table.own_row(op.batch->token_ids[t]);
    if (!own) {
      std::fill_n(row, op.out.columns, -0.f);
      return;
    }
    read_row(op.table, *own, row);
    if (op.scale != 1.f) kernels_.scale(row, op.scale, op.out.columns);
  });
}

void CpuBackend::compute(const ops::EmbedPositions& op) {
  for_rows(op.out.rows, op.out.columns, [&](int64_t t) {
    std::vector<float> addend(op.out.columns);
    read_row(op.table, op.batch->positions[t] + op.offset, addend.data());
    kernels_.add(static_cast<float*>(op.out.data) + t * op.out.stride, addend.data(),
                 op.out.columns);
  });
}

void CpuBackend::compute(const ops::GatherRows& op) {
  for_rows(op.out.rows, op.out.columns, [&](int64_t i) {
    std::memcpy(static_cast<float*>(op.out.data) + i * op.out.stride,
                static_cast<const float*>(op.in.data) + op.batch->logits_rows[i] * op.in.stride,
                op.out.columns * sizeof(float));
  });
}

}  // namespace plimsoll::backend
