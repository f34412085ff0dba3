#include "engine/batch_builder.h"

#include <algorithm>
#include <utility>

#include "engine/sampling/choice.h"

namespace plimsoll::engine {

BatchBuilder::BatchBuilder(BatchArrays& arrays, const StepLimits& limits,
                           const backend::Footprint& footprint, std::vector<int64_t> recorded_sizes)
    : arrays_(arrays),
      table_stride_(limits.table_stride),
      footprint_(footprint),
      recorded_sizes_(std::move(recorded_sizes)),
      rows_(arrays.slabs(), std::vector<TableRow>(limits.sequences)) {
  const size_t groups = arrays.slab().block_tables.size();
  for (std::vector<TableRow>& slab : rows_) {
    for (TableRow& row : slab) row.released.resize(groups);
  }
}

namespace {

/// f(row, image, run, position) for each token of an image in the piece, whose first row is
/// `row`.
template <typename F>
void for_image_rows(const Piece& piece, int64_t row, const F& f) {
  if (piece.sequence->images == nullptr) return;
  const Images& images = *piece.sequence->images;
  for (size_t i = 0; i < images.items.size(); ++i) {
    for (const ImageRun& run : images.items[i].runs) {
      const int64_t end = std::min(run.end(), piece.end());
      for (int64_t at = std::max(run.first, piece.first); at < end; ++at) {
        f(static_cast<size_t>(row + at - piece.first), i, run, at);
      }
    }
  }
}

void write_embeddings(const std::vector<Piece>& pieces, BatchSlab& slab, StepExtent& extent) {
  for (size_t index = 0; index < pieces.size(); ++index) {
    const Sequence& sequence = *pieces[index].sequence;
    for_image_rows(pieces[index], slab.query_start[index],
                   [&](size_t row, size_t image, const ImageRun& run, int64_t position) {
                     const auto entry = static_cast<size_t>(extent.embedded++);
                     slab.embedded_rows[entry] = static_cast<int32_t>(row);
                     slab.embedding_rows[entry] = static_cast<int32_t>(
                         sequence.image_rows[image] + run.embedding + position - run.first);
                   });
  }
}

void write_sights(const std::vector<Piece>& pieces, BatchSlab& slab, StepExtent& extent) {
  extent.sees_ahead = true;
  for (size_t row = 0; row < static_cast<size_t>(extent.tokens); ++row) {
    slab.seen_end[row] = slab.positions[row] + 1;
  }
  for (size_t index = 0; index < pieces.size(); ++index) {
    for_image_rows(pieces[index], slab.query_start[index],
                   [&](size_t row, size_t, const ImageRun& run, int64_t) {
                     slab.seen_end[row] = static_cast<int32_t>(run.end());
                   });
  }
}

/// Writes the positions of all rows, padding too, because a recorded step always reads them.
void write_rope_positions(const std::vector<Piece>& pieces, BatchSlab& slab, StepExtent& extent) {
  extent.turns = true;
  const auto tokens = static_cast<size_t>(extent.tokens);
  for (size_t kind = 0; kind < 3; ++kind) {
    std::copy_n(slab.positions.begin(), tokens, slab.rope_positions.subspan(kind * tokens).begin());
  }
  for (size_t index = 0; index < pieces.size(); ++index) {
    const Piece& piece = pieces[index];
    if (piece.sequence->images == nullptr) continue;
    const Images& images = *piece.sequence->images;
    const auto prompt = static_cast<size_t>(piece.sequence->prompt_length());
    auto row = static_cast<size_t>(slab.query_start[index]);
    for (auto at = static_cast<size_t>(piece.first); at < static_cast<size_t>(piece.end()); ++at) {
      for (size_t kind = 0; kind < 3; ++kind) {
        slab.rope_positions[kind * tokens + row] =
            at < prompt ? images.rope_positions[kind * prompt + at]
                        : static_cast<int32_t>(at) + images.rope_delta;
      }
      ++row;
    }
  }
}

}  // namespace

void BatchBuilder::build(const std::vector<Piece>& pieces, size_t slot, Step& step) {
  BatchSlab& slab = arrays_.slab(slot);
  StepExtent extent;
  extent.sequences = static_cast<int64_t>(pieces.size());
  step.drawn.clear();
  step.read.clear();
  step.masked.clear();
  read_rows_.clear();
  slab.query_start[0] = 0;
  if (!slab.sections.empty()) slab.sections[0] = 0;
  for (size_t index = 0; index < pieces.size(); ++index) {
    const Sequence& sequence = *pieces[index].sequence;
    write_rows(pieces[index], index, slab, extent, step);
    slab.query_start[index + 1] = static_cast<int32_t>(extent.tokens);
    slab.context_length[index] = static_cast<int32_t>(pieces[index].end());
    slab.long_rope[index] = sequence.long_rope ? 1 : 0;
    if (!slab.state_slots.empty()) slab.state_slots[index] = sequence.state_slot;
    write_tables(rows_[slot][index], index, slab, sequence);
    extent.table_width = std::max(extent.table_width, std::ssize(sequence.tables.front().blocks));
  }
  if (!slab.embedded_rows.empty()) write_embeddings(pieces, slab, extent);
  if (!slab.seen_end.empty() && extent.embedded > 0) write_sights(pieces, slab, extent);
  std::ranges::copy(read_rows_, slab.logits_rows.begin() + extent.drawn);
  extent.logits_rows = extent.drawn + std::ssize(read_rows_);
  // Masks come between the forward pass and the draw, which a recorded step has in one.
  const bool uniform = extent.tokens == extent.sequences && extent.drawn == extent.tokens &&
                       extent.embedded == 0 && extent.masks == 0;
  step.recorded_size = uniform ? padded_size(extent.tokens) : 0;
  if (step.recorded_size > 0) pad(step.recorded_size, slab, extent);
  if (!slab.rope_positions.empty()) write_rope_positions(pieces, slab, extent);
  step.meta = arrays_.meta(slot, extent);
}

void BatchBuilder::build_padding(int64_t size, size_t slot, Step& step) {
  BatchSlab& slab = arrays_.slab(slot);
  StepExtent extent;
  slab.query_start[0] = 0;
  if (!slab.sections.empty()) slab.sections[0] = 0;
  pad(size, slab, extent);
  if (!slab.rope_positions.empty()) write_rope_positions({}, slab, extent);
  step.drawn.clear();
  step.masked.clear();
  step.read.resize(size - extent.drawn);
  step.meta = arrays_.meta(slot, extent);
}

void BatchBuilder::write_rows(const Piece& piece, size_t index, BatchSlab& slab, StepExtent& extent,
                              Step& step) {
  Sequence& sequence = *piece.sequence;
  auto row = static_cast<size_t>(extent.tokens);
  for (int64_t position = piece.first; position < piece.end(); ++position, ++row) {
    const int64_t draft = std::max<int64_t>(position + 1 - sequence.length(), 0);
    slab.token_ids[row] = draft > 0                            ? sequence.draft[draft - 1]
                          : position < sequence.known_length() ? sequence.token(position)
                                                               : -1 - sequence.pending;
    slab.positions[row] = static_cast<int32_t>(position);
    slab.row_sequence[row] = static_cast<int32_t>(index);
    if (position < piece.logits_from) continue;
    want({&sequence, position, draft, slab.token_ids[row]}, static_cast<int32_t>(row), slab, extent,
         step);
  }
  extent.tokens = static_cast<int64_t>(row);
}

void BatchBuilder::want(const WantedRow& wanted, int32_t row, BatchSlab& slab, StepExtent& extent,
                        Step& step) {
  if (!drawn_by_device(wanted) || !write_changes(wanted, slab, extent)) {
    step.read.push_back(wanted);
    read_rows_.push_back(row);
    return;
  }
  const Sequence& sequence = *wanted.sequence;
  const DrawParams params =
      sequence.choice->sampling().draw_params(sequence.length() - sequence.prompt_length());
  const auto entry = static_cast<size_t>(extent.drawn++);
  slab.logits_rows[entry] = row;
  slab.temperature[entry] = params.temperature;
  slab.top_k[entry] = static_cast<int32_t>(params.top_k);
  slab.top_p[entry] = params.top_p;
  slab.min_p[entry] = params.min_p;
  slab.uniform[entry] = params.uniform;
  const bool is_masked = sequence.choice->sampling().is_guided();
  slab.mask_of[entry] = is_masked ? static_cast<int32_t>(extent.masks++) : -1;
  if (is_masked) step.masked.push_back(entry);
  step.drawn.push_back(wanted);
}

// Writes the changes of the next entry's logits. False: there is no room for them.
bool BatchBuilder::write_changes(const WantedRow& wanted, BatchSlab& slab,
                                 StepExtent& extent) const {
  const SamplingState& sampling = wanted.sequence->choice->sampling();
  const bool is_pending = wanted.sequence->pending >= 0;
  ChangeList list(slab.changes.subspan(extent.changes));
  sampling.list_changes(is_pending ? LastToken::pending : LastToken::known, list);
  if (!list.fits()) return false;
  const auto entry = static_cast<size_t>(extent.drawn);
  for (size_t section = 0; section < backend::kChangeSections; ++section) {
    slab.sections[backend::kChangeSections * entry + section + 1] =
        static_cast<int32_t>(extent.changes + static_cast<int64_t>(list.ends()[section]));
  }
  extent.changes += static_cast<int64_t>(list.size());
  const SamplingParams& params = sampling.params();
  slab.repetition[entry] = static_cast<float>(params.repetition_penalty);
  slab.frequency[entry] = static_cast<float>(params.frequency_penalty);
  slab.presence[entry] = static_cast<float>(params.presence_penalty);
  slab.adds_own[entry] = is_pending && sampling.penalizes() ? 1 : 0;
  return true;
}

// The host must see a row for its log probabilities.
bool BatchBuilder::drawn_by_device(const WantedRow& wanted) const {
  if (!arrays_.draws()) return false;
  const Sequence& sequence = *wanted.sequence;
  if (wanted.position + 1 < sequence.length()) return false;  // of the prompt
  const SamplingState& sampling = sequence.choice->sampling();
  const SamplingParams& params = sampling.params();
  return !params.logprobs && params.top_k <= footprint_.largest_drawn_top_k();
}

int64_t BatchBuilder::padded_size(int64_t rows) const {
  const auto size = std::ranges::lower_bound(recorded_sizes_, rows);
  return size == recorded_sizes_.end() ? 0 : *size;
}

void BatchBuilder::pad(int64_t size, BatchSlab& slab, StepExtent& extent) {
  extent.padding = size - extent.tokens;
  for (auto row = static_cast<size_t>(extent.tokens); row < static_cast<size_t>(size); ++row) {
    slab.token_ids[row] = 0;
    slab.positions[row] = 0;
    slab.row_sequence[row] = -1;
    slab.query_start[row + 1] = static_cast<int32_t>(row + 1);
    slab.context_length[row] = 0;
    slab.long_rope[row] = 0;
    if (!slab.state_slots.empty()) slab.state_slots[row] = 0;
    slab.logits_rows[row] = static_cast<int32_t>(row);
    if (slab.temperature.empty()) continue;
    slab.temperature[row] = 0;
    slab.top_k[row] = 0;
    slab.top_p[row] = 1;
    slab.min_p[row] = 0;
    slab.uniform[row] = 0;
    slab.repetition[row] = 1;
    slab.frequency[row] = 0;
    slab.presence[row] = 0;
    slab.adds_own[row] = 0;
    slab.mask_of[row] = -1;
    const size_t first = backend::kChangeSections * row + 1;
    std::ranges::fill(slab.sections.subspan(first, backend::kChangeSections),
                      static_cast<int32_t>(extent.changes));
  }
  extent.tokens = extent.sequences = extent.logits_rows = size;
  extent.drawn = slab.temperature.empty() ? 0 : size;
}

void BatchBuilder::write_tables(TableRow& row, size_t index, BatchSlab& slab,
                                const Sequence& sequence) const {
  if (row.serial != sequence.serial || row.version != sequence.table_version) {
    row.serial = sequence.serial;
    row.version = sequence.table_version;
    row.filled = 0;
    std::ranges::fill(row.released, 0);
  }
  for (size_t group = 0; group < sequence.tables.size(); ++group) {
    const BlockTable& table = sequence.tables[group];
    int32_t* entries = slab.block_tables[group].data() + index * table_stride_;
    for (int64_t& i = row.released[group]; i < table.released; ++i) entries[i] = kNoBlock;
    const auto length = static_cast<int64_t>(table.blocks.size());
    for (int64_t i = std::max(row.filled, table.released); i < length; ++i) {
      entries[i] = table.blocks[i].id();
    }
  }
  row.filled = static_cast<int64_t>(sequence.tables.front().blocks.size());
}

}  // namespace plimsoll::engine
