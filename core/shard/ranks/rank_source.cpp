#include "shard/ranks/rank_source.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace plimsoll::shard {
namespace {

/// Rows of a quantized matrix as each rank has room for them: zeros behind those of a vocabulary
/// that are there, and behind the groups of a rank that has inputs of fewer than others.
class FilledRows final : public model::PackedRows {
 public:
  /// `rows` are those of `block` of the whole matrix; `packing` is the share's.
  FilledRows(std::unique_ptr<model::PackedRows> rows, const checkpoint::Block& block,
             const model::Packing& packing)
      : rows_(std::move(rows)),
        count_(block.rows),
        columns_(block.columns),
        room_(packing.groups(block.columns)),
        groups_(room_),
        packing_(packing) {
    if (packing.lead == 0) return;
    model::Packing own = packing;
    own.lead = packing.inputs_before(block.column);
    groups_ = own.groups(block.columns);
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    fill(first, count, {columns_, columns_}, to,
         [&](int64_t there) { rows_->codes(first, there, to); });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    fill(first, count, {packing_.scales_bytes(groups_), packing_.scales_bytes(room_)}, to,
         [&](int64_t there) { rows_->scales(first, there, to); });
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    fill(first, count, {groups_, room_}, to,
         [&](int64_t there) { rows_->zeros(first, there, to); });
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    fill(first, count, {1, 1}, to, [&](int64_t there) { rows_->factors(first, there, to); });
  }
  void input_groups(int32_t* to) const override { rows_->input_groups(to); }
  void table(std::span<float, 16> to) const override { rows_->table(to); }
  void nested(model::NestedScales& to) const override { rows_->nested(to); }
  [[nodiscard]] model::InputScale input_scale() const override { return rows_->input_scale(); }
  [[nodiscard]] int64_t first_input() const override { return rows_->first_input(); }

 private:
  /// Elements of a row: those that are read and the room that there is.
  struct Width {
    int64_t own, room;
  };
  /// Calls read(rows that are there), which puts one row behind the other, and moves them to their
  /// places, with zeros behind them.
  template <typename T, typename Read>
  void fill(int64_t first, int64_t count, const Width& width, T* to, const Read& read) const {
    const int64_t there = std::clamp<int64_t>(count_ - first, 0, count);
    if (there > 0) read(there);
    for (int64_t row = there; width.own < width.room && row-- > 0;) {
      T* const place = to + row * width.room;
      std::memmove(place, to + row * width.own, static_cast<size_t>(width.own) * sizeof(T));
      std::fill(place + width.own, place + width.room, T{});
    }
    std::fill(to + there * width.room, to + count * width.room, T{});
  }

  std::unique_ptr<model::PackedRows> rows_;
  int64_t count_, columns_;
  int64_t room_, groups_;  // of a row
  model::Packing packing_;
};

}  // namespace

RankSource::RankSource(const checkpoint::WeightSource& whole, const model::ModelSpec& spec,
                       const model::ModelSpec& rank_spec, const TensorRank& rank)
    : whole_(whole), rank_spec_(rank_spec) {
  for (const ShardTensor& tensor : make_run_tensors(spec, rank.ranks)) {
    weights_.push_back(tensor.weight);
    blocks_.push_back(rank_blocks(tensor, rank.rank, rank.ranks));
    parts_.push_back(part_blocks(tensor, rank.rank, rank.ranks));
    const size_t share = tensor.weight->parts.size() / static_cast<size_t>(rank.ranks);
    const bool experts = tensor.split == model::Split::experts;
    first_parts_.push_back(experts ? static_cast<size_t>(rank.rank) * share : 0);
  }
}

std::optional<size_t> RankSource::id_of(const model::WeightSpec& weight) const {
  const auto& weights = rank_spec_.weights;
  const std::less<> before;
  if (before(&weight, weights.data()) || !before(&weight, weights.data() + weights.size())) {
    return std::nullopt;
  }
  return static_cast<size_t>(&weight - weights.data());
}

void RankSource::read_rows(const model::WeightSpec& weight, int64_t first, int64_t count,
                           DType dtype, void* to) const {
  const std::optional<size_t> share = id_of(weight);
  if (!share) return whole_.read_rows(weight, first, count, dtype, to);
  const size_t id = *share;
  const size_t row_bytes = static_cast<size_t>(weight.columns()) * dtype_size(dtype);
  auto* const out = static_cast<std::byte*>(to);
  const int64_t end = first + count;
  int64_t at = 0;  // the block's first row in the rank's weight
  for (checkpoint::Block block : blocks_[id]) {
    const int64_t from = std::max(first, at), until = std::min(end, at + block.rows);
    block.row += from - at;
    at += std::exchange(block.rows, until - from);
    if (block.rows <= 0) continue;
    whole_.read_block(*weights_[id], block, dtype,
                      out + static_cast<size_t>(from - first) * row_bytes);
  }
  const int64_t padding = std::max(first, at);
  if (padding >= end) return;
  std::memset(out + static_cast<size_t>(padding - first) * row_bytes, 0,
              static_cast<size_t>(end - padding) * row_bytes);
}

std::unique_ptr<model::PackedRows> RankSource::packed(const model::WeightSpec& weight, size_t part,
                                                      const checkpoint::Block& block) const {
  const std::optional<size_t> share = id_of(weight);
  if (!share) return whole_.packed(weight, part, block);
  const size_t id = *share;
  const size_t stored = first_parts_[id] + part;
  checkpoint::Block own = parts_[id][stored];
  const int64_t there = std::clamp<int64_t>(own.rows - block.row, 0, block.rows);
  own = {own.row + block.row, there, own.column + block.column, block.columns};
  return std::make_unique<FilledRows>(whole_.packed(*weights_[id], stored, own), own,
                                      *weight.parts[part].packing);
}

}  // namespace plimsoll::shard
