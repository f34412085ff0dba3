// Turns a scheduled step into the flat arrays that the forward pass reads.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/layout.h"
#include "engine/scheduler.h"

namespace plimsoll::engine {

/// Writes into arrays that were laid out for the largest step. Block tables stay where they are
/// from step to step: as long as a row keeps its sequence only new and emptied entries are written,
/// so a step costs as much as it computes, not as much as the sequences are long.
class BatchBuilder {
 public:
  BatchBuilder(BatchArrays& arrays, const StepLimits& limits);

  /// Valid until the next call. logits_rows are the pieces' wanted rows, in order.
  backend::BatchMeta build(const std::vector<Piece>& pieces);

 private:
  /// What a row of the block tables holds.
  struct TableRow {
    uint64_t serial = 0;
    uint64_t version = 0;
    int64_t filled = 0;
    std::vector<int64_t> released;  // per KV group
  };

  void write_tables(TableRow& row, size_t index, const Sequence& sequence);

  BatchArrays& arrays_;
  std::vector<TableRow> rows_;
};

}  // namespace plimsoll::engine
