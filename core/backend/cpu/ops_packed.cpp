// Products with quantized weights: strips of codes and scales, and what of them one task
// multiplies.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backend/cpu/ops_product.h"

namespace plimsoll::backend {
namespace {

/// One quantized part in memory: its packing, its layout and its bytes.
struct PackedView {
  const model::Packing& packing;
  PackedPart layout;
  const std::byte* data;

  template <typename T>
  [[nodiscard]] const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(data + offset);
  }
  /// PackedTile::lead.
  [[nodiscard]] int64_t lead(int64_t first_input) const {
    return packing.ordered ? 0 : packing.inputs_before(first_input);
  }
};

/// Scales of a strip's groups from double-quantized ones, [groups][32]. Scales of a row that lie
/// beside each other have the same largest value for the most part.
void nested_scales(const Kernels& kernels, const PackedView& view, int64_t strip, float* to) {
  const PackedPart& layout = view.layout;
  const int64_t block = view.packing.absmax_share();
  const auto* numbers = view.at<float>(layout.nested);
  const auto* place = reinterpret_cast<const NestedPlace*>(numbers + 256);
  const auto* absmax = reinterpret_cast<const float*>(place + 1);
  const auto* codes = view.at<uint8_t>(layout.scales + strip * layout.strip_scales);
  for (int64_t g = 0, end = 0; g < layout.groups; g = end) {
    std::array<float, kStrip> most;
    end = layout.groups;
    for (int64_t r = 0; r < kStrip; ++r) {
      const int64_t row = std::min(strip * kStrip + r, layout.rows - 1);
      const int64_t number = place->first + row * int64_t{place->stride} + g;
      // A rank may have room for a group that it has no inputs of.
      most[r] = absmax[std::min(number / block, layout.nested_blocks - 1)];
      end = std::min(end, g + block - number % block);
    }
    kernels.decode_scales({.numbers = numbers,
                           .codes = codes + g * kStrip,
                           .most = most.data(),
                           .offset = place->offset,
                           .groups = end - g},
                          to + g * kStrip);
  }
}

PackedTile packed_tile(const PackedView& view, int64_t first_strip, int64_t first_input) {
  const PackedPart& layout = view.layout;
  const auto index = static_cast<size_t>(first_strip);
  PackedTile tile{.packing = &view.packing,
                  .codes = view.data + index * layout.strip_codes,
                  .strip_codes = layout.strip_codes,
                  .scales = view.data + layout.scales + index * layout.strip_scales,
                  .strip_scales = layout.strip_scales,
                  .scale = view.packing.scale,
                  .columns = layout.columns};
  if (view.packing.zeros) {
    tile.zeros = view.at<uint8_t>(layout.zeros + index * layout.strip_zeros);
    tile.strip_zeros = layout.strip_zeros;
  }
  if (view.packing.factors) tile.factors = view.at<float>(layout.factors) + first_strip * kStrip;
  if (view.packing.ordered) tile.order = view.at<int32_t>(layout.order);
  if (view.packing.code == model::Code::table) tile.table = view.at<float>(layout.table);
  tile.lead = view.lead(first_input);
  return tile;
}

/// Gives a tile's strips their scales as floats, and their minimums, which it puts to `buffer`;
/// where they are stored as numbers already, it does nothing.
void decode_scales(const Kernels& kernels, const PackedView& view, int64_t first_strip,
                   std::vector<float>& buffer, PackedTile& tile) {
  const bool blocks = view.packing.has_blocks();
  if (!blocks && tile.scale != model::ScaleType::nested) return;
  const auto floats = static_cast<size_t>(view.layout.groups * kStrip);
  const size_t all = tile.strips * floats;
  buffer.resize(std::max(buffer.size(), (view.packing.has_minimums() ? 2 : 1) * all));
  float* const minimums = view.packing.has_minimums() ? buffer.data() + all : nullptr;
  for (size_t s = 0; s < static_cast<size_t>(tile.strips); ++s) {
    float* const scales = buffer.data() + s * floats;
    if (!blocks) {
      nested_scales(kernels, view, first_strip + static_cast<int64_t>(s), scales);
      continue;
    }
    kernels.decode_block_scales(
        {.type = view.packing.blocks,
         .from = tile.scales + s * tile.strip_scales,
         .blocks = view.layout.columns / view.packing.block_type().values,
         .factors = tile.factors == nullptr ? nullptr : tile.factors + s * kStrip,
         .scales = scales,
         .minimums = minimums == nullptr ? nullptr : minimums + s * floats});
  }
  tile.scales = reinterpret_cast<const std::byte*>(buffer.data());
  tile.strip_scales = floats * sizeof(float);
  tile.scale = model::ScaleType::f32;
  tile.minimums = minimums;
  if (blocks) tile.factors = nullptr;
}

/// A slice of a tile's columns, which cuts no word of codes.
PackedTile slice_of(PackedTile tile, int64_t width, int64_t slice) {
  const model::Packing& packing = *tile.packing;
  const int64_t first = slice * width;
  const CodeUnit unit(packing.bits);
  const int64_t words = first / unit.columns * unit.words;
  const bool in_turn = packing.group > 0 && !packing.ordered;
  const int64_t group = in_turn ? (tile.lead + first) / packing.group : 0;
  if (in_turn) tile.lead = packing.inputs_before(tile.lead + first);
  if (tile.order != nullptr) tile.order += first;
  const int64_t before = tile.unpacked ? first : words;
  tile.codes += before * kStrip * static_cast<int64_t>(sizeof(uint32_t));  // and of floats
  tile.scales += group * kStrip * model::scale_bytes(tile.scale);
  if (tile.minimums != nullptr) {
    tile.minimums += group * kStrip;
    if (tile.row_sums != nullptr) tile.row_sums += group * tile.rows;
  }
  if (tile.zeros != nullptr) tile.zeros += group * kStrip;
  tile.a += first * tile.rows;
  tile.columns = width;
  return tile;
}

/// Rows that wait for weights more than they compute.
constexpr int64_t kFewRows = 4;

/// Tiles of rows from which on a strip's codes are unpacked once for all of them.
constexpr int64_t kUnpackedTiles = 3;

/// Rows of floats as Kernels::pack_rows has them, tile by tile.
struct RowTiles {
  const float* from;
  int64_t rows, tiles, stride;

  [[nodiscard]] int64_t first(int64_t tile) const { return tile * rows / tiles; }
  /// Sums of each group's numbers in ascending order, [tiles][groups][rows of the tile].
  [[nodiscard]] std::vector<float> sums(int64_t group) const {
    std::vector<float> all(static_cast<size_t>(stride / group * rows));
    float* to = all.data();
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t count = first(t + 1) - first(t);
      const float* at = from + first(t) * stride;
      for (int64_t g = 0; g < stride / group; ++g, to += count)
        for (int64_t k = 0; k < group; ++k, at += count)
          for (int64_t r = 0; r < count; ++r) to[r] += at[r];
    }
    return all;
  }
};

/// Integers less their one zero point.
std::array<float, 16> integers(int64_t zero) {
  std::array<float, 16> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(static_cast<int64_t>(i) - zero);
  return numbers;
}

}  // namespace

float* CpuBackend::rounded_rows(int thread, int64_t rows, int64_t k) {
  std::vector<float>& rounded = rounded_[thread];
  rounded.resize(std::max(rounded.size(), static_cast<size_t>(rows * k)));
  return rounded.data();
}

void CpuBackend::multiply_packed(const Product& product, const ProductJob& job, int64_t first_strip,
                                 int64_t last_strip, int thread) {
  const PackedView view{*job.part->packing, PackedPart(*job.part, product.k), job.matrix};
  // Zero points of groups are subtracted later.
  const std::array<float, 16> numbers = integers(view.packing.zeros ? 0 : view.packing.zero);
  const int64_t together = job.rows == 1 ? kPackedStrips : 1;
  const int64_t tiles = product_tiles(job.rows);
  const auto* const rows = reinterpret_cast<const float*>(job.rows_packed);
  const RowTiles row_tiles{rows, job.rows, tiles, padded_columns(product.k)};
  const std::vector<float> row_sums =
      view.packing.has_minimums() ? row_tiles.sums(view.packing.group) : std::vector<float>();
  std::vector<float>& floats = unpacked_[thread];
  for (int64_t strip = first_strip; strip < last_strip; strip += together) {
    const int64_t strips = std::min(together, last_strip - strip);
    PackedTile tile = packed_tile(view, strip, product.first_input);
    tile.strips = static_cast<int>(strips);
    tile.c_stride = strips * kStrip;
    if (tile.table == nullptr) tile.table = numbers.data();
    tile.ahead = asked_ahead_;
    decode_scales(kernels_, view, strip, decoded_scales_[thread], tile);
    if (tiles >= kUnpackedTiles) {
      floats.resize(std::max(floats.size(), static_cast<size_t>(product.k * kStrip)));
      kernels_.unpack_codes(tile, floats.data());
      tile.codes = reinterpret_cast<const std::byte*>(floats.data());
      tile.unpacked = true;
    }
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first = row_tiles.first(t);
      tile.rows = static_cast<int>(row_tiles.first(t + 1) - first);
      tile.a = rows + first * padded_columns(product.k);
      if (!row_sums.empty()) tile.row_sums = row_sums.data() + first * view.layout.groups;
      const auto make = [&](int64_t slice, float* to) {
        PackedTile part = slice_of(tile, product.k / product.slices, slice);
        part.c = to;
        kernels_.packed(part);
      };
      add_slices<kMaxProductRows * kPackedStrips * kStrip>(product, job,
                                                           {first, tile.rows, strip, strips}, make);
    }
  }
}

void CpuBackend::multiply_widened(const Product& product, const ProductJob& job,
                                  int64_t first_strip, int64_t last_strip, int thread) {
  const PackedView view{*job.part->packing, PackedPart(*job.part, product.k), job.matrix};
  std::vector<float>& strip = decoded_scales_[thread];
  const auto numbers = static_cast<size_t>(product.k * kStrip);
  strip.resize(std::max(strip.size(), static_cast<size_t>(padded_columns(product.k) * kStrip)));
  std::fill(strip.begin() + numbers, strip.end(), 0.f);
  for (int64_t s = first_strip; s < last_strip; ++s) {
    const int64_t first = s * kStrip;
    kernels_.widen(job.matrix + view.layout.scales + s * view.layout.strip_scales,
                   dtype_of(view.packing.scale), strip.data(), static_cast<int64_t>(numbers));
    if (view.packing.factors)
      for (size_t i = 0; i < numbers; ++i)
        strip[i] *= view.at<float>(view.layout.factors)[first + i % kStrip];
    Product one = product;
    one.n = std::min(kStrip, product.n - first);
    one.bias = product.bias == nullptr ? nullptr : product.bias + first;
    one.dtype = DType::f32;
    one.jobs = {};
    ProductJob plain = job;
    plain.matrix = reinterpret_cast<const std::byte*>(strip.data());
    plain.part = nullptr;
    plain.out = job.out + first;
    multiply_strips(one, plain, 0, 1, 1);
  }
}

void CpuBackend::multiply_integers(const Product& product, const ProductJob& job,
                                   int64_t first_strip, int64_t last_strip) const {
  const PackedView view{*job.part->packing, PackedPart(*job.part, product.k), job.matrix};
  const int64_t width = product.k / product.slices;
  // The bytes are only read, in spite of the cast.
  const IntegerRows rows(const_cast<std::byte*>(job.rows_packed), job.rows, product.k,
                         product.slices);
  for (int64_t strip = first_strip; strip < last_strip; ++strip) {
    const PackedTile strip_tile = packed_tile(view, strip, product.first_input);
    for (int64_t first = 0; first < job.rows; first += kIntegerRows) {
      const int64_t count = std::min<int64_t>(kIntegerRows, job.rows - first);
      const auto make = [&](int64_t slice, float* to) {
        integer_product_({.a = rows.codes + first * rows.stride + slice * width,
                          .stride = rows.stride,
                          .row_scales = rows.scales + first,
                          .row_sums = rows.sums + slice * job.rows + first,
                          .rows = static_cast<int>(count),
                          .codes = slice_of(strip_tile, width, slice).codes,
                          .columns = width,
                          .scales = reinterpret_cast<const float*>(strip_tile.scales),
                          .zero = static_cast<int32_t>(view.packing.zero),
                          .c = to});
      };
      add_slices<kIntegerRows * kStrip>(product, job, {first, count, strip}, make);
    }
  }
}

void CpuBackend::multiply_fixed(const Product& product, const ProductJob& job, int64_t first_strip,
                                int64_t last_strip, int thread) {
  const PackedView view{*job.part->packing, PackedPart(*job.part, product.k), job.matrix};
  const int64_t width = product.k / product.slices;
  const FixedRow row{job.planes, product.slices, width, view.packing.group,
                     view.lead(product.first_input)};
  const auto stride = static_cast<int64_t>(packed_rows_bytes(1, product.k));
  // Several strips are multiplied together when there are few rows: between two calls memory would
  // stand idle. Slices of one strip lie one after the other.
  const int64_t most_rows = fixed_rows(job.planes);
  const int64_t together = product.slices == 1 ? std::max<int64_t>(kFixedRows / job.rows, 1) : 1;
  for (int64_t strip = first_strip; strip < last_strip; strip += together) {
    PackedTile tile = packed_tile(view, strip, product.first_input);
    tile.strips = static_cast<int>(std::min(together, last_strip - strip));
    decode_scales(kernels_, view, strip, decoded_scales_[thread], tile);
    for (int64_t first = 0; first < job.rows; first += most_rows) {
      const int64_t count = std::min(most_rows, job.rows - first);
      const std::byte* const a = job.rows_packed + first * stride;
      const auto make = [&](int64_t slice, float* to) {
        const PackedTile part = slice_of(tile, width, slice);
        const FixedChunks chunks = row.chunks(slice);
        fixed_->multiply({.weight = &part,
                          .planes = row.planes,
                          .chunks = &chunks,
                          .a = a + slice * width * row.planes,
                          .scales = a + row.scales_at() + 4 * slice * row.room(),
                          .sums = a + row.sums_at() + 8 * slice * row.room(),
                          .stride = stride,
                          .rows = static_cast<int>(count),
                          .c = to,
                          .ahead = job.rows <= kFewRows ? asked_ahead_ : 0});
      };
      add_slices<kByteRows * kStrip>(product, job, {first, count, strip, tile.strips}, make);
    }
  }
}

void CpuBackend::linear_packed(const ops::Linear& op, std::byte* workspace) {
  const View& in = op.in;
  const Weight& weight = op.weight;
  const auto* from = static_cast<const float*>(in.data);
  const auto* const biases = static_cast<const float*>(op.bias.data);
  const int64_t slices = weight.spec->slices;
  const auto row_of = [&](int64_t row) { return from + row * in.stride; };
  auto* const maxima = reinterpret_cast<float*>(workspace + packed_rows_bytes(in.rows, in.columns));
  const SharedMost most = find_most(in.rows, in.columns, row_of, weight, maxima);
  std::optional<std::pair<DType, InputRule>> rows_are;
  for (const Segment& segment : packed_segments(*weight.spec, weight.dtype, 0).parts) {
    const bool packed = segment.part->packing.has_value();
    const DType dtype = packed ? DType::f32 : weight.dtype;
    const std::byte* const matrix = static_cast<const std::byte*>(weight.data) + segment.offset;
    const InputRule rule = packed ? rule_of(*segment.part, weight, matrix) : InputRule{};
    if (rows_are != std::pair(dtype, rule)) {
      pack(in.rows, in.columns, dtype, workspace, row_of, {rule, slices, most});
      rows_are = std::pair(dtype, rule);
    }
    const ProductJob job{.rows_packed = workspace,
                         .rows = in.rows,
                         .matrix = matrix,
                         .part = packed ? segment.part : nullptr,
                         .planes = rule.planes,
                         .out = static_cast<float*>(op.out.data) + segment.first_row,
                         .out_stride = op.out.stride};
    multiply({.n = segment.part->rows(),
              .k = weight.spec->columns(),
              .slices = slices,
              .first_input = weight.first_input(),
              .dtype = dtype,
              .bias = biases == nullptr ? nullptr : biases + segment.first_row,
              .activation = op.activation,
              .jobs = {&job, 1}});
  }
}

}  // namespace plimsoll::backend
