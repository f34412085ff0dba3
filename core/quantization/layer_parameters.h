// Parameters of vLLM's layers for a matrix of a scheme, before kernels repack them: `plan` counts
// them, `shard` writes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/spec/weight.h"
#include "quantization/scheme.h"

namespace plimsoll::quantization {

/// What a parameter holds, where it matters.
enum class Holds : uint8_t {
  codes,
  scales,
  zeros,
  matrix_scales,  // NVFP4's second scale, of a whole matrix
  input_scales,
  input_bound,
  shape,  // rows and columns of the unpacked matrix
  bias,
  input_groups,  // the group of each input (GPTQ's g_idx)
  other
};

/// How many values a parameter has.
enum class Values : uint8_t {
  block,   // one for each block of outputs x inputs
  part,    // one for each of the matrices that are fused
  matrix,  // one, or the two of a shape
};

/// The axis along which values of WeightScheme::bits share an element.
enum class Packed : uint8_t { none, along_inputs, along_outputs };

struct LayerParameter {
  const char* name;  // ends vLLM's name; some methods have names of their own (shard's LayerClass)
  Holds holds = Holds::other;
  std::optional<DType> dtype = {};  // none: the model's
  Values values = Values::block;
  int64_t outputs = 1, inputs = 1;  // of a block; 0: all of the matrix
  bool partial = false;             // the last block may be smaller
  bool whole = false;               // each rank has the values of all inputs
  Packed packed = Packed::none;

  /// Bytes of an element in a model whose dtype takes `model`.
  [[nodiscard]] int64_t element_bytes(int64_t model) const {
    return dtype ? static_cast<int64_t>(dtype_size(*dtype)) : model;
  }
};

enum class LayerKind : uint8_t {
  linear,
  experts,
  turned_experts,  // of the kernel moe_wna16, for AWQ's and GPTQ's experts that do not suit Marlin
};

/// The parameters in vLLM's order; none: no configuration of vLLM's names the format.
std::vector<LayerParameter> layer_parameters(const WeightScheme& scheme, LayerKind kind);

/// The parameters of an attention layer where Quantization::has_attention_scales(): a value each.
std::vector<LayerParameter> attention_parameters(const std::string& method);

/// The scheme with scales of groups of inputs (MXFP8) rewritten as scales of blocks of one output.
WeightScheme groups_as_blocks(WeightScheme scheme);

/// Size of the finest blocks and groups that vLLM makes.
inline constexpr int64_t kFinestBlock = 32;

/// True when a slice of experts, of which `blocks` has the sizes, ends within a block. `split`: it
/// is one of several ranks'.
bool cuts_blocks(const model::ExpertBlocks& blocks, bool split);

/// `blocks` with the finer blocks that vLLM makes where a slice cuts them. Fp8's become squares
/// (refine_fp8_moe_block_shape): of 128 x 128, 192 of 768 intermediate sizes get 64 x 64.
/// moe_wna16's groups (UnevenBlocks::needed) are halved. Nothing: vLLM refuses the slice.
std::optional<model::ExpertBlocks> finer_blocks(const model::ExpertBlocks& blocks);

/// True when Marlin's kernel for experts takes groups of this size.
bool suits_marlin(int64_t group, int64_t hidden);

}  // namespace plimsoll::quantization
