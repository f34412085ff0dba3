// Turns a scheduled step into the flat arrays that the forward pass reads.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/batch_arrays.h"
#include "engine/scheduler.h"

namespace plimsoll::engine {

/// A position of a sequence whose logits are wanted.
struct WantedRow {
  Sequence* sequence = nullptr;
  int64_t position = 0;
  int64_t draft = 0;  // how many proposed tokens the row has seen
  TokenId input = 0;  // the last of them, at `position`

  /// True when the row's logits are those of the sequence as it is now: what was proposed has come.
  [[nodiscard]] bool holds() const {
    return draft == 0 ||
           (position + 1 == sequence->known_length() && sequence->token(position) == input);
  }
};

/// A step that is built, and perhaps under way.
struct Step {
  backend::BatchMeta meta;
  /// The rows of meta.logits_rows, without padding: first the rows that the device draws, entry d
  /// of meta.drawn, then the rows that the host reads.
  std::vector<WantedRow> drawn;
  std::vector<WantedRow> read;
  /// Entries of `drawn` whose answers a guide holds, mask after mask: the host fills these when it
  /// knows the tokens before (BatchMeta::drawing).
  std::vector<size_t> masked;
  int64_t recorded_size = 0;   // rows, padding included; 0: not recorded
  bool decodes_alone = false;  // no row of a prompt
};

/// Writes steps into arrays that were laid out for the largest step. Block tables stay in place
/// from step to step: as long as a row keeps its sequence only new and emptied entries are written,
/// so a step costs as much as it computes, not as much as the sequences are long.
class BatchBuilder {
 public:
  /// `recorded_sizes` ascending: steps of one token from each sequence, all drawn on the device,
  /// are padded to the next of them.
  BatchBuilder(BatchArrays& arrays, const StepLimits& limits, const backend::Footprint& footprint,
               std::vector<int64_t> recorded_sizes);

  /// Fills the slab `slot` and describes it in `step`, whose vectors are used again.
  void build(const std::vector<Piece>& pieces, size_t slot, Step& step);
  /// Fills the slab `slot` with `size` rows of padding, whose logits the host reads where the
  /// device does not draw.
  void build_padding(int64_t size, size_t slot, Step& step);

 private:
  /// Contents of a row of the block tables.
  struct TableRow {
    uint64_t serial = 0;
    uint64_t version = 0;
    int64_t filled = 0;
    std::vector<int64_t> released;  // per KV group
  };

  void write_rows(const Piece& piece, size_t index, BatchSlab& slab, StepExtent& extent,
                  Step& step);
  void want(const WantedRow& wanted, int32_t row, BatchSlab& slab, StepExtent& extent, Step& step);
  [[nodiscard]] bool drawn_by_device(const WantedRow& wanted) const;
  bool write_changes(const WantedRow& wanted, BatchSlab& slab, StepExtent& extent) const;
  void write_tables(TableRow& row, size_t index, BatchSlab& slab, const Sequence& sequence) const;
  /// The next recorded size; 0 when there is none.
  [[nodiscard]] int64_t padded_size(int64_t rows) const;
  static void pad(int64_t size, BatchSlab& slab, StepExtent& extent);

  BatchArrays& arrays_;
  int64_t table_stride_;
  const backend::Footprint& footprint_;
  std::vector<int64_t> recorded_sizes_;
  std::vector<std::vector<TableRow>> rows_;  // [slabs][sequences]
  std::vector<int32_t> read_rows_;           // of the step that is being built
};

}  // namespace plimsoll::engine
