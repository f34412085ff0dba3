// The parameters and buffers that one tensor-parallel rank holds, counted module by module in the
// way vLLM's layers lay them out.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/amount.h"
#include "quantization/config.h"
#include "vllm/shapes/weight_scheme.h"

namespace plimsoll::vllm {

using quantization::ModuleName;
using quantization::Quantization;

/// Parts of the weights that a breakdown shows.
enum class Part : uint8_t { embedding, attention, mlp, experts, norm, vision, lm_head };
inline constexpr std::array<const char*, 7> kPartNames = {
    "embedding", "attention", "mlp", "experts", "norms", "vision", "lm_head"};

/// Division of a matrix over ranks.
enum class Split : uint8_t {
  outputs,  // column parallel
  inputs,   // row parallel
  none,     // every rank holds all of it
};

/// A linear layer, or several fused into one. Sizes are those of the whole model.
struct Linear {
  ModuleName name;
  int64_t inputs = 0;
  std::vector<int64_t> outputs;  // per fused matrix
  Split split = Split::outputs;
  bool bias = false;
  bool quantized = true;  // false: kept plain whatever the checkpoint's method (routers, norms)
};

/// A rotary embedding's table of cosines and sines, shared by the layers that use the same one.
struct RotaryTable {
  int64_t positions = 0;
  int64_t dimensions = 0;
  int64_t element = 2;
  std::string key;  // what distinguishes it (base, scaling, style)
  auto operator<=>(const RotaryTable&) const = default;
};

class RankWeights {
 public:
  /// `element` is the size of the model's dtype. Borrows the quantization.
  RankWeights(int64_t tensor_parallel, int64_t element, const Quantization& quantization);

  [[nodiscard]] int64_t ranks() const { return ranks_; }
  [[nodiscard]] int64_t element() const { return element_; }
  [[nodiscard]] const Quantization& quantization() const { return *quantization_; }
  /// size / ranks; throws Error(usage) naming `what` when it does not divide.
  [[nodiscard]] int64_t share(int64_t size, const char* what) const;
  /// Rows of this rank of a table of so many, padded to a multiple of 64.
  [[nodiscard]] int64_t vocabulary_rows(int64_t rows) const;
  /// Heads of this rank: at least one, replicated when there are fewer than ranks.
  [[nodiscard]] int64_t kv_heads(int64_t total) const;

  void linear(Part part, const Linear& linear);
  /// A linear layer of which this rank has `shape`; without its bias.
  void matrix(Part part, const ModuleName& name, const MatrixShape& shape, bool quantized);
  void vocabulary(Part part, int64_t rows, int64_t columns);
  void lm_head(int64_t rows, int64_t columns);
  struct Experts {
    ModuleName name;
    int64_t experts = 0;
    int64_t hidden = 0;
    int64_t intermediate = 0;
    int64_t up_matrices = 2;
    bool bias = false;
  };
  void experts(const Experts& experts);
  /// Elements of the model's dtype that every rank holds (norms, gains).
  void plain(Part part, Amount elements) { parameters(part, elements * element_); }
  void parameters(Part part, Amount bytes);
  void buffer(Amount bytes) { buffer_bytes_ += bytes; }
  void rotary(const RotaryTable& table);
  /// Counts the scales of an attention layer (buffers, and parameters in quantized models).
  void attention_scales(bool latent = false);
  /// Counts the buffers of an attention layer's scales alone.
  void attention_buffers();

  /// Reserves room in the linear layers and experts that follow for this many adapters of this
  /// rank.
  void set_lora(int64_t slots, int64_t rank) {
    lora_slots_ = slots;
    lora_rank_ = rank;
  }
  /// How the release adapts experts.
  enum class ExpertAdapters : uint8_t { none, apart, fused };
  void set_expert_adapters(ExpertAdapters adapters) { expert_adapters_ = adapters; }
  /// Counts in every slot the two factors of a matrix, or of `count` matrices that lie in one
  /// tensor: rank x inputs and outputs x rank (vllm/lora/layers).
  void adapt(Amount inputs, Amount outputs, Amount count = 1);
  /// Counts further elements of every slot.
  void adapt_rows(Amount elements);
  [[nodiscard]] Amount lora_bytes() const { return lora_bytes_; }

  /// While set, experts are divided over ranks whole instead of by their intermediate size.
  void set_expert_parallel(bool on) { expert_parallel_ = on; }
  /// Replicas of the model, over whose ranks together experts are divided
  /// (fused_moe/config.py: flatten_tp_across_dp_and_pcp).
  void set_data_parallel(int64_t replicas) { replicas_ = replicas; }
  [[nodiscard]] int64_t expert_ranks() const { return (Amount{ranks_} * replicas_).value(); }
  /// While unset, a rank's slice of an expert that cuts a block of scales is refused.
  void set_refined_blocks(bool on) { refined_blocks_ = on; }
  /// A rank's slice of experts in the model's own type is padded to a multiple of so many.
  void set_plain_expert_multiple(int64_t multiple) { plain_expert_multiple_ = multiple; }
  /// While set, packed experts have indices of an activation order, and indices that sort them.
  void set_expert_order(bool on) { expert_order_ = on; }

  [[nodiscard]] Amount parameter_bytes() const;
  [[nodiscard]] Amount part_bytes(Part part) const { return parts_[static_cast<size_t>(part)]; }
  [[nodiscard]] Amount buffer_bytes() const { return buffer_bytes_; }
  /// What torch's allocator gives beyond the parameters: a large tensor has a segment of whole
  /// 2 MiB, whose rest is split off where it is more than 1 MiB
  /// (c10/cuda/CUDACachingAllocator.cpp: kRoundLarge, kSmallSize).
  [[nodiscard]] Amount slack_bytes() const { return slack_bytes_; }
  /// Bytes of the largest of this rank's linear layers; the experts of a layer count as one.
  [[nodiscard]] Amount largest_matrix_bytes() const { return largest_matrix_; }

 private:
  int64_t ranks_;
  int64_t replicas_ = 1;
  int64_t element_;
  const Quantization* quantization_;
  bool expert_parallel_ = false;
  bool refined_blocks_ = true;
  bool expert_order_ = false;
  int64_t plain_expert_multiple_ = 1;
  std::array<Amount, kPartNames.size()> parts_{};
  Amount buffer_bytes_ = 0;
  Amount slack_bytes_ = 0;
  int64_t lora_slots_ = 0;
  int64_t lora_rank_ = 0;
  Amount lora_bytes_ = 0;
  ExpertAdapters expert_adapters_ = ExpertAdapters::apart;
  Amount largest_matrix_ = 0;
  std::set<RotaryTable> tables_;
};

}  // namespace plimsoll::vllm
