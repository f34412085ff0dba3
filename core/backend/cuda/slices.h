// Products with --deterministic, whose bits are the same whatever ranks there are: sizes of what
// they take beside their operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Rows whose slices are multiplied and added at a time.
inline constexpr int64_t kSlicedRows = 256;
/// Rows that are copied at a time where operands lie otherwise than all widths' do.
inline constexpr int64_t kStagedRows = 64;
/// What all operands of a product are aligned to.
inline constexpr size_t kPinnedAlignment = 16;

/// Whether a product is made of slices (model/slices.h), of which a rank may have one alone. Not of
/// quantised weights that have plain parts too, or a stated order in groups of odd sizes.
bool is_sliced(const model::WeightSpec& spec);

/// A weight of a rank's whose results have other bits at other widths all the same; null: none.
const model::WeightSpec* find_unpinned(const model::ModelSpec& spec);

/// Groups of a mixture's experts, one after the other, of which a rank may have one alone: what a
/// token's choices in each of them give is summed, and then added in a tree of pairs.
int64_t expert_groups(int64_t experts);

/// One slice of such a weight, as one of as many ranks as there are slices would have it. Quantised
/// ones are kept so, each slice of a matrix behind the one before.
model::WeightSpec slice_of(const model::WeightSpec& spec);

/// Floats from row to row of a slice's sums.
constexpr int64_t slice_stride(int64_t columns) {
  return (columns + 3) / 4 * 4;
}

/// Slices of a trial of bits.
inline constexpr int64_t kTrialSlices = 2;
/// Room for a trial of bits of so deep a product (Products::tune) with 1,000 columns, and with some
/// hundred rows: scratch has it, so that launches of all widths try the same.
size_t pin_trial_bytes(int64_t depth, DType dtype);

/// Workspace of a product of `rows` with a plain matrix; offsets in bytes. It has room for a trial
/// besides.
struct PinnedLayout {
  size_t in = 0;     // [kStagedRows, k], of the rows' type
  size_t out = 0;    // [kStagedRows, n], of at most four bytes
  size_t sums = 0;   // [slices][kSlicedRows, n] f32, where there are any
  size_t bytes = 0;  // all aligned to 256
  PinnedLayout(int64_t rows, const model::WeightSpec& spec, DType dtype);
};

/// The same with a quantised one, slice after slice.
struct PackedSlicesLayout {
  size_t rewritten = 0;  // rows that a slice's product reads
  size_t most = 0;       // what is largest of the inputs of all slices
  size_t sums = 0;
  size_t bytes = 0;
  PackedSlicesLayout(int64_t rows, const model::WeightSpec& spec, DType dtype);
};

/// Behind the workspace of experts: what quantised ones have rewritten, then of their second
/// product, slice after slice.
struct SlicedExpertsLayout {
  size_t rewritten = 0;
  size_t downs = 0;    // [slots, hidden] f32
  size_t waiting = 0;  // [waiting_sums(down)][rows, hidden] f32
  size_t bytes = 0;
  SlicedExpertsLayout(int64_t rows, int64_t experts_per_token, const model::WeightSpec& up,
                      const model::WeightSpec& down, DType dtype);
};

/// Sums of slices that wait for others, at most, where they are made one after the other: the last
/// of them becomes that of all. Where ranks have whole experts each slice is summed over ranks
/// before, and all wait for that.
int64_t waiting_sums(const model::WeightSpec& down);

}  // namespace plimsoll::backend::cuda
