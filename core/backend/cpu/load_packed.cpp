// Loading of quantized weights: rows of codes, scales and zero points into strips.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/cpu/ops.h"
#include "backend/cpu/packed_layout.h"

namespace plimsoll::backend {
namespace {

/// Writes a row's codes, a byte each, to its lane of a strip.
template <int kBits>
void pack_codes(const uint8_t* from, int64_t columns, int64_t lane, uint32_t* strip) {
  constexpr CodeUnit kUnit(kBits);
  for (int64_t k = 0; k < columns; k += kUnit.columns) {
    std::array<uint8_t, kUnit.columns> codes{};  // zeros behind the last column
    std::copy_n(from + k, std::min(kUnit.columns, columns - k), codes.begin());
    std::array<uint32_t, kUnit.words> words{};
#pragma GCC unroll 32
    for (int64_t c = 0; c < kUnit.columns; ++c) {
      const CodeUnit::Place low = kUnit.lower_place(c), high = kUnit.upper_place(c);
      const uint32_t code = codes[c];
      words[low.word] |= (code & ((1u << kUnit.lower()) - 1)) << low.bit;
      if constexpr (kUnit.upper > 0) words[high.word] |= code >> kUnit.lower() << high.bit;
    }
    for (int64_t w = 0; w < kUnit.words; ++w)
      strip[(k / kUnit.columns * kUnit.words + w) * kStrip + lane] = words[w];
  }
}

using PackCodes = void (*)(const uint8_t* from, int64_t columns, int64_t lane, uint32_t* strip);

PackCodes packer_of(int64_t bits) {
  switch (bits) {
    case 2:
      return pack_codes<2>;
    case 3:
      return pack_codes<3>;
    case 4:
      return pack_codes<4>;
    case 5:
      return pack_codes<5>;
    case 6:
      return pack_codes<6>;
    default:
      return pack_codes<8>;
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

void load_strip(const model::Packing& packing, const PackedPart& layout,
                const model::PackedRows& rows, int64_t strip, StripBuffers& buffers,
                std::byte* to) {
  const int64_t first = strip * kStrip;
  const int64_t count = std::min(kStrip, layout.rows - first);
  const auto index = static_cast<size_t>(strip);
  buffers.codes.resize(kStrip * layout.columns);
  buffers.scales.resize(layout.strip_scales);
  if (layout.strip_codes > 0) {
    std::byte* codes = to + index * layout.strip_codes;
    std::memset(codes, 0, layout.strip_codes);
    rows.codes(first, count, buffers.codes.data());
    const PackCodes pack = packer_of(packing.bits);
    for (int64_t r = 0; r < count; ++r)
      pack(buffers.codes.data() + r * layout.columns, layout.columns, r,
           reinterpret_cast<uint32_t*>(codes));
  }
  std::byte* scales = to + layout.scales + index * layout.strip_scales;
  std::memset(scales, 0, layout.strip_scales);
  rows.scales(first, count, buffers.scales.data());
  if (packing.has_blocks()) {
    const GgmlBlocks& blocks = *find_ggml_blocks(packing.blocks);
    turn_ggml_scales(blocks, buffers.scales.data(), count, layout.columns / blocks.values, kStrip,
                     scales);
  } else {
    const int64_t scale_size = model::scale_bytes(packing.scale);
    const auto turn_scales = scale_size == 4 ? turn<4> : scale_size == 2 ? turn<2> : turn<1>;
    turn_scales(buffers.scales.data(), count, layout.groups, scales);
  }
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
