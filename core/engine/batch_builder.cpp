#include "engine/batch_builder.h"

#include <algorithm>

namespace plimsoll::engine {

BatchBuilder::BatchBuilder(BatchArrays& arrays, const StepLimits& limits)
    : arrays_(arrays), rows_(static_cast<size_t>(limits.sequences)) {
  for (TableRow& row : rows_) row.released.resize(arrays.block_tables.size());
}

backend::BatchMeta BatchBuilder::build(const std::vector<Piece>& pieces) {
  size_t token = 0;
  size_t logits = 0;
  arrays_.query_start[0] = 0;
  for (size_t index = 0; index < pieces.size(); ++index) {
    const Piece& piece = pieces[index];
    for (int64_t position = piece.first; position < piece.end(); ++position, ++token) {
      arrays_.token_ids[token] = piece.sequence->token(position);
      arrays_.positions[token] = static_cast<int32_t>(position);
      arrays_.row_sequence[token] = static_cast<int32_t>(index);
      if (position < piece.logits_from) continue;
      arrays_.logits_rows[logits++] = static_cast<int32_t>(token);
    }
    arrays_.query_start[index + 1] = static_cast<int32_t>(token);
    arrays_.context_length[index] = static_cast<int32_t>(piece.end());
    arrays_.long_rope[index] = piece.sequence->long_rope ? 1 : 0;
    write_tables(rows_[index], index, *piece.sequence);
  }
  return arrays_.meta(static_cast<int64_t>(token), static_cast<int64_t>(pieces.size()),
                      static_cast<int64_t>(logits));
}

void BatchBuilder::write_tables(TableRow& row, size_t index, const Sequence& sequence) {
  if (row.serial != sequence.serial || row.version != sequence.table_version) {
    row.serial = sequence.serial;
    row.version = sequence.table_version;
    row.filled = 0;
    std::ranges::fill(row.released, 0);
  }
  for (size_t group = 0; group < sequence.tables.size(); ++group) {
    const BlockTable& table = sequence.tables[group];
    int32_t* entries =
        arrays_.block_tables[group].data() + index * static_cast<size_t>(arrays_.table_stride);
    for (int64_t& i = row.released[group]; i < table.released; ++i) entries[i] = kNoBlock;
    const auto length = static_cast<int64_t>(table.blocks.size());
    for (int64_t i = std::max(row.filled, table.released); i < length; ++i) {
      entries[i] = table.blocks[static_cast<size_t>(i)].id();
    }
  }
  row.filled = static_cast<int64_t>(sequence.tables.front().blocks.size());
}

}  // namespace plimsoll::engine
