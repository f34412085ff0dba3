#include "kernels/runtime/load_packed.h"

#include <cstring>

#include "backend/cuda/packed_layout.h"
#include "backend/cuda/slice_rows.h"
#include "backend/cuda/slices.h"

namespace plimsoll::kernels {
namespace {

using namespace backend::cuda;

/// One quantized part to where it stays.
class PartLoader {
 public:
  PartLoader(Loader& loader, const model::Part& part, int64_t columns,
             const model::PackedRows& rows, std::byte* to)
      : loader_(loader), part_(part), layout_(part, columns), rows_(rows), to_(to) {}

  void load() {
    const SlotOrder order = slot_order(part_, layout_, rows_);
    strips(0, layout_.strip_codes, [&](int64_t strip, std::byte* to) {
      pack_strip(part_, layout_, rows_, order, strip, to);
    });
    strips(layout_.scales, layout_.strip_scales, [&](int64_t strip, std::byte* to) {
      pack_scales(part_, layout_, rows_, order, strip, to);
    });
    strips(layout_.zeros, layout_.strip_zeros,
           [&](int64_t strip, std::byte* to) { pack_zeros(layout_, rows_, order, strip, to); });
    if (layout_.spread) once(layout_.order, std::as_bytes(std::span(order.inputs)));
    load_numbers();
    if (layout_.nested_blocks > 0) load_nested();
  }

 private:
  template <typename F>
  void strips(size_t offset, size_t bytes, const F& fill) {
    const auto read = [&](int64_t first, int64_t count, void* piece) {
      for (int64_t i = 0; i < count; ++i)
        fill(first + i, static_cast<std::byte*>(piece) + static_cast<size_t>(i) * bytes);
    };
    loader_.load(to_ + offset, layout_.strips(), bytes, read);
  }
  void once(size_t offset, std::span<const std::byte> bytes) {
    const auto read = [&](int64_t, int64_t, void* piece) {
      std::memcpy(piece, bytes.data(), bytes.size());
    };
    loader_.load(to_ + offset, 1, bytes.size(), read);
  }
  void load_numbers() {
    const model::Packing& packing = *part_.packing;
    if (packing.factors) {
      std::vector<float> factors(static_cast<size_t>(layout_.strips() * kStripRows));
      rows_.factors(0, layout_.rows, factors.data());
      once(layout_.factors, std::as_bytes(std::span(factors)));
    }
    if (packing.code == model::Code::table) {
      std::vector<float> table(16);
      rows_.table(std::span<float, 16>(table.data(), 16));
      once(layout_.table, std::as_bytes(std::span(table)));
    }
    if (!model::has_input_scale(packing.inputs)) return;
    const model::InputScale scale = rows_.input_scale();
    once(layout_.input, std::as_bytes(std::span(&scale, 1)));
  }
  void load_nested() {
    std::vector<float> absmax(static_cast<size_t>(layout_.nested_blocks));
    std::vector<float> numbers(256);
    model::NestedScales scales{.numbers = numbers, .absmax = absmax, .stride = layout_.groups};
    rows_.nested(scales);
    const NestedPlace place{scales.offset, static_cast<int32_t>(scales.first),
                            static_cast<int32_t>(scales.stride)};
    std::vector<std::byte> bytes;
    const auto append = [&](const auto& values) {
      const auto more = std::as_bytes(std::span(values));
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    append(numbers);
    append(std::vector(1, place));
    append(absmax);
    once(layout_.nested, bytes);
  }

  Loader& loader_;
  const model::Part& part_;
  PackedMatrix layout_;
  const model::PackedRows& rows_;
  std::byte* to_;
};

}  // namespace

namespace {

/// The slices of a matrix, one behind the other; returns where the next matrix begins.
std::byte* load_slices(Loader& loader, const backend::Weight& weight,
                       const model::WeightSpec& slice, int64_t matrix,
                       const backend::RowReader& read, std::byte* to) {
  const model::WeightSpec& spec = *weight.spec;
  const backend::Segments segments = packed_segments(slice, weight.dtype, matrix);
  for (int64_t s = 0; s < spec.slices; ++s, to += segments.end) {
    for (const backend::Segment& segment : segments.parts) {
      const auto all = read.packed(segment.index);
      const SliceRows rows(*all, spec.parts[segment.index], spec.columns(), *segment.part,
                           {s * slice.columns(), slice.columns()});
      PartLoader(loader, *segment.part, slice.columns(), rows, to + segment.offset).load();
    }
  }
  return to;
}

void load_part(Loader& loader, const model::Part& part, int64_t columns,
               const model::PackedRows& rows, std::byte* to) {
  if (part.packing->code != model::Code::none)
    return PartLoader(loader, part, columns, rows, to).load();
  const auto row_bytes = static_cast<size_t>(columns * model::scale_bytes(part.packing->scale));
  loader.load(to, part.rows(), row_bytes, [&](int64_t first, int64_t count, void* piece) {
    rows.scales(first, count, static_cast<std::byte*>(piece));
  });
}

}  // namespace

void load_packed(Loader& loader, const backend::Weight& weight, const backend::RowReader& read,
                 bool sliced) {
  const model::WeightSpec& spec = *weight.spec;
  const auto row_bytes = static_cast<size_t>(spec.columns()) * dtype_size(weight.dtype);
  const model::WeightSpec slice = sliced ? slice_of(spec) : model::WeightSpec{};
  auto* matrix = static_cast<std::byte*>(weight.data);
  for (int64_t m = 0; m < spec.matrices(); ++m) {
    if (sliced) {
      matrix = load_slices(loader, weight, slice, m, read, matrix);
      continue;
    }
    const backend::Segments segments = packed_segments(spec, weight.dtype, m);
    for (const backend::Segment& segment : segments.parts) {
      std::byte* const to = matrix + segment.offset;
      if (segment.part->packing) {
        load_part(loader, *segment.part, spec.columns(), *read.packed(segment.index), to);
        continue;
      }
      const int64_t start = m * spec.rows() + segment.first_row;
      const auto rows = [&](int64_t first, int64_t count, void* piece) {
        read(start + first, count, piece);
      };
      loader.load(to, segment.part->rows(), row_bytes, rows);
    }
    matrix += segments.end;
  }
}

}  // namespace plimsoll::kernels
