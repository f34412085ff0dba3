// A model run without the engine: sequences with block tables of their own, fed by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "engine/layout.h"

namespace plimsoll::testing {

/// Tokens that a sequence is given in one step, after those that it already has.
struct Feed {
  int32_t sequence = 0;
  std::vector<int32_t> tokens;
};

class ModelRunner {
 public:
  struct Limits {
    int64_t length = 0;  // tokens of one sequence, and of one step
    int64_t sequences = 1;
    std::optional<DType> kv_dtype = {};  // of the cache, unlike the model's
  };

  ModelRunner(const model::ModelSpec& spec, const checkpoint::WeightSource& weights,
              backend::Backend& backend, DType dtype, Limits limits)
      : spec_(spec),
        backend_(backend),
        layout_(lay_out(spec, backend.footprint(), dtype, limits)),
        plan_(engine::plan_layout(spec, layout_, backend.footprint())),
        memory_(plan_, backend),
        launch_(spec, layout_, backend, memory_.device(), memory_.host()),
        blocks_(static_cast<size_t>(layout_.num_blocks)) {
    backend_.start_launch(launch_.backend_parts);
    launch_.model.load(weights);
    // Blocks of a sequence lie in any order.
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(7));
    restart();
  }

  /// Forgets all sequences.
  void restart() {
    const auto sequences = static_cast<size_t>(layout_.limits.sequences);
    lengths_.assign(sequences, 0);
    long_rope_.assign(sequences, 0);
  }

  /// Uses the long table of longrope for the sequence; set before its first token.
  void use_long_rope(int32_t sequence) { long_rope_[static_cast<size_t>(sequence)] = 1; }

  /// Runs one step; logits [vocab] of every token fed, in order.
  std::vector<std::vector<float>> run(std::span<const Feed> feeds) {
    const backend::BatchMeta batch = fill(feeds);
    backend_.start_step(batch);
    const memory::Scope scope(launch_.scratch);
    backend::View hidden;
    backend_.run_step(0, [&] { hidden = launch_.model.forward(batch); });
    backend_.finish_step(batch);
    std::vector<std::vector<float>> rows;
    const int64_t most =
        layout_.staging_rows > 0 ? layout_.staging_rows : layout_.limits.logits_rows;
    for (int64_t first = 0; first < hidden.rows; first += most) {
      const int64_t count = std::min(most, hidden.rows - first);
      const memory::Scope slice(launch_.scratch);
      const backend::View logits = launch_.model.logits(hidden.slice_rows(first, count));
      const float* values = backend_.host_logits(logits, launch_.logits_staging);
      for (int64_t row = 0; row < count; ++row) {
        rows.emplace_back(values + row * logits.stride,
                          values + row * logits.stride + logits.columns);
      }
    }
    backend_.await_step(batch);
    return rows;
  }

 private:
  static engine::EngineLayout lay_out(const model::ModelSpec& spec,
                                      const backend::Footprint& footprint, DType dtype,
                                      Limits limits) {
    engine::EngineOptions options;
    options.dtype = dtype;
    options.kv_dtype = limits.kv_dtype;
    options.max_model_len = limits.length;
    options.max_num_seqs = limits.sequences;
    options.max_num_batched_tokens = limits.length * limits.sequences;
    options.num_kv_blocks = limits.sequences * static_cast<int64_t>(spec.layers.size()) *
                            ((limits.length + options.block_size - 1) / options.block_size);
    return engine::resolve_layout(spec, options, footprint);
  }

  backend::BatchMeta fill(std::span<const Feed> feeds) {
    engine::BatchSlab& to = launch_.batch.slab();
    size_t row = 0;
    for (size_t s = 0; s < feeds.size(); ++s) {
      int32_t& length = lengths_[static_cast<size_t>(feeds[s].sequence)];
      fill_tables(s, feeds[s].sequence, length);
      to.query_start[s] = static_cast<int32_t>(row);
      for (const int32_t token : feeds[s].tokens) {
        to.token_ids[row] = token;
        to.positions[row] = length++;
        to.row_sequence[row] = static_cast<int32_t>(s);
        to.logits_rows[row] = static_cast<int32_t>(row);
        ++row;
      }
      to.context_length[s] = length;
      if (!to.state_slots.empty()) to.state_slots[s] = feeds[s].sequence;
      to.long_rope[s] = long_rope_[static_cast<size_t>(feeds[s].sequence)];
    }
    to.query_start[feeds.size()] = static_cast<int32_t>(row);
    const auto rows = static_cast<int64_t>(row);
    return launch_.batch.meta(0, {.tokens = rows,
                                  .sequences = static_cast<int64_t>(feeds.size()),
                                  .logits_rows = rows,
                                  .table_width = layout_.limits.table_stride});
  }

  /// Frees the blocks before the window of the first row.
  void fill_tables(size_t slot, int32_t sequence, int32_t first_position) {
    const auto stride = static_cast<size_t>(layout_.limits.table_stride);
    for (size_t g = 0; g < layout_.kv.groups.size(); ++g) {
      const int64_t window = layout_.kv.groups[g].window;
      const int64_t seen = window == 0 ? 0 : std::max<int64_t>(0, first_position - window + 1);
      const auto gone = static_cast<size_t>(seen / layout_.kv.block_size);
      const size_t owned = (static_cast<size_t>(sequence) * layout_.kv.groups.size() + g) * stride;
      for (size_t i = 0; i < stride; ++i) {
        launch_.batch.slab().block_tables[g][slot * stride + i] =
            i < gone ? -1 : blocks_[owned + i];
      }
    }
  }

  const model::ModelSpec& spec_;
  backend::Backend& backend_;
  engine::EngineLayout layout_;
  engine::EnginePlan plan_;
  engine::LaunchMemory memory_;
  engine::Launch launch_;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> lengths_;
  std::vector<uint8_t> long_rope_;
};

}  // namespace plimsoll::testing
