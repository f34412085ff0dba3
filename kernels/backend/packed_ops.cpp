// Products of the CUDA backend with quantized weights.
#include "kernels/products/packed/packed.h"

#include "kernels/backend/cuda_backend.h"
#include "kernels/products/packed/inputs.h"

namespace plimsoll::kernels {

using backend::Segment;
using backend::View;
using backend::Weight;
using backend::cuda::fp8_offset;
using backend::cuda::multiplies_fp8;
using backend::cuda::packed_segments;
using backend::cuda::rewritten_bytes;
using backend::cuda::row_type;

void CudaBackend::linear_packed(const ops::Linear& op, std::byte* workspace) {
  const View& in = op.in;
  const Weight& weight = op.weight;
  note_packed(*weight.spec, in.dtype);
  const backend::Segments segments = packed_segments(*weight.spec, weight.dtype, 0);
  PackedInputs inputs(in, workspace, stream());
  std::byte* const behind = workspace + rewritten_bytes(in.rows, *weight.spec, in.dtype);
  const SharedMost shared = share_most(in, weight, behind, stream());
  inputs.of_ranks(shared);
  for (const backend::Segment& segment : segments.parts) {
    const View columns = op.out.slice_columns(segment.first_row, segment.part->rows());
    Weight own_bias = op.bias;
    if (op.bias) {
      own_bias.data = static_cast<std::byte*>(op.bias.data) +
                      static_cast<size_t>(segment.first_row) * dtype_size(op.bias.dtype);
    }
    if (const std::optional<DType> dtype = row_type(*segment.part, weight.dtype)) {
      const model::WeightSpec plain{.name = weight.spec->name,
                                    .shape = {segment.part->rows(), weight.spec->columns()}};
      std::byte* const data = static_cast<std::byte*>(weight.data) + segment.offset;
      const Weight part{.spec = &plain, .dtype = *dtype, .data = data};
      linear_plain({columns, in, part, own_bias, op.activation});
      continue;
    }
    const PackedPart part = packed_part(*weight.spec, weight.data, segments, segment);
    const Vector own{own_bias.data, own_bias.dtype};
    const Fp8Linear fp8{.out = columns,
                        .in = in,
                        .part = part,
                        .bias = own,
                        .activation = op.activation,
                        .shared = shared,
                        .workspace = workspace + fp8_offset(in.rows, *weight.spec, in.dtype)};
    if (may_multiply_fp8(weight, *segment.part, in.dtype) && fp8_.run(fp8)) continue;
    packed_linear({.out = columns,
                   .in = inputs.rows_for(part),
                   .part = part,
                   .bias = own,
                   .activation = op.activation,
                   .tiles = tiles_of_packed()},
                  stream());
  }
}

// True when the product may take 8-bit floats. Where each of several ranks has all of a weight
// their clocks must not choose: see set_among_ranks.
bool CudaBackend::may_multiply_fp8(const Weight& weight, const model::Part& part, DType in) const {
  if (among_ranks_ && weight.spec->ranks == 1) return false;
  return multiplies_fp8(part, weight.spec->columns(), in, footprint_of_device.card());
}

PackedTiles CudaBackend::tiles_of_packed() const {
  // A row has the same bits in any batch only where one arrangement serves all row counts.
  return is_deterministic() ? PackedTiles::many : PackedTiles::by_rows;
}

void CudaBackend::note_packed(const model::WeightSpec& spec, DType in) {
  for (const model::Part& part : spec.parts) {
    if (row_type(part, {})) continue;
    const model::Packing& packing = *part.packing;
    const bool minimums = packing.has_minimums();
    if (packed_types_.emplace(packing.code, packing.bits, minimums, in).second)
      load_packed(packing, in);
  }
}

}  // namespace plimsoll::kernels
