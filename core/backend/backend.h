// The op interface, in which the forward pass is written. Public ops check shapes, take their
// workspace from the scratch arena and return early when the arena only counts; a backend
// implements the private ones.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "backend/batch_meta.h"
#include "backend/footprint.h"
#include "backend/operands.h"
#include "backend/tensor_ranks.h"
#include "base/dtype.h"
#include "memory/arena.h"
#include "memory/host_memory.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Shapes and memory that a launch gives its backend, once, before anything is loaded.
struct LaunchParts {
  StepShape shape;
  std::span<std::byte> device_workspace;
  std::span<std::byte> host_workspace;
};

/// Reads rows [first, first + count) of a weight in the weight's run dtype, row-major (see
/// WeightReader::read_rows), and opens its quantised parts. Several threads may call it at once.
class RowReader {
 public:
  using Rows = std::function<void(int64_t first, int64_t count, void* to)>;
  using Packed = std::function<std::unique_ptr<model::PackedRows>(size_t part)>;

  template <std::invocable<int64_t, int64_t, void*> F>
  RowReader(F rows, Packed packed = nullptr)  // NOLINT: any function of rows reads rows
      : rows_(std::move(rows)), packed_(std::move(packed)) {}

  void operator()(int64_t first, int64_t count, void* to) const { rows_(first, count, to); }
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(size_t part) const {
    return packed_(part);
  }

 private:
  Rows rows_;
  Packed packed_;
};

/// A job on the host's threads: see Backend::parallel.
using HostJob = std::function<void(int64_t task)>;

class Backend {
 public:
  explicit Backend(const Footprint& footprint) : footprint_(footprint) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] const Footprint& footprint() const { return footprint_; }
  /// Scratch that ops take their workspace from; set before the first op.
  void use_scratch(memory::Arena& scratch) { scratch_ = &scratch; }
  [[nodiscard]] memory::Arena& scratch() { return *scratch_; }

  // Backends of several ranks.

  /// Selects this backend for the calling thread. Each rank's thread calls it first.
  virtual void use_here() const {}
  /// Makes the team of the ranks of one stage, for backends of this kind; null: they share the
  /// host's memory.
  virtual std::unique_ptr<RankTeam> make_team(std::span<Backend* const> /*ranks*/) const {
    return nullptr;
  }
  /// Makes and joins a team of ranks in several processes, for backends with memory of their own:
  /// one rank makes the meeting's id, then all ranks join it. `ranks` are those of this process;
  /// meet() returns when all ranks have joined. Throws Error.
  virtual MeetingId make_meeting() const;
  virtual std::unique_ptr<FarTeam> meet(std::span<Backend* const> ranks,
                                        const Meeting& meeting) const;
  /// Waits until all enqueued work has run, so that another rank may read its results.
  virtual void settle() {}
  /// Copies memory of another rank of this process after its settle(); returns when the copy is
  /// complete.
  virtual void take_from(std::span<const std::byte> from, void* to);

  /// The memory behind a launch's arenas: the device's, and the host's that it copies from. Throws
  /// Error when the system refuses.
  virtual std::unique_ptr<memory::Memory> take_memory(size_t bytes);
  virtual std::unique_ptr<memory::Memory> take_host_memory(size_t bytes);
  virtual void start_launch(const LaunchParts&) {}

  /// Calls job(task) for each task in [0, tasks), in any order, and waits: work of the host between
  /// ops, on the backend's own threads. One task after the other where it has none.
  virtual void parallel(int64_t tasks, const HostJob& job);

  /// Stores a weight in footprint().weight_bytes() bytes at `storage`, with any number of threads.
  Weight load_weight(const model::WeightSpec& spec, DType dtype, void* storage,
                     const RowReader& read);
  /// Fills a weight with numbers that are uniform in [-scale, scale), for benchmarks. The same seed
  /// gives the same numbers.
  virtual void fill_random(const Weight& weight, uint64_t seed, float scale);
  /// Returns when all weights are loaded.
  virtual void finish_loading() {}

  /// Called once, when every kind of step has run (the largest one, and each size that is
  /// recorded): chooses algorithms. From then on nothing is allocated on the device.
  virtual void finish_launch() {}

  // A step: start_step, run_step over the ops, finish_step; await_step before its results are read.
  // Steps run in the order in which they are started.

  /// Fills batch.plan and enqueues the copies of the batch to the device.
  virtual void start_step(const BatchMeta&) {}
  /// Calls `ops`, which enqueues the ops of the step. A backend that records may keep the ops that
  /// the first call of a key enqueued, and repeat them at later calls without calling `ops`: steps
  /// of a key differ only in the batch's arrays. Key 0 is never recorded.
  virtual void run_step(int64_t key, const std::function<void()>& ops);
  /// Enqueues the copy of the drawn tokens to batch.drawn.
  virtual void finish_step(const BatchMeta&) {}
  /// Waits for the step; then batch.drawn is valid.
  virtual void await_step(const BatchMeta&) {}

  // Image encoders run between steps, in the order in which everything is enqueued. Their ops'
  // inputs in host memory are sent to scratch first.

  /// Fills batch.plan on the host.
  virtual void plan_segments(const BatchMeta&, const model::AttentionSpec&) {}
  /// Enqueues a copy of host memory to the device. Only where memory is not shared.
  virtual void send(void* to, std::span<const std::byte> from);
  /// Waits until all sent data has arrived, so that the host may write there again.
  virtual void await_sent() {}

  // Views: T rows of tokens. All ops give each row the same bits whatever other rows there are
  // (CPU).

  /// out[t] = table[batch.token_ids[t]] * scale. An id past the table takes row 0, as Gemma 3n's
  /// inputs by layer do. Where ranks share the table (Weight::ranks), tokens of other ranks give
  /// -0, so that the sum over all ranks equals one rank's result to the bit.
  void embed(View out, const Weight& table, const BatchMeta& batch, float scale);
  /// out[t] += table[batch.positions[t] + offset].
  void embed_positions(View out, const Weight& table, const BatchMeta& batch, int64_t offset);
  /// out[i] = in[batch.logits_rows[i]].
  void gather_rows(View out, View in, const BatchMeta& batch);
  /// out = norm(in) * (weight + offset) + bias; in place allowed. Weight and bias may be empty. A
  /// weight of several times a row's width is a matrix of w rows, and row t takes weight row t mod
  /// w.
  void norm(View out, View in, const model::Norm& spec, const Weight& weight, const Weight& bias);
  /// residual += delta.
  void add(View residual, View delta);
  /// residual += delta; out = norm(residual), which may be in place of delta.
  void add_norm(View out, View residual, View delta, const model::Norm& spec, const Weight& weight,
                const Weight& bias);
  /// out [T, n] = activation(in [T, k] * weight [n, k]^T + bias). `bias` may be empty.
  void linear(View out, View in, const Weight& weight, const Weight& bias,
              model::Activation activation);
  /// linear() with a weight of which ranks have some inputs each (Weight::ranks), summed over all
  /// ranks. The bias is added by the rank that is given one; there is no activation.
  void linear_across(View out, View in, const Weight& weight, const Weight& bias);
  /// Sums delta over all ranks, then add_norm() of it.
  void sum_add_norm(const SummedNorm& op, TensorRanks& ranks);
  /// linear() of norm(in), then: out = the product, out += it, or out = gated_activation() of it.
  /// Without a kernel for it, a backend runs these ops one after the other.
  void fused_linear(const FusedLinear& op);
  /// out [T, rotary_dim] f32: cos in the first half of a row, sin in the second.
  void rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch);
  /// qkv [T, (H + 2K) d], in place: clamp, norms and rotation of q and k heads in the spec's order,
  /// growth of q by position; then k and v of each row into its cache slot. `angles` has no rows
  /// when the layer has no RoPE. v in qkv is not kept.
  void rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                      const HeadNorms& norms, const KvLayer& cache, const BatchMeta& batch);
  /// chosen [T, n] i32: the positions of the n keys with the best scores among those that a row
  /// sees, ascending; of equal scores the first. The score of a key is the sum over heads of weight
  /// * max(q.k * scale, 0). Rows that see no more than n keys are left unchanged. `spec` is
  /// AttentionSpec::index_heads(), `keys` the cache that rope_and_store() fills for it.
  void choose_keys(View chosen, const IndexInputs& in, const model::AttentionSpec& spec,
                   const KvLayer& keys, const BatchMeta& batch);
  /// out [T, H d] = causal attention of the q columns of qkv over the cache; over the chosen keys
  /// alone where there is a choice.
  void attention(View out, View qkv, const model::AttentionSpec& spec, const ScoreTerms& terms,
                 const KvLayer& cache, const BatchMeta& batch);
  /// out's columns = in's, or zeros where `in` has no rows; other columns of out are unchanged.
  void copy_heads(View out, View in, const HeadColumns& columns);
  /// x [T, n] *= f(gates [T, m]) with the kind's f, in place; gate i is for columns [i n / m, (i +
  /// 1) n / m).
  void multiply_gates(View x, View gates, model::GateKind kind);
  /// Limits x [T, 2 n], in place: gates, its first n columns, and ups, the others.
  void limit_gates(View x, const model::GateLimits& limits);
  /// out [T, n] = activation(in[:, :n]) * in[:, n:].
  void gated_activation(View out, View in, model::Activation activation);
  /// x = xIELU(x), in place: with p = softplus(alpha_p), n = beta + softplus(alpha_n), of x > 0 p
  /// x^2
  /// + beta x, else n (expm1(min(x, eps)) - x) + beta x. `parameters` [4]: alpha_p, alpha_n, beta,
  /// eps. Huang and Schlag 2024.
  void xielu(View x, const Weight& parameters);
  /// The k best experts of each row by the router's rules, from router logits [T, E] f32, which are
  /// not kept; the first of equal ones. `choice_bias` [E] f32 may be empty.
  void route(const Routing& routing, View logits, const model::RouterSpec& router,
             const Weight& choice_bias);
  /// out [T, hidden] = sum over chosen experts of weight * (down(act(gate) * up) + bias).
  void experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
               const ExpertWeights& weights);
  // Ops of pictures: only where Footprint::sees_pictures.

  /// out[batch.embedded_rows[i]] = batch.embeddings[batch.embedding_rows[i]].
  void place_embeddings(View out, const BatchMeta& batch);
  /// out [T, n] = mean of the k parts of in [T, k n].
  void average_parts(View out, View in);
  /// x [T, n] *= weight [n] (of any shape with n elements), in place.
  void scale_columns(View x, const Weight& weight);

  /// x = cap * tanh(x / cap), in place.
  void soft_cap(View x, float cap);
  /// x [T, n] *= factors, in place: x[t, i] by factors[indices[t, i]] (i32), or all of x by the one
  /// factor where `indices` is empty.
  void multiply_factors(View x, const Weight& factors, View indices);
  /// x *= factor, in place.
  void scale(View x, float factor);
  /// x *= like's root mean square / x's own, row by row; x's own mean square counts as at least
  /// 1e-5.
  void match_size(View x, View like);
  /// x = max(x - mean - deviations * deviation, 0), with each row's mean and deviation.
  void keep_above(View x, float deviations);
  // Recurrent ops: each sequence continues from its state, or from zeros where its first row is
  // position 0, and stores its state after its last row. No row's bits depend on how a sequence's
  // rows are cut into steps.

  /// out [T, width] = activation(causal convolution of in + bias). The state is [taps - 1, width],
  /// the oldest row first. `bias` may be empty.
  void convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                const Weight& bias, const StateLayer& states, const BatchMeta& batch);
  /// Selective scan of a state space, by head, with d = softplus(step + bias): h = exp(d A) h + d x
  /// B^T, out = h C + D x. The state is [heads, head_dim, state].
  void selective_scan(View out, const ScanInputs& in, const model::RecurrentSpec& spec,
                      const ScanWeights& weights, const StateLayer& states, const BatchMeta& batch);
  /// Gated delta rule, by head, with q and k scaled to length 1, q by state^-1/2 too, beta = factor
  /// * sigmoid(beta), g = -exp(A_log) softplus(step + bias): S = exp(g) S; S += k (beta (v - S^T
  /// k))^T; out = S^T q. The state is [heads, state, head_dim].
  void gated_delta(View out, const DeltaInputs& in, const model::RecurrentSpec& spec,
                   const DeltaWeights& weights, const StateLayer& states, const BatchMeta& batch);
  /// Gated linear recurrence of each channel by itself, with gates i and r: a = exp(-8 r
  /// softplus(decay)), h = a h + (1 - a^2)^1/2 i x, at position 0 h = i x; out = h. `decay` is
  /// [width]; the state is [width].
  void linear_recurrence(View out, const LruInputs& in, const model::RecurrentSpec& spec,
                         const Weight& decay, const StateLayer& states, const BatchMeta& batch);
  /// Changes logits [rows, vocab] f32 by batch.drawing's entries [first, first + rows), draws
  /// tokens from them and writes the tokens to those entries of batch.drawn_on_device. Only where
  /// Footprint::draws, and after embed().
  void draw(const BatchMeta& batch, View logits, int64_t first);
  /// Waits, makes logits readable by the host and returns them: [R, vocab] f32, rows `stride`
  /// apart. A device copies them to `staging`, which has room for R rows of `stride`.
  const float* host_logits(View logits, std::span<float> staging);

 protected:
  virtual void do_load_weight(const Weight& weight, const RowReader& read) = 0;
  virtual void do_embed(View out, const Weight& table, const BatchMeta& batch, float scale) = 0;
  virtual void do_embed_positions(View out, const Weight& table, const BatchMeta& batch,
                                  int64_t offset) = 0;
  virtual void do_gather_rows(View out, View in, const BatchMeta& batch) = 0;
  virtual void do_norm(View out, View in, const model::Norm& spec, const Weight& weight,
                       const Weight& bias) = 0;
  virtual void do_add(View residual, View delta) = 0;
  virtual void do_add_norm(View out, View residual, View delta, const model::Norm& spec,
                           const Weight& weight, const Weight& bias) = 0;
  virtual void do_linear(View out, View in, const Weight& weight, const Weight& bias,
                         model::Activation activation, std::byte* workspace) = 0;
  /// do_linear(), then the sum over ranks.
  virtual void do_linear_across(View out, View in, const Weight& weight, const Weight& bias,
                                std::byte* workspace);
  virtual void do_fused_linear(const FusedLinear& op, const FusedParts& parts);
  virtual void do_rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) = 0;
  virtual void do_rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                                 const HeadNorms& norms, const KvLayer& cache,
                                 const BatchMeta& batch) = 0;
  virtual void do_choose_keys(View chosen, const IndexInputs& in, const model::AttentionSpec& spec,
                              const KvLayer& keys, const BatchMeta& batch, std::byte* workspace);
  virtual void do_attention(View out, View qkv, const model::AttentionSpec& spec,
                            const ScoreTerms& terms, const KvLayer& cache, const BatchMeta& batch,
                            std::byte* workspace) = 0;
  virtual void do_copy_heads(View out, View in, const HeadColumns& columns) = 0;
  virtual void do_multiply_gates(View x, View gates, model::GateKind kind) = 0;
  virtual void do_xielu(View x, const Weight& parameters) = 0;
  virtual void do_limit_gates(View x, const model::GateLimits& limits) = 0;
  virtual void do_gated_activation(View out, View in, model::Activation activation) = 0;
  virtual void do_route(const Routing& routing, View logits, const model::RouterSpec& router,
                        const Weight& choice_bias) = 0;
  virtual void do_experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                          const ExpertWeights& weights, std::byte* workspace) = 0;
  virtual void do_soft_cap(View x, float cap) = 0;
  virtual void do_multiply_factors(View x, const Weight& factors, View indices) = 0;
  virtual void do_scale(View x, float factor) = 0;
  virtual void do_place_embeddings(View out, const BatchMeta& batch);
  virtual void do_average_parts(View out, View in);
  virtual void do_scale_columns(View x, const Weight& weight);
  virtual void do_convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                           const Weight& bias, const StateLayer& states, const BatchMeta& batch);
  virtual void do_selective_scan(View out, const ScanInputs& in, const model::RecurrentSpec& spec,
                                 const ScanWeights& weights, const StateLayer& states,
                                 const BatchMeta& batch);
  virtual void do_match_size(View x, View like);
  virtual void do_keep_above(View x, float deviations);
  virtual void do_gated_delta(View out, const DeltaInputs& in, const model::RecurrentSpec& spec,
                              const DeltaWeights& weights, const StateLayer& states,
                              const BatchMeta& batch);
  virtual void do_linear_recurrence(View out, const LruInputs& in, const model::RecurrentSpec& spec,
                                    const Weight& decay, const StateLayer& states,
                                    const BatchMeta& batch);
  virtual void do_draw(const BatchMeta& batch, View logits, int64_t first, std::byte* workspace);
  virtual const float* do_host_logits(View logits, std::span<float> staging) = 0;

 private:
  /// True when an op over these rows computes anything: false when scratch is only counted.
  [[nodiscard]] bool runs(View rows) const { return rows.rows > 0 && !scratch_->is_counting(); }
  const Footprint& footprint_;
  memory::Arena* scratch_ = nullptr;
};

}  // namespace plimsoll::backend
