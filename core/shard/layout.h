// Tensors of a rank's files, and parts of the checkpoint that go into them (vLLM's sharded_state).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"
#include "shard/release.h"

namespace plimsoll::shard {

inline constexpr int64_t kWordBytes = 4;

struct Layout {
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  DType dtype = DType::bf16;  // of all parameters
  Release release = kNewestRelease;
  std::vector<int64_t> pipeline_partition = {};  // layers of each stage; empty: as equal as can be
};

/// Number of times that each stored row and column stands in a rank's tensor: more than once where
/// vLLM refines the blocks of an expert's scales.
struct Repeat {
  int64_t rows = 1, columns = 1;

  [[nodiscard]] bool any() const { return rows > 1 || columns > 1; }
};

/// Columns and rows of one checkpoint tensor in the engine's orientation ([out, in]; 1-D: [n, 1]).
struct Slice {
  /// Names the tensor; `row` and `rows` below count, not the part's.
  const model::Part* part = nullptr;
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
  int64_t to_row = 0, to_column = 0;  // where they begin in the rank's tensor
  Repeat repeat = {};                 // rows and columns above are those after the repetition
};

/// One tensor of a stage; its shape is the same on every rank of the stage.
struct ShardTensor {
  std::string name;
  DType dtype{};
  std::vector<int64_t> shape;                 // on one rank
  const model::WeightSpec* weight = nullptr;  // lives in the ModelSpec; null: a constant
  model::Split split{};  // the weight's, or replicated where vLLM refuses that split
  int64_t kv_heads = 0;  // of a Split::qkv weight
  Repeat repeat = {};
  std::vector<std::byte> constant = {};  // the bytes of a tensor without weight

  /// The dtype that the tensor is copied as, because a parameter of words may be stored as bytes.
  [[nodiscard]] DType unit() const;
  /// Columns of the tensor as a matrix [rows, columns] of units; experts are stacked.
  [[nodiscard]] int64_t columns() const;
  [[nodiscard]] int64_t elements() const;
  [[nodiscard]] int64_t bytes() const;
};

/// The tensors of a pipeline stage in vLLM's walk order, in which files are filled.
using Stage = std::vector<ShardTensor>;

/// The dtype that vLLM resolves "auto" to, given what the checkpoint says; others are torch's
/// spellings. Throws Error(usage) for dtypes that are unknown or that vLLM refuses for the family.
DType resolve_dtype(const std::string& name, DType checkpoint, const model::ModelSpec& spec,
                    const Release& release);

/// The stages of a model. Throws Error(usage) naming tensor and number where sizes do not divide,
/// as vLLM does. `spec` must outlive the result.
std::vector<Stage> make_stages(const model::ModelSpec& spec, const Layout& layout);

/// Every weight as a tensor-parallel rank of `run` has it, by its id, also weights that vLLM has no
/// parameter for. Throws as make_stages.
Stage make_run_tensors(const model::ModelSpec& spec, int64_t tensor_parallel);

/// Name of the module that owns a parameter or module: `name` up to its last dot.
std::string_view module_of(std::string_view name);

/// The last weight before the attention's own scales (attention_end), and the module that owns both
/// (attention_module).
model::WeightId attention_end(const model::AttentionSpec& attention);
std::string attention_module(const model::ModelSpec& spec, const model::AttentionSpec& attention);

/// vLLM's name of the table that the head shares, on a stage without the head.
std::string headless_name(const model::ModelSpec& spec);

/// Slices of the tensor that rank `rank` holds, stacked along the outputs (copies: one over the
/// other), zeros after them. For OutputAxis::columns and none each matrix has as many slices.
std::vector<Slice> rank_slices(const ShardTensor& tensor, int64_t rank, int64_t tensor_parallel);

/// Blocks of the whole weight that rank `rank` of `run` holds, one over the other in the engine's
/// order of rows; zeros follow them.
std::vector<checkpoint::Block> rank_blocks(const ShardTensor& tensor, int64_t rank,
                                           int64_t tensor_parallel);
/// Blocks of each part of the weight that rank `rank` of `run` holds, rows counted from the part's
/// first; blocks may have no rows. A Split::experts weight gives all parts, of which a rank has its
/// share.
std::vector<checkpoint::Block> part_blocks(const ShardTensor& tensor, int64_t rank,
                                           int64_t tensor_parallel);

}  // namespace plimsoll::shard
