#include "backend/cuda/packed_layout.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

/// Alignment of every offset: the widest load of the kernels.
constexpr size_t kPieceBytes = 16;

size_t take(size_t& end, size_t bytes) {
  const size_t at = end;
  end += round_up(bytes, kPieceBytes);
  return at;
}

/// [count, stored groups] to [groups][16], of elements of `size` bytes.
void turn(const std::byte* from, int64_t count, const PackedMatrix& layout, const SlotOrder& order,
          int64_t size, std::byte* to) {
  for (int64_t g = 0; g < layout.groups; ++g) {
    const int64_t stored = order.groups.empty() ? g : order.groups[g];
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(to + (g * kStripRows + r) * size,
                  from + (r * layout.stored_groups + stored) * size, static_cast<size_t>(size));
  }
}

int64_t rows_of_strip(const PackedMatrix& layout, int64_t strip) {
  return std::min(kStripRows, layout.rows - strip * kStripRows);
}

/// The code of each slot of a chunk, 0 where it has no input.
void codes_of_chunk(const uint8_t* row, const PackedMatrix& layout, const SlotOrder& order,
                    int64_t chunk, uint8_t* to) {
  for (int64_t i = 0; i < kChunkInputs; ++i) {
    const int64_t slot = chunk * kChunkInputs + i;
    int64_t input = slot < layout.columns ? slot : -1;
    if (layout.spread) input = slot < layout.slots() ? order.inputs[slot] : -1;
    to[i] = input < 0 ? uint8_t{0} : row[input];
  }
}

/// Code `i` of a row's 32 to its words, which are zero there.
void put_code(const model::Packing& packing, int64_t i, uint32_t code, uint32_t* words) {
  // Codes that lie in the bits left over of several words are put bit by bit.
  const bool apart =
      packing.code != model::Code::table && i / 2 >= 16 / packing.bits * packing.bits;
  for (int64_t bit = 0; bit < packing.bits; bit += apart ? 1 : packing.bits) {
    const int64_t place = code_place(packing, i, bit);
    words[place / 32] |= (apart ? code >> bit & 1 : code) << place % 32;
  }
}

/// Group after group, each from a new step on; `groups` has that of each input.
SlotOrder slots_by_steps(const std::vector<int32_t>& groups, const PackedMatrix& layout) {
  SlotOrder order;
  order.inputs.resize(layout.slots(), -1);
  order.groups.resize(layout.groups, 0);
  std::vector<std::vector<int32_t>> inputs(layout.stored_groups);
  for (size_t n = 0; n < groups.size(); ++n) inputs[groups[n]].push_back(static_cast<int32_t>(n));
  size_t step = 0;
  for (size_t g = 0; g < inputs.size(); ++g) {
    const std::vector<int32_t>& own = inputs[g];
    std::ranges::copy(own, order.inputs.begin() + static_cast<ptrdiff_t>(step) * kStepInputs);
    const size_t steps = divide_up(own.size(), static_cast<size_t>(kStepInputs));
    std::fill_n(order.groups.begin() + static_cast<ptrdiff_t>(step), steps,
                static_cast<int32_t>(g));
    step += steps;
  }
  return order;
}

}  // namespace

PackedMatrix::PackedMatrix(const model::Part& part, int64_t columns_of_part)
    : rows(part.rows()), columns(columns_of_part) {
  const model::Packing& packing = *part.packing;
  const auto count = static_cast<size_t>(strips());
  groups = stored_groups = packing.groups(columns);
  group_steps = packing.group > 0 ? divide_up(packing.group, kStepInputs) : 0;
  if (packing.scattered) {  // the last step of each group may have a single input
    groups = (columns + (kStepInputs - 1) * stored_groups) / kStepInputs;
    group_steps = 1;
  }
  const bool whole = columns % kStepInputs == 0 && packing.group % kStepInputs == 0;
  spread = !whole || (packing.group > 0 && (packing.ordered || packing.lead > 0));
  steps = spread && group_steps > 0 ? groups * group_steps : divide_up(columns, kStepInputs);
  const int64_t last_slots = slots() - (chunks() - 1) * kChunkInputs;
  if (has_half_chunks(packing.bits) && last_slots <= kChunkInputs / 2) half_chunk = chunks() - 1;
  strip_codes = static_cast<size_t>(chunks() * chunk_bytes(packing.bits));
  if (half_chunk >= 0) strip_codes -= static_cast<size_t>(chunk_bytes(packing.bits) / 2);
  strip_scales = static_cast<size_t>(packing.scales_bytes(groups) * kStripRows);
  strip_zeros = packing.zeros ? static_cast<size_t>(groups * kStripRows) : 0;
  if (packing.scale == model::ScaleType::nested) {
    nested_blocks = packing.absmax_count(part.stored_shape.front(), part.stored_shape.back());
  }
  (void)take(bytes, count * strip_codes);
  scales = take(bytes, count * strip_scales);
  zeros = take(bytes, count * strip_zeros);
  factors = take(bytes, packing.factors ? count * kStripRows * sizeof(float) : 0);
  order = take(bytes, spread ? slots() * sizeof(int32_t) : 0);
  table = take(bytes, packing.code == model::Code::table ? 16 * sizeof(float) : 0);
  const size_t nested_bytes = (256 + nested_blocks) * sizeof(float) + sizeof(NestedPlace);
  nested = take(bytes, nested_blocks > 0 ? nested_bytes : 0);
  input = take(bytes, model::has_input_scale(packing.inputs) ? sizeof(model::InputScale) : 0);
}

bool PackedMatrix::rewrites(const model::Part& part, int64_t columns) {
  return part.packing->inputs != model::InputRounding::none || PackedMatrix(part, columns).spread;
}

void pack_strip(const model::Part& part, const PackedMatrix& layout, const model::PackedRows& rows,
                const SlotOrder& order, int64_t strip, std::byte* to) {
  const model::Packing& packing = *part.packing;
  const int64_t count = rows_of_strip(layout, strip);
  std::vector<uint8_t> codes(count * layout.columns);
  rows.codes(strip * kStripRows, count, codes.data());
  std::memset(to, 0, layout.strip_codes);
  uint8_t chunk[kChunkInputs];
  for (int64_t c = 0; c < layout.chunks(); ++c, to += chunk_bytes(packing.bits)) {
    const int64_t stored = row_words(layout, packing.bits, c);
    for (int64_t r = 0; r < count; ++r) {
      codes_of_chunk(codes.data() + r * layout.columns, layout, order, c, chunk);
      for (int64_t t = 0; t < kRowLanes; ++t) {
        uint32_t words[8] = {};
        for (int64_t i = 0; i < kLaneCodes; ++i)
          put_code(packing, i, chunk[i / 4 * kStepInputs + 4 * t + i % 4], words);
        for (int64_t w = 0; w < stored; ++w)
          std::memcpy(to + word_offset(r, t, stored, w), &words[w], sizeof words[w]);
      }
    }
  }
}

void pack_scales(const model::Part& part, const PackedMatrix& layout, const model::PackedRows& rows,
                 const SlotOrder& order, int64_t strip, std::byte* to) {
  const int64_t count = rows_of_strip(layout, strip);
  const model::Packing& packing = *part.packing;
  std::vector<std::byte> scales(count * packing.scales_bytes(layout.stored_groups));
  rows.scales(strip * kStripRows, count, scales.data());
  std::memset(to, 0, layout.strip_scales);
  if (packing.has_blocks()) {
    const GgmlBlocks& blocks = *find_ggml_blocks(packing.blocks);
    const int64_t of_row = layout.columns / blocks.values;
    return turn_ggml_scales(blocks, scales.data(), count, of_row, kStripRows, to);
  }
  const int64_t size = model::scale_bytes(packing.scale);
  turn(scales.data(), count, layout, order, size, to);
}

void pack_zeros(const PackedMatrix& layout, const model::PackedRows& rows, const SlotOrder& order,
                int64_t strip, std::byte* to) {
  const int64_t count = rows_of_strip(layout, strip);
  std::vector<uint8_t> zeros(count * layout.stored_groups);
  rows.zeros(strip * kStripRows, count, zeros.data());
  std::memset(to, 0, layout.strip_zeros);
  turn(reinterpret_cast<const std::byte*>(zeros.data()), count, layout, order, 1, to);
}

SlotOrder slot_order(const model::Part& part, const PackedMatrix& layout,
                     const model::PackedRows& rows) {
  if (!layout.spread) return {};
  const model::Packing& packing = *part.packing;
  std::vector<int32_t> groups(layout.columns);
  if (packing.ordered && packing.group > 0) {
    rows.input_groups(groups.data());
  } else if (packing.group > 0) {
    const int64_t before = packing.inputs_before(rows.first_input());
    for (size_t n = 0; n < groups.size(); ++n)
      groups[n] = static_cast<int32_t>((before + static_cast<int64_t>(n)) / packing.group);
  }
  if (packing.scattered) return slots_by_steps(groups, layout);
  const int64_t room = layout.group_steps > 0 ? layout.group_steps * kStepInputs : layout.slots();
  SlotOrder order;
  order.inputs.resize(layout.slots(), -1);
  std::vector<int64_t> filled(layout.groups);
  for (size_t n = 0; n < groups.size(); ++n) {
    const auto group = static_cast<size_t>(groups[n]);
    if (filled[group] == room) {
      fail(ExitCode::checkpoint_unusable,
           "{}: its activation order (g_idx) gives group {} more than {} inputs, where groups are "
           "of {}; --device cpu runs it",
           part.tensor, group, room, packing.group);
    }
    order.inputs[group * room + static_cast<size_t>(filled[group]++)] = static_cast<int32_t>(n);
  }
  return order;
}

std::optional<DType> row_type(const model::Part& part, DType dtype) {
  if (!part.packing) return dtype;
  if (part.packing->code != model::Code::none) return std::nullopt;
  return model::dtype_of(part.packing->scale);
}

Segments packed_segments(const model::WeightSpec& spec, DType dtype, int64_t matrix) {
  return {spec, matrix, kPieceBytes, [&](const model::Part& part) {
            const std::optional<DType> rows = row_type(part, dtype);
            if (rows) return part.rows() * spec.columns() * dtype_size(*rows);
            return PackedMatrix(part, spec.columns()).bytes;
          }};
}

int64_t rewritten_columns(const model::WeightSpec& spec) {
  int64_t most = 0;
  for (const model::Part& part : spec.parts) {
    if (row_type(part, {}) || !PackedMatrix::rewrites(part, spec.columns())) continue;
    most = std::max(most, PackedMatrix(part, spec.columns()).slots());
  }
  return most;
}

}  // namespace plimsoll::backend::cuda
