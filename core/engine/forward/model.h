// The forward pass, written once over the ops, with the weights and KV blocks that it owns in the
// arena.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "engine/forward/layer_ends.h"
#include "engine/forward/weights.h"
#include "engine/ranks/communicator.h"
#include "engine/state_layout.h"
#include "memory/arena.h"
#include "model/model_spec.h"

namespace plimsoll::engine {

/// Layers that share block tables: all of one window, as many as fill one block.
struct KvGroup {
  int64_t window = 0;  // 0: full attention
  std::vector<int32_t> layers;
};

/// One pool of equal blocks; a block holds `block_size` tokens of the layers of any one group
/// (groups hold equally many layers, the last ones perhaps fewer: vLLM's hybrid layout). A sequence
/// has one block table per group.
struct KvLayout {
  int64_t block_size = 16;
  DType dtype = DType::bf16;
  size_t block_bytes = 0;
  std::vector<KvGroup> groups;
  std::vector<int32_t> layer_group;  // [layers]
  std::vector<size_t> layer_offset;  // [layers] bytes within a block
};

KvLayout make_kv_layout(const model::ModelSpec& spec, int64_t block_size, DType dtype,
                        const backend::Footprint& footprint);

/// A layer's part of a block: keys and values, then its indexer's keys.
struct LayerBlock {
  size_t index_offset = 0;  // bytes
  size_t bytes = 0;         // 0: nothing of its own
};
LayerBlock layer_block(const model::LayerSpec& layer, int64_t block_size, DType dtype,
                       const backend::Footprint& footprint);

/// The part of a model's layout that a pipeline stage keeps: the same groups with the stage's
/// layers, which begin with the model's `first_layer`. Its blocks are as large as these layers
/// need.
KvLayout cut_kv_layout(const KvLayout& whole, const model::ModelSpec& stage, int64_t first_layer,
                       const backend::Footprint& footprint);

/// Most blocks, over all groups, that a sequence of `length` tokens holds at one time when a step
/// computes at most `batched_tokens` of them (blocks before a window are released before).
int64_t blocks_of_sequence(const KvLayout& kv, int64_t length, int64_t batched_tokens);

/// The longest sequence that `blocks` hold, at most `most` tokens; 0: not even one token.
int64_t longest_sequence(const KvLayout& kv, int64_t blocks, int64_t most, int64_t batched_tokens);

/// Largest shapes that a step may have, from which all sizes in the arena follow.
struct StepLimits {
  int64_t batched_tokens = 0;  // T
  int64_t sequences = 0;       // B
  int64_t logits_rows = 0;     // rows of one logits() call
  int64_t table_stride = 0;    // blocks of the longest sequence
};

/// Memory that a model keeps from step to step.
struct ModelCaches {
  const KvLayout& kv;
  int64_t kv_blocks = 0;
  const StateLayout& states;
  int64_t state_slots = 0;
  int64_t handed_tokens = 0;  // most tokens whose hidden states a stage sends to the next
};

class Model : public Weights {
 public:
  /// Takes the regions "weights" (its own), "kv blocks" and, where it has any, "hidden states" (of
  /// a pipeline) and "recurrent states" from the arena (counting or placing).
  Model(const model::ModelSpec& spec, DType dtype, backend::Backend& backend, memory::Arena& arena,
        const ModelCaches& caches, WeightsOf weights = WeightsOf::itself);

  /// Joins a rank to its launch; it is one of `tensor` in its stage (null: alone). Stages send
  /// hidden states on, each of these ranks to the equally numbered one. A spec has no token table
  /// unless it is the first stage's and no head unless it is the last one's. Both arguments must
  /// outlive the model.
  void join(Communicator& ranks, int64_t rank, TensorRanks* tensor) {
    ranks_ = &ranks;
    rank_ = rank;
    tensor_ = tensor;
  }

  using Weights::borrow;

  /// True for a pipeline's last stage or the whole model, or a tensor-parallel rank of either.
  [[nodiscard]] bool has_head() const { return spec_.head != model::kNoWeight; }

  /// True for a pipeline's first stage or the whole model, or a tensor-parallel rank of either.
  [[nodiscard]] bool has_embedding() const { return spec_.embedding != model::kNoWeight; }

  [[nodiscard]] bool is_whole() const { return has_embedding() && has_head(); }

  /// True on the first tensor-parallel rank, the only one whose logits are complete.
  [[nodiscard]] bool leads() const { return tensor_ == nullptr || tensor_->rank() == 0; }

  /// Runs one step. A later stage must have received the hidden states (receive()); afterwards its
  /// own are ready for the next stage (send_hidden()). Returns the final hidden states of
  /// batch.logits_rows, after the last norm and projection: [R, width]; none except on the last
  /// stage. They lie in the backend's scratch until the caller's scope there ends.
  backend::View forward(const backend::BatchMeta& batch);
  /// Logits [rows, vocab] f32 of some of those rows (at most StepLimits::logits_rows), in scratch
  /// too. Only the first tensor-parallel rank has valid ones.
  backend::View logits(backend::View hidden);
  /// Sends the tokens that the first tensor-parallel rank has drawn to the other ranks.
  void share_drawn(const backend::BatchMeta& batch);
  /// Receives the hidden states of the next step from the previous stage.
  void receive(int64_t tokens);
  /// Sends the hidden states of the last step to the next stage.
  void send_hidden(int64_t tokens);

 private:
  /// Data that the layers of one step share.
  struct Step {
    const backend::BatchMeta& batch;
    backend::View residual;    // [T, hidden]; in the last layer the rows whose logits are wanted
    backend::View shortcut{};  // as `residual`, of LayerSpec::shortcut; empty where there is none
    backend::View inputs{};    // as `residual`, of all layers; empty where there are none
    backend::View first{};     // input of the first layer, where blocks read it too; else empty
    backend::View chosen{};    // [T, n] keys that the last indexer chose; empty where there is none
    bool gathered = false;     // the residual has the wanted rows alone
    /// [T, hidden] a layer's addition to the residual; where next_norm() is not null, the next
    /// layer's input.
    backend::View delta{};
  };
  /// Computes the input of the first layer from the tokens.
  void begin(const Step& step);
  void embed(const Step& step);
  /// Looks up rows of a table of tokens, which ranks may share.
  void look_up(const Step& step, model::WeightId table, float scale, backend::View out);
  /// Computes ModelSpec::layer_inputs from the first layer's input.
  void layer_inputs(const Step& step);
  /// out = the residual plus the output of LayerSpec::shared_block, which the mixer reads.
  void shared_block(const Step& step, size_t index, backend::View out);
  /// out += the adapter's output for `in`; nothing where there is none.
  void adapt(backend::View out, backend::View in, const model::Adapter& adapter);
  /// Step::inputs of one layer.
  [[nodiscard]] backend::View layer_inputs_of(const Step& step, size_t index) const {
    const int64_t width = spec_.layer_inputs.width;
    return step.inputs.slice_columns(static_cast<int64_t>(index) * width, width);
  }
  /// Computes LayerSpec::input for the rows `x`.
  void layer_input(const model::LayerInput& spec, backend::View input, backend::View x,
                   backend::View out);
  void add_input(const model::LayerInput& spec, backend::View input, backend::View residual);
  /// Runs all layers of a model with several residuals; `hidden` gets the wanted rows.
  void stream_layers(Step& step, backend::View hidden);
  void stream_layer(const Step& step, size_t index, backend::View streams);
  /// Computes m(x) of StreamLayer.
  void route_streams(const model::StreamLayer& spec, backend::View x, backend::View out);
  void predict_streams(const model::StreamLayer& spec, backend::View streams, backend::View out);
  void correct_streams(const model::StreamLayer& spec, backend::View made, backend::View streams);
  /// Computes a layer's output for the first residual.
  void run_branches(const Step& step, size_t index, backend::View x, backend::View out);
  void layer(Step& step, size_t index, backend::View hidden);
  /// What a layer's mixer reads: the residual, its norm, or a shared block of it.
  backend::View mixer_input(const Step& step, size_t index);
  /// Runs a layer in a step of few rows, in a model whose layers allow it: norms, sums and
  /// activations are parts of the products, and only the residual passes from layer to layer.
  void fused_layer(Step& step, size_t index, backend::View hidden);
  [[nodiscard]] bool fuses(int64_t tokens) const;
  void fused_linear(backend::View out, backend::View in, const model::Linear& linear,
                    const model::Norm& norm, backend::ProductEnd end,
                    model::Activation activation = model::Activation::none);
  /// Gathers the wanted rows of the step's residual to `hidden`, in the last layer.
  void keep_wanted_residual(Step& step, backend::View hidden);
  /// Keeps the wanted rows alone of all that the last layer reads behind its mixer.
  void keep_wanted(Step& step, const model::LayerSpec& layer, backend::View hidden);
  /// q, k and v of all heads from their latents, v's heads padded to k's; where there is an
  /// indexer, it chooses keys.
  void expand_latents(const Step& step, size_t index, backend::View input, backend::View qkv);
  /// Step::chosen: room for the keys of each row.
  backend::View take_choice(const backend::BatchMeta& batch);
  void choose_keys(const Step& step, size_t index, backend::View input, backend::View q_latent);
  /// Widens v's heads to k's, where v's alone are smaller.
  void widen_values(const model::AttentionSpec& spec, backend::View input, backend::View qkv);
  /// Attention's output without the padding of v's heads.
  backend::View narrow_values(const model::AttentionSpec& spec, backend::View attended);
  /// When a product of which ranks have some inputs each is summed over all ranks: at once, or with
  /// the norm of the residual that it is added to (add_norm()).
  enum class Sum : uint8_t { now, with_norm };
  void attention(const Step& step, size_t index, backend::View input, backend::View out,
                 Sum sum = Sum::now);
  /// Attention's output for `qkv`, whose keys and values it stores.
  backend::View attend(const Step& step, size_t index, backend::View qkv);
  /// Runs the mixer of a layer: attention, a recurrent mixer, both side by side or nothing.
  void mix(const Step& step, size_t index, backend::View input, backend::View out, Sum sum);
  void recurrent(const Step& step, size_t index, backend::View input, backend::View out);
  void short_conv(const Step& step, size_t index, backend::View input, backend::View out);
  void mamba1(const Step& step, size_t index, backend::View input, backend::View out);
  void mamba2(const Step& step, size_t index, backend::View input, backend::View out);
  void gated_delta(const Step& step, size_t index, backend::View input, backend::View out);
  void channel_delta(const Step& step, size_t index, backend::View input, backend::View out);
  void linear_attention(const Step& step, size_t index, backend::View input, backend::View out);
  void gated_linear(const Step& step, size_t index, backend::View input, backend::View out);
  backend::View output_gate(const model::RecurrentSpec& spec, backend::View input);
  void convolve(const Step& step, size_t index, backend::View out, backend::View in);
  /// Calls `change` for whole rows of `columns`, of which each rank has some: gathers them and does
  /// it on each rank.
  void change_across(backend::View x, int64_t columns,
                     const std::function<void(backend::View all)>& change);
  /// Norm over each of `groups` parts of a row of which each rank has some columns.
  void norm_across(backend::View x, const model::Norm& spec, int64_t groups);
  /// Normalises x in groups, and multiplies it by SiLU of z, before or after.
  void gate_and_norm(const model::RecurrentSpec& spec, backend::View x, backend::View z);
  /// Rows of a mixer's output that are still needed.
  backend::View wanted_rows(const Step& step, backend::View mixed);
  /// Some rows of a layer after its mixer.
  struct LayerRows {
    backend::View residual;
    backend::View delta;       // the mixer's output for them
    backend::View shortcut{};  // the previous layer's output for them, or this layer's
    backend::View input{};     // LayerSpec::input's rows
    /// Norm with which the next layer begins, in place of delta; null: none, or it needs more rows.
    const model::Norm* next_norm = nullptr;
    Sum mixed = Sum::now;  // of delta
    Sum fed = Sum::now;    // of what the MLP makes of it
  };
  void finish_rows(const model::LayerSpec& layer, const LayerRows& rows);
  /// Adds mixer and MLP to the residual, each read through a norm of its own.
  void add_branches(const model::LayerSpec& layer, const LayerRows& rows);
  /// Finishes rows of other layers: other placements of norms, no mixer or no MLP.
  void finish_otherwise(const model::LayerSpec& layer, const LayerRows& rows);
  /// LayerRows::next_norm after a layer.
  [[nodiscard]] const model::Norm* next_norm(size_t index) const;
  /// residual += delta times the layer's factor; delta then holds that product, or `next` of the
  /// residual.
  void add_branch(const model::LayerSpec& layer, backend::View residual, backend::View delta,
                  const model::Norm* next = nullptr, Sum sum = Sum::now);
  void blend(const model::Blend& blend, backend::View residual, backend::View delta);
  /// Inputs of a layer's MLP: the residual after the norm, and the residual itself.
  struct MlpInputs {
    backend::View normed, residual;
  };
  void feed_forward(const model::MlpSpec& mlp, const MlpInputs& in, backend::View out,
                    Sum sum = Sum::now);
  /// A gated MLP: `up` holds gate and up.
  struct GatedMlp {
    int64_t intermediate = 0;
    model::Activation activation = model::Activation::silu;
    model::Linear up, down;
    float gate_factor = 1, out_factor = 1;  // as in MlpSpec
    float gate_deviations = 0;              // as in MlpSpec
    model::GateLimits limits{};             // as in MlpSpec
    model::Adapter adapter{};               // of `up`
  };
  void gated(const GatedMlp& mlp, backend::View in, backend::View out, Sum sum = Sum::now);
  void experts(const model::MlpSpec& mlp, const MlpInputs& in, backend::View out);
  /// The norm of the residual where the spec has one, else `usual`.
  backend::View own_input(const model::Norm& spec, const MlpInputs& inputs, backend::View usual);
  /// Adds the output of the shared experts for `in`.
  void add_shared(const model::MlpSpec& mlp, backend::View in, backend::View out);

  /// A product; where ranks have some inputs each, its sum over all of them.
  void linear(backend::View out, backend::View in, const model::Linear& linear,
              model::Activation activation, Sum sum = Sum::now);
  /// When to sum a product that `next` follows, if it is not null.
  [[nodiscard]] Sum sum_before(const model::Norm* next, const model::Linear& linear) const;
  /// residual += delta; out = norm(residual), which may be in place of delta.
  void add_norm(backend::View out, backend::View residual, backend::View delta,
                const model::Norm& spec, Sum sum);
  [[nodiscard]] backend::View handed_rows(int64_t tokens) const {
    return handed_.slice_rows(0, tokens);
  }
  /// A weight, with the ranks that have the rest of its inputs.
  [[nodiscard]] backend::Weight share(model::WeightId id) const;
  /// Gathers the columns of all ranks side by side, on each of them.
  void share_columns(backend::View columns, backend::View all);
  /// Distance in ranks to the equally numbered rank of the next stage.
  [[nodiscard]] int64_t stage_ranks() const { return tensor_ == nullptr ? 1 : tensor_->ranks(); }
  [[nodiscard]] bool is_last(const model::LayerSpec& layer) const;

  const model::ModelSpec& spec_;
  std::vector<backend::KvLayer> caches_;                   // by layer
  std::vector<backend::StateLayer> conv_states_, states_;  // by layer
  std::vector<backend::View> angles_;                      // by rope, of the step that runs
  Communicator* ranks_ = nullptr;                          // null: the model is whole
  TensorRanks* tensor_ = nullptr;                          // null: no other has the same layers
  int64_t rank_ = 0;
  std::vector<LayerEnds> ends_;    // by layer
  bool has_plain_layers_ = false;  // fused_layer() can run all layers
  /// [T, hidden] the residual, which stages send on; empty where there is one stage.
  backend::View handed_{};
};

}  // namespace plimsoll::engine
