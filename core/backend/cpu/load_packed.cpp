// Loading of quantized weights: rows of codes, scales and zero points into strips.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cpu/ops.h"
#include "backend/cpu/packed_layout.h"

namespace plimsoll::backend {
namespace {

/// Writes a row's codes, a byte each, to its lane of a strip of zeros.
void pack_codes(const uint8_t* from, int64_t columns, int64_t bits, int64_t lane, uint32_t* strip) {
  const int64_t in_unit = model::word_inputs(bits);
  const int64_t words = PackedPart::unit_words(bits);
  for (int64_t k = 0; k < columns; ++k) {
    uint32_t* unit = strip + k / in_unit * words * kStrip + lane;
    const int64_t j = k % in_unit;
    if (words == 1) {
      *unit |= uint32_t{from[k]} << j * bits;
      continue;
    }
    for (int64_t bit = 0; bit < bits; ++bit)
      unit[bit * kStrip] |= uint32_t{from[k]} >> bit << 31 >> (31 - j);
  }
}

/// [count, groups] to [groups][32].
template <size_t kBytes>
void turn(const std::byte* from, int64_t count, int64_t groups, std::byte* to) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t g = 0; g < groups; ++g)
      std::memcpy(to + (g * kStrip + r) * kBytes, from + (r * groups + g) * kBytes, kBytes);
}

/// Buffers of one thread, for a strip.
struct StripBuffers {
  std::vector<uint8_t> codes;
  std::vector<std::byte> scales;
  std::vector<uint8_t> zeros;
};

/// Copies the blocks of a strip's rows, and their factors.
void load_blocks(const model::Packing& packing, const PackedPart& layout,
                 const model::PackedRows& rows, int64_t strip, std::byte* to) {
  const int64_t first = strip * kStrip;
  const int64_t count = std::min(kStrip, layout.rows - first);
  rows.blocks(first, count, to + first * layout.row_bytes);
  if (!packing.factors) return;
  auto* const factors = reinterpret_cast<float*>(to + layout.factors) + first;
  std::fill_n(factors, kStrip, 0.f);
  rows.factors(first, count, factors);
}

void load_strip(const model::Packing& packing, const PackedPart& layout,
                const model::PackedRows& rows, int64_t strip, StripBuffers& buffers,
                std::byte* to) {
  const int64_t first = strip * kStrip;
  const int64_t count = std::min(kStrip, layout.rows - first);
  const auto index = static_cast<size_t>(strip);
  const int64_t scale_size = model::scale_bytes(packing.scale);
  buffers.codes.resize(kStrip * layout.columns);
  buffers.scales.resize(kStrip * layout.groups * scale_size);
  std::byte* codes = to + index * layout.strip_codes;
  std::memset(codes, 0, layout.strip_codes);
  rows.codes(first, count, buffers.codes.data());
  for (int64_t r = 0; r < count; ++r)
    pack_codes(buffers.codes.data() + r * layout.columns, layout.columns, packing.bits, r,
               reinterpret_cast<uint32_t*>(codes));
  std::byte* scales = to + layout.scales + index * layout.strip_scales;
  std::memset(scales, 0, layout.strip_scales);
  rows.scales(first, count, buffers.scales.data());
  const auto turn_scales = scale_size == 4 ? turn<4> : scale_size == 2 ? turn<2> : turn<1>;
  turn_scales(buffers.scales.data(), count, layout.groups, scales);
  if (packing.zeros) {
    std::byte* zeros = to + layout.zeros + index * layout.strip_zeros;
    std::memset(zeros, 0, layout.strip_zeros);
    buffers.zeros.resize(kStrip * layout.groups);
    rows.zeros(first, count, buffers.zeros.data());
    turn<1>(reinterpret_cast<const std::byte*>(buffers.zeros.data()), count, layout.groups, zeros);
  }
  if (!packing.factors) return;
  auto* factors = reinterpret_cast<float*>(to + layout.factors) + first;
  std::fill_n(factors, kStrip, 0.f);
  rows.factors(first, count, factors);
}

}  // namespace

void CpuBackend::load_part(const model::Part& part, int64_t columns, const model::PackedRows& rows,
                           std::byte* to) {
  const model::Packing& packing = *part.packing;
  const PackedPart layout(part, columns);
  std::vector<StripBuffers> buffers(pool_.threads());
  pool_.run(divide_up(layout.rows, kStrip), 8 * layout.rows * columns,
            [&](int64_t strip, int thread) {
              if (packing.has_blocks()) return load_blocks(packing, layout, rows, strip, to);
              load_strip(packing, layout, rows, strip, buffers[thread], to);
            });
  if (packing.ordered) rows.input_groups(reinterpret_cast<int32_t*>(to + layout.order));
  if (model::has_input_scale(packing.inputs)) {
    const model::InputScale scale = rows.input_scale();
    std::memcpy(to + layout.input, &scale, sizeof scale);
  }
  if (packing.code == model::Code::table) {
    rows.table(std::span<float, 16>(reinterpret_cast<float*>(to + layout.table), 16));
  }
  if (layout.nested_blocks == 0) return;
  auto* numbers = reinterpret_cast<float*>(to + layout.nested);
  auto* place = reinterpret_cast<NestedPlace*>(numbers + 256);
  model::NestedScales scales{
      .numbers = {numbers, 256},
      .absmax = {reinterpret_cast<float*>(place + 1), static_cast<size_t>(layout.nested_blocks)},
      .stride = layout.groups};
  rows.nested(scales);
  *place = {scales.offset, static_cast<int32_t>(scales.first), static_cast<int32_t>(scales.stride)};
}

void CpuBackend::load_packed(const Weight& weight, const RowReader& read) {
  const model::WeightSpec& spec = *weight.spec;
  auto* matrix = static_cast<std::byte*>(weight.data);
  for (int64_t m = 0; m < spec.matrices(); ++m) {
    const Segments segments = packed_segments(spec, weight.dtype, m);
    for (const Segment& segment : segments.parts) {
      std::byte* const to = matrix + segment.offset;
      if (segment.part->packing) {
        load_part(*segment.part, spec.columns(), *read.packed(segment.index), to);
      } else {
        load_rows(weight, read, m * spec.rows() + segment.first_row, segment.part->rows(), to);
      }
    }
    matrix += segments.end;
  }
}

}  // namespace plimsoll::backend
