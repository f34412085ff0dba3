// The classes that a step's sequences fall in: which kernel computes each of them.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/cuda/flash_plan.h"

namespace plimsoll::backend::cuda {

void FlashPlanner::classify(const FlashBatch& batch) {
  const auto sequences = static_cast<int64_t>(batch.context_length.size());
  if (sequences > limits_.sequences || batch.query_start[sequences] > limits_.tokens) {
    throw std::logic_error(
        fmt::format("flash plan: {} sequences with {} rows, limits are {} and {}", sequences,
                    batch.query_start.back(), limits_.sequences, limits_.tokens));
  }
  for (auto& of : classes_) of.clear();
  long_.clear();
  recordable_ = true;
  sees_ahead_ = batch.sees_ahead;
  int64_t few_rows = 0;  // rows of sequences that split16 could take
  for (int32_t b = 0; b < sequences; ++b) {
    const auto at = static_cast<size_t>(b);
    const int32_t rows = batch.query_start[at + 1] - batch.query_start[at];
    const int32_t length = batch.context_length[at];
    if (rows < 0 || length > limits_.context || (length > 0 && length < rows)) {
      throw std::logic_error(
          fmt::format("flash plan: sequence {} has {} rows of {} tokens", b, rows, length));
    }
    if (rows != 1) recordable_ = false;
    if (rows == 0) continue;
    if (kind_of(rows) == FlashKind::split16) few_rows += rows;
    const Sequence sequence{b, rows, batch.query_start[at], length};
    if (hopper_ && !sees_ahead_ && pays_on_hopper(rows, length, hopper_from_)) {
      long_.push_back(sequence);
    } else {
      add(sequence);
    }
  }
  resolve_hopper();
  move_prefills(few_rows);
}

void FlashPlanner::add(const Sequence& sequence) {
  classes_[static_cast<size_t>(kind_of(sequence.rows))].push_back(sequence);
}

void FlashPlanner::resolve_hopper() {
  on_hopper_.clear();
  for (const Sequence& s : long_) on_hopper_.push_back({s.index, s.rows, s.length});
  if (!hopper_ || hopper_->count_works(on_hopper_) >= limits_.multiprocessors) return;
  on_hopper_.clear();
  for (const Sequence& s : long_) add(s);
}

FlashKind FlashPlanner::kind_of(int64_t rows) const {
  const bool by_whole = limits_.fixed_split > 0 && shape_.whole_group > 0;
  const int64_t packed = rows * (by_whole ? shape_.whole_group : shape_.group());
  // The device counts the chunks of a window that ends with a row's own position.
  const bool beyond_window = sees_ahead_ && shape_.window > 0 && rows > 1;
  const FlashKind direct =
      packed > 64 && shape_.head_dim <= 128 ? FlashKind::direct128 : FlashKind::direct64;
  if (limits_.cuts == FlashLimits::Cuts::never || beyond_window) return direct;
  if (packed <= 16 && (rows == 1 || limits_.fixed_split == 0)) return FlashKind::split16;
  if (rows == 1) return FlashKind::split64;
  return direct;
}

/// Between classes: sequences of several rows out of a split launch that has no room for all, and
/// prefills into one where that pays.
void FlashPlanner::move_prefills(int64_t few_rows) {
  auto& split16 = classes_[static_cast<size_t>(FlashKind::split16)];
  auto& direct64 = classes_[static_cast<size_t>(FlashKind::direct64)];
  auto& direct128 = classes_[static_cast<size_t>(FlashKind::direct128)];
  if (few_rows > partial_rows_) {  // sequences of one row alone always fit
    const auto many = std::partition(split16.begin(), split16.end(),
                                     [](const Sequence& s) { return s.rows == 1; });
    direct64.insert(direct64.end(), many, split16.end());
    split16.erase(many, split16.end());
  }
  const bool stays = limits_.cuts == FlashLimits::Cuts::never || (sees_ahead_ && shape_.window > 0);
  if (limits_.fixed_split > 0 || stays) return;
  if (!direct64.empty()) choose_prefill(direct64);
  if (!direct128.empty() && direct64.empty()) choose_prefill(direct128);
}

/// A prefill that by itself gives fewer thread blocks than there are multiprocessors is split when
/// that pays by a fifth.
void FlashPlanner::choose_prefill(std::vector<Sequence>& prefill) {
  auto& split64 = classes_[static_cast<size_t>(FlashKind::split64)];
  int64_t blocks = 0, rows = 0;
  for (const Sequence& s : prefill) {
    blocks += tiles(s, FlashKind::split64) * shape_.kv_heads;
    rows += s.rows;
  }
  if (!split64.empty() || blocks >= limits_.multiprocessors || 2 * rows > partial_rows_) return;
  gather_work(FlashKind::split64, prefill);
  const int64_t whole = split_cost(work_, limits_.context, budget());
  if (split_cost(work_, choose_split(work_, budget()), budget()) * 5 > whole * 4) return;
  split64.swap(prefill);
}

}  // namespace plimsoll::backend::cuda
