// Products of the CUDA backend with quantised weights.
#include "kernels/products/packed.h"

#include "kernels/products/packed_inputs.h"
#include "kernels/runtime/cuda_backend.h"

namespace plimsoll::kernels {

using backend::Segment;
using backend::View;
using backend::Weight;
using backend::cuda::packed_segments;
using backend::cuda::rewritten_columns;

void CudaBackend::linear_packed(View out, View in, const Weight& weight, const Weight& bias,
                                model::Activation activation, std::byte* workspace) {
  note_packed(*weight.spec, in.dtype);
  const backend::Segments segments = packed_segments(*weight.spec, weight.dtype, 0);
  PackedInputs inputs(in, workspace, stream());
  const auto rewritten = static_cast<size_t>(in.rows * rewritten_columns(*weight.spec));
  std::byte* const behind = workspace + rewritten * dtype_size(in.dtype);
  inputs.of_ranks(share_most(in, weight, behind, stream()));
  for (const backend::Segment& segment : segments.parts) {
    const View columns = out.slice_columns(segment.first_row, segment.part->rows());
    Weight own_bias = bias;
    if (bias) {
      own_bias.data = static_cast<std::byte*>(bias.data) +
                      static_cast<size_t>(segment.first_row) * dtype_size(bias.dtype);
    }
    if (!segment.part->packing) {
      const model::WeightSpec plain{.name = weight.spec->name,
                                    .shape = {segment.part->rows(), weight.spec->columns()}};
      std::byte* const data = static_cast<std::byte*>(weight.data) + segment.offset;
      linear_plain(columns, in, {.spec = &plain, .dtype = weight.dtype, .data = data}, own_bias,
                   activation);
      continue;
    }
    const PackedPart part = packed_part(*weight.spec, weight.data, segments, segment);
    packed_linear({.out = columns,
                   .in = inputs.rows_for(part),
                   .part = part,
                   .bias = own_bias ? Vector{own_bias.data, own_bias.dtype} : Vector{},
                   .activation = activation,
                   .tiles = tiles_of_packed()},
                  stream());
  }
}

PackedTiles CudaBackend::tiles_of_packed() const {
  // A row has the same bits in any batch only where one arrangement serves all row counts.
  return footprint_of_device.card().deterministic ? PackedTiles::many : PackedTiles::by_rows;
}

void CudaBackend::note_packed(const model::WeightSpec& spec, DType in) {
  for (const model::Part& part : spec.parts) {
    if (!part.packing) continue;
    const model::Packing& packing = *part.packing;
    if (packed_types_.emplace(packing.code, packing.bits, in).second) load_packed(packing, in);
  }
}

}  // namespace plimsoll::kernels
