#include "kernels/products/packed/packed.h"

#include <stdexcept>
#include <type_traits>

#include "kernels/products/packed/kernels.h"

namespace plimsoll::kernels {
namespace {

template <typename F>
void with_codes(const model::Packing& packing, F&& f) {
  if (packing.code == model::Code::e4m3) return f(std::type_identity<PackedKernels<E4m3Codes>>{});
  if (packing.code == model::Code::table) return f(std::type_identity<PackedKernels<TableCodes>>{});
  const bool minimums = packing.has_minimums();
  switch (packing.bits) {
    case 2:
      if (minimums) return f(std::type_identity<PackedKernels<MinimumCodes<2>>>{});
      return f(std::type_identity<PackedKernels<IntegerCodes<2>>>{});
    case 3:
      return f(std::type_identity<PackedKernels<IntegerCodes<3>>>{});
    case 4:
      if (minimums) return f(std::type_identity<PackedKernels<MinimumCodes<4>>>{});
      return f(std::type_identity<PackedKernels<IntegerCodes<4>>>{});
    case 5:
      if (minimums) return f(std::type_identity<PackedKernels<MinimumCodes<5>>>{});
      return f(std::type_identity<PackedKernels<IntegerCodes<5>>>{});
    case 6:
      return f(std::type_identity<PackedKernels<IntegerCodes<6>>>{});
    case 8:
      return f(std::type_identity<PackedKernels<IntegerCodes<8>>>{});
    default:
      throw std::logic_error("packed: no codes of " + std::to_string(packing.bits) + " bits");
  }
}

bool is_wide(const View& in) {
  const size_t four = 4 * dtype_size(in.dtype);
  return reinterpret_cast<uintptr_t>(in.data) % four == 0 && in.stride % 4 == 0;
}

PackedParameters parameters_of(const View& out, const View& in, const PackedPart& part) {
  if (out.dtype != in.dtype && out.dtype != DType::f32)
    throw std::logic_error("packed: types that are not compiled");
  if (in.columns != (part.layout.spread ? part.layout.slots() : part.layout.columns))
    throw std::logic_error("packed: rows are not in the slots' order");
  if (part.packing->has_minimums() && part.packing->bits == 2 && part.layout.half_chunk >= 0)
    throw std::logic_error("packed: rows of Q2_K are whole blocks");
  return {.out = out,
          .in = in,
          .data = part.data,
          .matrix_bytes = part.matrix_bytes,
          .layout = part.layout,
          .packing = *part.packing,
          .blocks = part.packing->has_blocks() ? BlockShape(*find_ggml_blocks(part.packing->blocks))
                                               : BlockShape(),
          .wide = is_wide(in)};
}

void run(const PackedParameters& parameters, bool many, int64_t blocks, cudaStream_t stream) {
  with_codes(parameters.packing, [&](auto kernels) {
    decltype(kernels)::type::launch(parameters, many, blocks, stream);
  });
}

}  // namespace

void packed_linear(const PackedLinear& op, cudaStream_t stream) {
  PackedParameters parameters = parameters_of(op.out, op.in, op.part);
  parameters.bias = op.bias;
  parameters.activation = op.activation;
  if (op.in.rows == 0) return;
  const bool many = op.tiles == PackedTiles::many || op.in.rows > kPackedFew;
  run(parameters, many, 0, stream);
}

void packed_experts(const PackedExperts& op, const ExpertSlots& slots, cudaStream_t stream) {
  if (slots.slots == 0) return;
  PackedParameters parameters = parameters_of(op.out, op.in, op.part);
  parameters.tiles = slots.tiles;
  parameters.starts = slots.starts;
  parameters.order = slots.order;
  parameters.slots_per_row = op.slots_per_row;
  parameters.tile_rows = slots.tile_rows();
  const bool many = op.tiles == PackedTiles::many || parameters.tile_rows > kPackedFew;
  run(parameters, many, slots.count_tiles(), stream);
}

void load_packed(const model::Packing& packing, DType in) {
  with_codes(packing, [&](auto kernels) { decltype(kernels)::type::load(in); });
}

}  // namespace plimsoll::kernels
