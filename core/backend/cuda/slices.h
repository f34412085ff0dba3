// Sizes of products with --deterministic, whose bits are equal for any number of ranks: the memory
// that they take beside their operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Rows whose slices are multiplied and added at a time.
inline constexpr int64_t kSlicedRows = 256;
/// Rows that are copied at a time where operands lie otherwise than with other numbers of ranks.
inline constexpr int64_t kStagedRows = 64;
/// Alignment of all operands of a product, in bytes.
inline constexpr size_t kPinnedAlignment = 16;

/// True when a product is made of slices (model/slices.h), of which a rank may have one alone.
/// False for quantized weights that have plain parts too, or a stated order in groups of odd sizes.
bool is_sliced(const model::WeightSpec& spec);

/// A weight of a rank whose results differ in bits at other numbers of ranks all the same; null:
/// none.
const model::WeightSpec* find_unpinned(const model::ModelSpec& spec);

/// Groups of a mixture's experts, one after the other, of which a rank may have one alone. A
/// token's choices in each group are summed, and the groups' sums are added in a tree of pairs.
int64_t expert_groups(int64_t experts);

/// One slice of a sliced weight, as one of as many ranks as there are slices would have it. A
/// quantized weight is stored so, each slice of a matrix after the one before.
model::WeightSpec slice_of(const model::WeightSpec& spec);

/// Floats from row to row of a slice's sums.
constexpr int64_t slice_stride(int64_t columns) {
  return (columns + 3) / 4 * 4;
}

/// Slices of a trial of a product's bits.
inline constexpr int64_t kTrialSlices = 2;
/// Workspace of a trial of a product's bits (Products::tune), `depth` inputs deep, with 1,000
/// columns, and with some hundred rows. Scratch has it, so that launches with any number of ranks
/// try the same.
size_t pin_trial_bytes(int64_t depth, DType dtype);

/// Workspace of a product of `rows` with a plain matrix; offsets in bytes. It has room for a trial
/// too.
struct PinnedLayout {
  size_t in = 0;     // [kStagedRows, k], of the rows' type
  size_t out = 0;    // [kStagedRows, n], of at most four bytes
  size_t sums = 0;   // [slices][kSlicedRows, n] f32, where there are any
  size_t bytes = 0;  // all aligned to 256
  PinnedLayout(int64_t rows, const model::WeightSpec& spec, DType dtype);
};

/// Workspace of a product of `rows` with a quantized matrix, slice after slice.
struct PackedSlicesLayout {
  size_t rewritten = 0;  // rows that a slice's product reads
  size_t most = 0;       // maxima of the inputs of all slices
  size_t sums = 0;
  size_t bytes = 0;
  PackedSlicesLayout(int64_t rows, const model::WeightSpec& spec, DType dtype);
};

/// Workspace of experts in slices, after ExpertsLayout: rewritten inputs of quantized ones, then
/// the sums of their second product, slice after slice.
struct SlicedExpertsLayout {
  size_t rewritten = 0;
  size_t downs = 0;    // [slots, hidden] f32
  size_t waiting = 0;  // [waiting_sums(down)][rows, hidden] f32
  size_t bytes = 0;
  SlicedExpertsLayout(int64_t rows, int64_t experts_per_token, const model::WeightSpec& up,
                      const model::WeightSpec& down, DType dtype);
};

/// Most sums of slices that wait for others, where they are made one after the other: the last of
/// them becomes the sum of all. Where ranks have whole experts each slice is summed over ranks
/// before, and all wait for that.
int64_t waiting_sums(const model::WeightSpec& down);

}  // namespace plimsoll::backend::cuda
