#include "shard/joined.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "checkpoint/json_events.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/tied_head.h"
#include "model/tied_head.h"
#include "shard/file_names.h"
#include "shard/left_out.h"
#include "shard/quantized/implied_values.h"
#include "shard/ranks/repeated.h"
#include "shard/refusals.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using checkpoint::Block;
using checkpoint::TensorEntry;
using model::ModelSpec;

// ---- pieces ----

Block intersection(const Block& a, const Block& b) {
  const int64_t row = std::max(a.row, b.row);
  const int64_t column = std::max(a.column, b.column);
  return {.row = row,
          .rows = std::min(a.row + a.rows, b.row + b.rows) - row,
          .column = column,
          .columns = std::min(a.column + a.columns, b.column + b.columns) - column};
}

TensorEntry as_matrix(const TensorEntry& tensor, int64_t columns) {
  TensorEntry matrix = tensor;
  const auto elements = static_cast<int64_t>(tensor.bytes / dtype_size(tensor.dtype));
  matrix.shape = {columns == 0 ? 0 : elements / columns, columns};
  return matrix;
}

// ---- what the ranks' files are ----

std::vector<Release> likely_releases(const ShardHints& hints) {
  if (hints.release) return {*hints.release};
  // One of each state dict that there has been.
  return {kNewestRelease, {.minor = 22}, {.minor = 13}, {.minor = 9, .patch = 1}};
}

Stage all_tensors(const ModelSpec& spec, int64_t tensor_parallel, const Release& release) {
  return std::move(
      make_stages(spec, {.tensor_parallel = tensor_parallel, .release = release}).front());
}

// The first stages of a pipeline keep a tied table under its own name.
bool is_stage_name(const ModelSpec& spec, const std::string& name) {
  if (spec.embedding == model::kNoWeight || spec.embedding != spec.head) return false;
  return headless_name(spec) == name;
}

// The first tensor of the shard that the stage does not have.
const TensorEntry* find_unknown(const RankShard& shard, const Stage& stage, const ModelSpec& spec) {
  std::unordered_set<std::string_view> known;
  for (const ShardTensor& tensor : stage) known.insert(tensor.name);
  for (const auto& [name, tensor] : shard.tensors()) {
    if (!known.contains(name) && !is_stage_name(spec, name)) return &tensor;
  }
  return nullptr;
}

bool has_all(const RankShard& shard, const Stage& stage) {
  return std::ranges::all_of(
      stage, [&](const ShardTensor& tensor) { return shard.tensors().contains(tensor.name); });
}

// The release whose state dict the shard's names are; the first one's where none fits, so that the
// error names what lacks there.
Release find_release(const RankShard& shard, const ModelSpec& spec, const ShardHints& hints) {
  const std::vector<Release> releases = likely_releases(hints);
  for (const Release& release : releases) {
    if (!is_known(spec, release)) continue;
    const Stage stage = all_tensors(spec, 1, release);
    if (has_all(shard, stage) && find_unknown(shard, stage, spec) == nullptr) return release;
  }
  return releases.front();
}

// Number of ranks that a plainly cut tensor was cut for.
std::optional<int64_t> ranks_of(const RankShard& shard, const ModelSpec& spec,
                                const Release& release) {
  for (const ShardTensor& tensor : all_tensors(spec, 1, release)) {
    if (tensor.weight == nullptr || tensor.weight->split != model::Split::row) continue;
    if (tensor.weight->uneven_heads == model::UnevenHeads::replicated) continue;
    const auto at = shard.tensors().find(tensor.name);
    if (at == shard.tensors().end() || at->second.shape.size() != tensor.shape.size()) continue;
    const bool by_rows = tensor.weight->outputs == model::OutputAxis::rows;
    const size_t axis = by_rows ? tensor.shape.size() - 1 : tensor.weight->is_stack() ? 1 : 0;
    const int64_t part = at->second.shape[axis];
    if (part > 0 && tensor.shape[axis] % part == 0) return tensor.shape[axis] / part;
  }
  return std::nullopt;
}

void check_ranks(const ShardFiles& files, const fs::path& folder, int64_t cut_for) {
  const auto found = static_cast<int64_t>(files.by_rank.size());
  if (found == cut_for) return;
  const FilePattern pattern(files.pattern);
  if (found < cut_for) {
    fail(ExitCode::checkpoint_unusable,
         "{} is missing: the shards are cut for {} ranks, and there are files of {}",
         (folder / pattern.name(0, found, 0)).string(), cut_for, found);
  }
  fail(ExitCode::checkpoint_unusable,
       "{} is left over from other shards: these are cut for {} ranks; remove it",
       files.by_rank[static_cast<size_t>(cut_for)].front().path.string(), cut_for);
}

// Refuses tensors of vLLM's moe_wna16 kernel, which lack numbers of the checkpoint's experts.
void check_joinable(const Stage& stage, int64_t ranks) {
  for (const ShardTensor& tensor : stage) {
    if (tensor.weight == nullptr || tensor.weight->repack == model::Repack::none) continue;
    fail(ExitCode::checkpoint_unusable,
         "{} is packed as vLLM's moe_wna16 kernel takes experts whose groups {} ranks cut, without "
         "all of the checkpoint's zero points; such shards do not join again, keep the source",
         tensor.name, ranks);
  }
}

void check_known(const RankShard& shard, const Stage& stage, const ModelSpec& spec) {
  const TensorEntry* unknown = find_unknown(shard, stage, spec);
  if (unknown == nullptr) return;
  fail(ExitCode::checkpoint_unusable,
       "{}: tensor \"{}\" is none that vLLM has for {} with this config.json",
       unknown->file->path().string(), checkpoint::shown(unknown->name), spec.architecture);
}

}  // namespace

// ---- a tensor ----

const fs::path& JoinedTensor::file() const {
  return pieces_.front().from.file->path();
}

int64_t JoinedTensor::stored_rows() const {
  return part_->stored_shape.empty() ? 1 : part_->stored_shape.front();
}

int64_t JoinedTensor::stored_columns() const {
  int64_t columns = 1;
  for (size_t i = 1; i < part_->stored_shape.size(); ++i) columns *= part_->stored_shape[i];
  return columns;
}

int64_t JoinedTensor::bytes() const {
  return stored_rows() * stored_columns() * static_cast<int64_t>(dtype_size(dtype_));
}

void JoinedTensor::copy(const Block& block, DType dtype, std::byte* to) const {
  copy(block, /*transposed=*/false, dtype, to);
}

void JoinedTensor::copy_transposed(const Block& block, DType dtype, std::byte* to) const {
  copy(block, /*transposed=*/true, dtype, to);
}

void JoinedTensor::copy_stored_rows(int64_t first, int64_t count, std::byte* to) const {
  if (part_->is_told()) return fill_implied_values(*part_, dtype_, first, count, to);
  const Block block =
      part_->transposed
          ? Block{.row = 0, .rows = stored_columns(), .column = first, .columns = count}
          : Block{.row = first, .rows = count, .column = 0, .columns = stored_columns()};
  copy(block, part_->transposed, dtype_, to);
}

void JoinedTensor::copy(const Block& block, bool transposed, DType dtype, std::byte* to) const {
  const int64_t stride = transposed ? block.rows : block.columns;
  for (const Piece& piece : pieces_) {
    const Slice& slice = piece.slice;
    if (slice.repeat.any()) {
      const checkpoint::GuardedRead guard(*piece.from.file);
      copy_unrepeated(piece.from, slice, block, dtype, to, stride);
      guard.finish();
      continue;
    }
    const Block common = intersection(
        block,
        {.row = slice.row, .rows = slice.rows, .column = slice.column, .columns = slice.columns});
    if (common.rows <= 0 || common.columns <= 0) continue;
    Block from{.row = slice.to_row + common.row - slice.row,
               .rows = common.rows,
               .column = slice.to_column + common.column - slice.column,
               .columns = common.columns};
    int64_t row = common.row - block.row;
    int64_t column = common.column - block.column;
    if (transposed) {  // blocks are counted in the target's order
      std::swap(from.row, from.column);
      std::swap(from.rows, from.columns);
      std::swap(row, column);
    }
    const checkpoint::GuardedRead guard(*piece.from.file);
    checkpoint::copy_block(piece.from, transposed, from, dtype,
                           to + (row * stride + column) * static_cast<int64_t>(dtype_size(dtype)),
                           stride);
    guard.finish();
  }
}

// ---- all tensors ----

void resolve_tied_head(const fs::path& folder, const std::string& file_pattern, ModelSpec& spec) {
  if (!spec.tied_head) return;
  for (const auto& files : find_shard_files(folder, file_pattern).by_rank) {
    const RankShard shard(files);
    const auto table = shard.tensors().find(spec.tied_head->table);
    const auto head = shard.tensors().find(spec.tied_head->head);
    if (table == shard.tensors().end() || head == shard.tensors().end()) return;
    // The first stage of a pipeline holds the table under its own name, the last one as the head.
    if (!checkpoint::is_convertible(table->second.dtype) ||
        !checkpoint::is_convertible(head->second.dtype) ||
        checkpoint::have_equal_values(table->second, head->second)) {
      continue;
    }
    return model::untie_head(spec);
  }
}

JoinedCheckpoint::JoinedCheckpoint(const fs::path& folder, const ModelSpec& spec,
                                   const ShardHints& hints) {
  const ShardFiles files = find_shard_files(folder, hints.file_pattern);
  shards_.emplace_back(files.by_rank.front());
  const Release release = find_release(shards_.front(), spec, hints);
  if (const auto ranks = ranks_of(shards_.front(), spec, release)) {
    check_ranks(files, folder, *ranks);
  }
  tensor_parallel_ = static_cast<int64_t>(files.by_rank.size());
  if (hints.tensor_parallel && *hints.tensor_parallel != tensor_parallel_) {
    fail(ExitCode::checkpoint_unusable, "{} holds the files of {} ranks, expected {}",
         folder.string(), tensor_parallel_, *hints.tensor_parallel);
  }
  stage_ = all_tensors(spec, tensor_parallel_, release);
  check_joinable(stage_, tensor_parallel_);
  for (int64_t rank = 0; rank < tensor_parallel_; ++rank) {
    if (rank > 0) shards_.emplace_back(files.by_rank[static_cast<size_t>(rank)]);
    check_known(shards_.back(), stage_, spec);
    for (const ShardTensor& tensor : stage_) add(tensor, rank);
  }
  for (const std::string& name : tensors_left_out(spec)) {
    if (tensors_.contains(name)) continue;
    fail(ExitCode::checkpoint_unusable,
         "{}: the shards hold no {}, since vLLM's {} computes without it, and transformers and "
         "plimsoll run compute with it; take the checkpoint that the shards were made of",
         folder.string(), name, spec.architecture);
  }
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const model::WeightSpec& weight : *table) {
      if (weight.kept != model::Kept::in_checkpoint) continue;
      for (const model::Part& part : weight.parts) {
        JoinedTensor& joined = tensors_[part.tensor];
        joined.part_ = &part;
        joined.dtype_ = *weight.dtype;
      }
    }
  }
}

void JoinedCheckpoint::add(const ShardTensor& tensor, int64_t rank) {
  const RankShard& shard = shards_.back();
  const TensorEntry& stored = shard.find(tensor.name, tensor.shape);
  for (const Slice& slice : rank_slices(tensor, rank, tensor_parallel_)) {
    JoinedTensor& joined = tensors_[slice.part->tensor];
    joined.part_ = slice.part;
    if (slice.part->is_told()) {
      joined.dtype_ = tensor.weight->stored_dtype.value_or(stored.dtype);
      continue;
    }
    if (joined.pieces_.empty()) joined.dtype_ = stored.dtype;
    if (joined.dtype_ != stored.dtype) {
      fail(ExitCode::checkpoint_unusable, "{}: tensor {} has dtype {}, in {} {}",
           stored.file->path().string(), tensor.name, safetensors_name(stored.dtype),
           joined.file().string(), safetensors_name(joined.dtype_));
    }
    if (!joined.starts_.emplace(slice.row, slice.column).second) continue;
    joined.pieces_.push_back({.from = as_matrix(stored, tensor.columns()), .slice = slice});
  }
}

}  // namespace plimsoll::shard
