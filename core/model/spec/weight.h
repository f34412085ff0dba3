// One weight of the engine: the checkpoint rows that it is made of, how ranks cut it, and how it is
// used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/packing.h"

namespace plimsoll::model {

/// How the engine uses a weight, which decides how a backend stores it.
enum class WeightUse : uint8_t {
  linear,     // [out, in], multiplied with activations
  embedding,  // [rows, hidden], only gathered from; a table that a tied head multiplies with too is
              // `linear`
  vector,     // [n]: norm weight, bias; a tower's parameter of any shape
  experts,    // [experts, out, in]
};

/// How vLLM's layer classes cut a weight over tensor-parallel ranks (spec sharded_state.md, 4.1).
enum class Split : uint8_t {
  replicated,
  column,         // rows of [out, in]; biases too
  merged_column,  // each part's rows by itself (gate, then up)
  qkv,            // q, k, v parts; KV heads replicated when ranks exceed them
  kv,             // rows of KV heads, as k in qkv (MiniMax M2's norm of k)
  row,            // columns of [out, in]
  vocabulary,     // rows padded to a multiple of 64, then cut
  experts,        // whole matrices of a stack (`run` with ModelSpec::whole_experts)
};

/// Order of the rows within each block of a part.
enum class RowOrder : uint8_t {
  stored,
  evens_first,  // the even ones, then the odd ones: neighbouring pairs become halves (Llama 4)
};

/// How a weight's elements follow from the checkpoint's.
enum class Mapping : uint8_t {
  none,
  minus_exp,  // -e^x, rounded once to float32 (Mamba's A of A_log)
  unit_rows,  // x / its row's length (Baichuan 2's head)
  log_minus,  // ln(-x), of what is stored as -e^x (A_log of a GGUF file's ssm_a)
  less_mean,  // x less the mean of its tensor, both rounded as stored (Param2's router biases)
};
/// True when the mapping takes each element by itself, in float32; else it takes whole rows.
constexpr bool maps_each(Mapping mapping) {
  return mapping == Mapping::minus_exp || mapping == Mapping::log_minus ||
         mapping == Mapping::less_mean;
}

/// Rows of one checkpoint tensor, seen as [rows, columns] in the engine's orientation ([out, in];
/// 1-D: [n, 1]). The rows are `block_count` blocks of `block_rows`, the first at `first_row`, each
/// `block_stride` after the last. Where a weight has OutputAxis::columns they are columns.
struct Part {
  std::string tensor;                 // name in the checkpoint
  std::vector<int64_t> stored_shape;  // shape that the checkpoint must have
  bool transposed = false;            // stored [in, out] (GPT-2's Conv1D)
  int64_t first_row = 0;
  int64_t block_rows = 0;
  int64_t block_stride = 0;
  int64_t block_count = 1;
  RowOrder order = RowOrder::stored;
  bool every_rank = false;  // not cut: each rank has all rows (Mamba-2's B and C of one group)
  Mapping mapping = Mapping::none;
  /// Elements that the config implies (quantized weights): all of them (`values`), or element i is
  /// i / index_group.
  std::vector<int64_t> values = {};
  int64_t index_group = 0;
  float factor = 1;  // of the values (norms of LongCat's latents)
  float offset = 0;  // added to them (norms of PLaMo 3)
  /// Form of a quantized part in memory; `tensor` is then the name of the unquantized weight
  /// ("...q_proj.weight"), for which other tensors are stored.
  std::optional<Packing> packing = {};

  [[nodiscard]] int64_t rows() const { return block_rows * block_count; }
  /// Outputs of the whole tensor.
  [[nodiscard]] int64_t stored_rows() const {
    return transposed ? stored_shape.back() : stored_shape.front();
  }
  /// Consecutive rows of the tensor: `first` holds row `row` of the part, and `rows` rows of the
  /// part follow from there.
  struct Run {
    int64_t first = 0, rows = 0;
  };
  [[nodiscard]] Run run_at(int64_t row) const;
  [[nodiscard]] bool is_told() const { return !values.empty() || index_group > 0; }
  /// True when values differ from the checkpoint's, so that they need rounding.
  [[nodiscard]] bool is_changed() const {
    return factor != 1 || offset != 0 || mapping == Mapping::unit_rows;
  }
};

/// The axis of a layer's outputs, along which parts are stacked.
enum class OutputAxis : uint8_t {
  rows,  // [out, in]
  // [in, out]: AWQ's and GPTQ's packed weights, cut by `column` and its like along columns
  columns,
  /// The parts of a matrix are copies of each other, and a rank holds the last one (GPTQ's g_idx,
  /// scales of inputs).
  none,
};

/// How vLLM cuts a weight whose checkpoint rows are interleaved (by KV head, say).
enum class InterleavedCut : uint8_t {
  blindly,    // q, k and v as if they lay one after the other (InternLM2)
  untangled,  // the rows put in order first
  in_place,   // as one tensor, cut or not, in the checkpoint's order
};

/// vLLM's treatment of a vision tower's attention whose heads the ranks do not divide.
enum class UnevenHeads : uint8_t { refused, replicated };

/// Whether vLLM has a parameter for a weight.
enum class Kept : uint8_t {
  in_model,
  in_checkpoint,  // no: its values are known without the checkpoint
  in_run,         // no: vLLM computes without it, transformers and `run` with it
  in_vllm,        // yes, and transformers and `run` compute without it
};

/// vLLM's treatment of experts whose share on a rank is no multiple of the blocks or groups of a
/// scale.
enum class UnevenBlocks : uint8_t {
  refused,
  refined,  // vLLM repeats the scales for smaller blocks (fp8)
  absent,   // the weight is left out: vLLM has parameters for another kernel then (AWQ and GPTQ)
  needed,   // the weight is a parameter of that other kernel
};

/// How AWQ's and GPTQ's integers become the bytes of vLLM's moe_wna16 kernel, [outputs, inputs].
enum class Repack : uint8_t {
  none,
  words,      // GPTQ's words as they are, turned
  awq_words,  // AWQ's 8 outputs in a word to 8 inputs in one, lowest bits first
  awq_zeros,  // AWQ's 8 outputs in a word to 2 in a byte
};

/// Blocks of a quantized expert's weights, w13 [2 * intermediate, hidden] and w2 [hidden,
/// intermediate].
struct ExpertBlocks {
  int64_t outputs = 1, inputs = 1;  // weights in a block
  int64_t intermediate = 0, hidden = 0;
  UnevenBlocks uneven = UnevenBlocks::refused;
};

/// One weight of the engine, fused from parts stacked along the outputs, in order.
struct WeightSpec {
  std::string name;  // vLLM's module name: "model.layers.0.self_attn.qkv_proj.weight"
  /// Shape of the whole weight, unpadded; experts: [experts, out, in], parts expert by expert.
  std::vector<int64_t> shape = {};
  WeightUse use = WeightUse::linear;
  Split split = Split::replicated;
  std::vector<Part> parts = {};
  /// True for stacks whose `parts` are the first matrix's, and the other matrices' are alike
  /// (planning).
  bool parts_of_first = false;
  OutputAxis outputs = OutputAxis::rows;
  /// Dtype that the weight is kept in, whatever the model's dtype is (quantized weights).
  std::optional<DType> dtype = {};
  std::optional<DType> stored_dtype = {};  // the checkpoint's, where it is not converted
  int64_t heads = 0;  // of a tower's attention, or of a quantized weight that needs its own number
  int64_t kv_heads = 0;  // 0: as `heads`
  /// Factors of a rank's outputs and inputs when they are cut: quantized blocks stay whole.
  int64_t output_multiple = 1;
  int64_t input_multiple = 1;
  int64_t outputs_per_row = 1;  // packed outputs in a row
  std::optional<ExpertBlocks> expert_blocks = {};
  Repack repack = Repack::none;
  Kept kept = Kept::in_model;
  bool is_buffer = false;  // of vLLM's module, in its state dict, but no parameter
  /// The checkpoint may lack the weight (Kept::in_run), and vLLM refuses one that has it.
  bool zeros_if_absent = false;
  UnevenHeads uneven_heads = UnevenHeads::refused;
  InterleavedCut interleaved = InterleavedCut::blindly;
  /// True for stacks whose rows are the gate's and the up's in turn; `run` has the gate's first.
  bool rows_in_turn = false;
  bool first_rank_alone = false;  // in vLLM the others hold zeros (a bias before a sum of ranks)
  /// Slices of equal width: a product sums over the columns of each slice by itself, then in a tree
  /// of pairs (slices.h). A rank's share has as many as lie in it.
  int64_t slices = 1;
  int64_t ranks = 1;  // for a rank's share: number of ranks that have one
  /// Values of a buffer that no tensor of the checkpoint fills. A weight without parts and constant
  /// is zero.
  std::vector<float> constant = {};

  /// Rows and columns of one matrix: [n] counts as [n, 1], a convolution [out, ...] as [out, rest].
  [[nodiscard]] int64_t rows() const {
    const size_t axis = is_stack() ? 1 : 0;
    return shape.size() <= axis ? 1 : shape[axis];
  }
  [[nodiscard]] int64_t columns() const {
    int64_t count = 1;
    for (size_t i = is_stack() ? 2 : 1; i < shape.size(); ++i) count *= shape[i];
    return count;
  }
  [[nodiscard]] int64_t matrices() const { return is_stack() ? shape.front() : 1; }
  [[nodiscard]] size_t parts_in_matrix() const {
    return parts.size() / static_cast<size_t>(parts_of_first ? 1 : matrices());
  }
  [[nodiscard]] int64_t elements() const { return matrices() * rows() * columns(); }
  /// True when some of its parts are kept quantized.
  [[nodiscard]] bool is_packed() const {
    for (const Part& part : parts)
      if (part.packing) return true;
    return false;
  }
  /// True for matrices over each other, one for each expert; [experts] and [experts, n] are stacks
  /// too.
  [[nodiscard]] bool is_stack() const { return use == WeightUse::experts; }
  /// True for elements that are added or multiplied with, not a product's matrix: experts' biases
  /// too.
  [[nodiscard]] bool is_vector() const {
    return use == WeightUse::vector || (is_stack() && shape.size() < 3);
  }
};

/// Index into ModelSpec::weights; kNoWeight where a model has none.
using WeightId = int32_t;
inline constexpr WeightId kNoWeight = -1;

struct Linear {
  WeightId weight = kNoWeight;
  WeightId bias = kNoWeight;
  bool operator==(const Linear&) const = default;
};

/// An adapter beside a product of x: up(down(x)), of low rank (LoRA).
struct Adapter {
  Linear down{}, up{};
  bool operator==(const Adapter&) const = default;
};

}  // namespace plimsoll::model
