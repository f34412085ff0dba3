// The work of bind_tensors(): names the tensors of a GGUF file in the parts of a model's weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/architectures.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint::gguf {

/// Rows of a tensor: `count` blocks of `block` rows, the first at `first`, each `stride` after the
/// last.
struct TensorRows {
  std::string base;  // "blk.0.attn_q": the tensor's name without ".weight" or ".bias"
  int64_t stored = 0;
  int64_t first = 0;
  int64_t block = 0;
  int64_t stride = 0;
  int64_t count = 1;
  model::RowOrder order = model::RowOrder::stored;

  /// All rows.
  TensorRows(std::string name, int64_t rows) : TensorRows(std::move(name), rows, 0, rows) {}
  /// Rows [first, first + rows) of `all`.
  TensorRows(std::string name, int64_t all, int64_t from, int64_t rows)
      : base(std::move(name)), stored(all), first(from), block(rows), stride(rows) {}
};

class Binder {
 public:
  Binder(Checkpoint& checkpoint, model::ModelSpec& spec)
      : checkpoint_(checkpoint),
        spec_(spec),
        architecture_(*find_architecture(checkpoint.gguf()->architecture())) {}

  void run();

 private:
  using AttentionSpec = model::AttentionSpec;
  using LayerSpec = model::LayerSpec;
  using Linear = model::Linear;
  using MlpSpec = model::MlpSpec;
  using ModelSpec = model::ModelSpec;
  using Norm = model::Norm;
  using Part = model::Part;
  using RecurrentKind = model::RecurrentKind;
  using RecurrentSpec = model::RecurrentSpec;
  using RowOrder = model::RowOrder;
  using Split = model::Split;
  using WeightId = model::WeightId;
  using WeightSpec = model::WeightSpec;
  static constexpr WeightId kNoWeight = model::kNoWeight;

  [[nodiscard]] bool has(const std::string& tensor) const {
    return checkpoint_.find(tensor) != nullptr;
  }

  /// Gives a tensor the shape that the weight table needs, where it holds as many values and rows
  /// stay rows.
  void fit(const std::string& tensor, const std::vector<int64_t>& shape);

  void bind(WeightId id, const std::vector<TensorRows>& rows, const char* ending);

  /// A weight that is one tensor.
  void one(WeightId id, const std::string& tensor) {
    if (id == kNoWeight) return;
    bind(id, {{tensor, spec_.weight(id).rows()}}, "");
  }
  void linear(const Linear& linear, const std::vector<TensorRows>& rows) {
    bind(linear.weight, rows, ".weight");
    bind(linear.bias, rows, ".bias");
  }
  void linear(const Linear& all, const std::string& base) {
    if (all.weight != kNoWeight) linear(all, {{base, spec_.weight(all.weight).rows()}});
  }

  /// Norms that had 1 added while they were converted need no offset any more.
  void norm(Norm& norm, const std::string& base) {
    const bool bare = has(base) && !has(base + ".weight");  // Falcon-H1's "ffn_norm"
    one(norm.weight, bare ? base : base + ".weight");
    one(norm.bias, base + ".bias");
    norm.weight_offset = 0;
  }

  void bind_layer(size_t index);
  void bind_norms(LayerSpec& layer);
  /// The norm before the MLP, without ".weight".
  [[nodiscard]] std::string mlp_norm() const;
  void bind_head();
  /// Gemma 4's inputs by layer, and the factor of a layer's output.
  void bind_layer_inputs(LayerSpec& layer);

  /// Gemma 3n's residuals, of which one tensor holds all projections.
  void bind_streams();
  void bind_stream_layer(model::StreamLayer& layer);
  /// Apertus: the numbers of a layer's activation, which stand in the metadata.
  void bind_xielu(WeightId id, size_t layer);

  /// Rows of q's or k's heads.
  [[nodiscard]] TensorRows heads(const std::string& base, int64_t count, int64_t size) const;

  void bind_attention(AttentionSpec& attention);

  void bind_latent(AttentionSpec& attention);
  void bind_indexer(model::IndexerSpec& indexer);

  /// Rows of k and v of each head from the latent: k's are stored [latent, k], v's [v, latent].
  void bind_latent_heads(const AttentionSpec& attention);

  /// `kind`: "", or "_shexp" of shared experts.
  void bind_mlp(const Linear& up, const Linear& down, bool gated, const std::string& kind);

  void bind_experts(MlpSpec& mlp);
  /// Norms and scales beside Gemma 4's experts, whose shared expert is the layer's MLP.
  void bind_expert_norms(MlpSpec& mlp);

  /// The rows of each expert, of which tensors hold all, one after the other.
  static std::vector<TensorRows> of_experts(const MlpSpec& mlp,
                                            const std::vector<TensorRows>& first);

  void bind_recurrent(RecurrentSpec& mixer);

  /// The parts that a weight has of one tensor, under this name.
  [[nodiscard]] std::vector<TensorRows> cut_like(WeightId id, const std::string& base) const;
  [[nodiscard]] std::vector<TensorRows> in_parts(const Linear& in, const std::string& base) const {
    return cut_like(in.weight, base);
  }

  void bind_delta(RecurrentSpec& mixer);
  /// Kimi Linear's delta rule.
  void bind_channel_delta(RecurrentSpec& mixer);

  /// Llama 3's scaling of RoPE, which the file has as divisors of the frequencies.
  void divide_frequencies();

  void ignore();

  Checkpoint& checkpoint_;
  ModelSpec& spec_;
  const Architecture& architecture_;
  std::string blk_;  // "blk.0."
};

}  // namespace plimsoll::checkpoint::gguf
