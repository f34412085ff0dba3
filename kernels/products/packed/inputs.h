// Input rows of products with the parts of one quantized weight: unchanged, or rewritten in a
// workspace.
#pragma once

#include <cuda_runtime.h>

#include "backend/operands.h"
#include "backend/row_maxima.h"
#include "kernels/products/packed/packed.h"
#include "kernels/rows/round_inputs.h"

namespace plimsoll::kernels {

/// A quantized segment of a weight (of the first expert's) that lies at `data`.
PackedPart packed_part(const model::WeightSpec& spec, const void* data,
                       const backend::Segments& segments, const backend::Segment& segment);

/// Row maxima of a product's inputs that other ranks have.
struct SharedMost {
  const float* most = nullptr;  // null: they have nothing that rounding needs
  int64_t count = 0, lead = 0;  // RoundInputs
};
/// The part of row maxima for the product's inputs from number `first` on.
SharedMost most_from(const SharedMost& all, const backend::RowMaxima& maxima, int64_t first);
/// Row maxima of all inputs from the first of these on: of this rank's inputs and of other ranks',
/// if there are any. `at`: room for RowMaxima::count floats a row.
SharedMost most_of_all(const View& in, const backend::Weight& weight,
                       const backend::RowMaxima& maxima, std::byte* at, cudaStream_t stream);
/// Exchanges row maxima; `at`: room for backend::RowMaxima::count floats a row. All ranks call it.
SharedMost share_most(const View& in, const backend::Weight& weight, std::byte* at,
                      cudaStream_t stream);

class PackedInputs {
 public:
  /// `workspace`: rows of backend::cuda::rewritten_columns() of in's type.
  PackedInputs(const View& in, std::byte* workspace, cudaStream_t stream)
      : in_(in), workspace_(workspace), stream_(stream) {}
  /// Sets sorted slots as the products' rows; each slot has a row of its own when they are
  /// rewritten.
  void of_slots(const ExpertSlots& slots, int64_t slots_per_row);
  /// Sets the row maxima where other ranks have inputs of the same rows.
  void of_ranks(const SharedMost& shared) { shared_ = shared; }
  /// Rewrites rows where the part needs that and the previous part did not need the same.
  View rows_for(const PackedPart& part);

 private:
  View in_;
  std::byte* workspace_;
  cudaStream_t stream_;
  const ExpertSlots* slots_ = nullptr;
  int64_t slots_per_row_ = 0;
  SharedMost shared_{};
  model::InputRounding last_ = model::InputRounding::none;  // `none`: nothing that others share
};

}  // namespace plimsoll::kernels
