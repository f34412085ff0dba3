// The op interface: what the forward pass is written over. Public ops check shapes, take their
// workspace from the scratch arena and return early when it only counts; a backend implements the
// private ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "memory/arena.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// A matrix in somebody else's memory: [rows, columns], `stride` elements from row to row.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  /// Columns [first, first + count) of every row.
  [[nodiscard]] View slice_columns(int64_t first, int64_t count) const;
  [[nodiscard]] View slice_rows(int64_t first, int64_t count) const;
  [[nodiscard]] size_t bytes() const {
    return static_cast<size_t>(rows * stride) * dtype_size(dtype);
  }
};

/// A weight as the backend stores it (CPU: packed for its kernels).
struct Weight {
  const model::WeightSpec* spec = nullptr;
  DType dtype = DType::f32;
  void* data = nullptr;
  explicit operator bool() const { return spec != nullptr; }
};

/// KV blocks of one layer. Block b's part for this layer lies at pool + b * block_stride +
/// layer_offset and holds `block_size` tokens of K and V; how they lie inside is the backend's own
/// affair.
struct KvLayer {
  std::byte* pool = nullptr;
  size_t block_stride = 0;  // bytes
  size_t layer_offset = 0;  // bytes
  DType dtype = DType::bf16;
  int64_t block_size = 16;
  int32_t group = 0;  // which block table
};

/// What one step runs: flat arrays in host memory. Sequence s owns rows [query_start[s],
/// query_start[s + 1]), which are its positions [context_length[s] - rows, context_length[s]).
struct BatchMeta {
  std::span<const int32_t> token_ids;       // [T]
  std::span<const int32_t> positions;       // [T]
  std::span<const int32_t> row_sequence;    // [T] sequence of each row
  std::span<const int32_t> query_start;     // [B + 1]
  std::span<const int32_t> context_length;  // [B] tokens in the cache after this step
  std::span<const uint8_t> long_rope;       // [B] 1: RopeSpec::long_table
  std::span<const int32_t> logits_rows;     // [R] rows whose logits are wanted
  /// One table per KV group: [B, table_stride] block numbers, entry i for positions [i *
  /// block_size, ...); entries before a window are -1.
  std::span<const std::span<const int32_t>> block_tables;
  int64_t table_stride = 0;
};

/// Routing of tokens to experts.
struct Routing {
  View experts;  // [T, k] i32
  View weights;  // [T, k] f32
};

/// Sizes on a device: pure functions, the same for planning (on any machine) and running.
class Footprint {
 public:
  virtual ~Footprint() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Type of activations between ops when the model computes in `model`.
  [[nodiscard]] virtual DType activation_dtype(DType model) const = 0;
  [[nodiscard]] virtual size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const = 0;
  /// K and V of `block_size` tokens of one layer.
  [[nodiscard]] virtual size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                        DType dtype) const = 0;
  [[nodiscard]] virtual size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                                DType dtype) const = 0;
  [[nodiscard]] virtual size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp,
                                                 int64_t hidden, DType dtype) const = 0;
  [[nodiscard]] virtual size_t attention_workspace(int64_t rows, int64_t sequences,
                                                   const model::AttentionSpec& spec) const = 0;
};

/// Reads rows [first, first + count) of a weight in the weight's run dtype, row-major (see
/// WeightReader::read_rows).
using RowReader = std::function<void(int64_t first, int64_t count, void* to)>;

/// Work of the host: see Backend::parallel.
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

  /// Calls job(task) for each task in [0, tasks), in any order, and waits: work of the host between
  /// ops, on the threads that the backend has anyway. One after the other where it has none.
  virtual void parallel(int64_t tasks, const HostJob& job);

  /// Stores a weight in footprint().weight_bytes() bytes at `storage`. Threads are the backend's
  /// affair.
  Weight load_weight(const model::WeightSpec& spec, DType dtype, void* storage,
                     const RowReader& read);

  // Views: T rows of tokens. All ops give each row the same bits whatever other rows there are
  // (CPU).

  /// out[t] = table[ids[t]] * scale; with `accumulate` added to out instead.
  enum class Store : uint8_t { overwrite, accumulate };
  void embed(View out, const Weight& table, std::span<const int32_t> ids, float scale, Store store);
  void gather_rows(View out, View in, std::span<const int32_t> rows);
  /// out = norm(in) * (weight + offset) + bias; in place allowed. Weight and bias may be empty.
  void norm(View out, View in, const model::Norm& spec, const Weight& weight, const Weight& bias);
  /// residual += delta.
  void add(View residual, View delta);
  /// residual += delta; out = norm(residual).
  void add_norm(View out, View residual, View delta, const model::Norm& spec, const Weight& weight,
                const Weight& bias);
  /// out [T, n] = activation(in [T, k] * weight [n, k]^T + bias). `bias` may be empty.
  void linear(View out, View in, const Weight& weight, const Weight& bias,
              model::Activation activation);
  /// out [T, rotary_dim] f32: cos in the first half of a row, sin in the second.
  void rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch);
  /// qkv [T, (H + 2K) d]: norms of q and k heads, rotation in place, then k and v of each row into
  /// its cache slot. `angles` has no rows when the layer has no RoPE.
  void rope_and_store(View qkv, View angles, const model::AttentionSpec& spec, const Weight& q_norm,
                      const Weight& k_norm, const KvLayer& cache, const BatchMeta& batch);
  /// out [T, H d] = causal attention of the q columns of qkv over the cache.
  void attention(View out, View qkv, const model::AttentionSpec& spec, const KvLayer& cache,
                 const BatchMeta& batch);
  /// out [T, n] = activation(in[:, :n]) * in[:, n:].
  void gated_activation(View out, View in, model::Activation activation);
  /// Softmax over router logits [T, E], the k best, divided by their sum when `normalize`.
  enum class Normalize : uint8_t { no, yes };
  void route(const Routing& routing, View logits, Normalize normalize);
  /// out [T, hidden] = sum over chosen experts of weight * down(act(gate) * up).
  void experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
               const Weight& up, const Weight& down);
  /// x = cap * tanh(x / cap), in place.
  void soft_cap(View x, float cap);
  /// Makes logits readable by the host and returns them: [R, vocab] f32, contiguous rows of
  /// `stride`.
  const float* host_logits(View logits);

 protected:
  virtual void do_load_weight(const Weight& weight, const RowReader& read) = 0;
  virtual void do_embed(View out, const Weight& table, std::span<const int32_t> ids, float scale,
                        Store store) = 0;
  virtual void do_gather_rows(View out, View in, std::span<const int32_t> rows) = 0;
  virtual void do_norm(View out, View in, const model::Norm& spec, const Weight& weight,
                       const Weight& bias) = 0;
  virtual void do_add(View residual, View delta) = 0;
  virtual void do_add_norm(View out, View residual, View delta, const model::Norm& spec,
                           const Weight& weight, const Weight& bias) = 0;
  virtual void do_linear(View out, View in, const Weight& weight, const Weight& bias,
                         model::Activation activation, std::byte* workspace) = 0;
  virtual void do_rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) = 0;
  virtual void do_rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                                 const Weight& q_norm, const Weight& k_norm, const KvLayer& cache,
                                 const BatchMeta& batch) = 0;
  virtual void do_attention(View out, View qkv, const model::AttentionSpec& spec,
                            const KvLayer& cache, const BatchMeta& batch, std::byte* workspace) = 0;
  virtual void do_gated_activation(View out, View in, model::Activation activation) = 0;
  virtual void do_route(const Routing& routing, View logits, Normalize normalize) = 0;
  virtual void do_experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                          const Weight& up, const Weight& down, std::byte* workspace) = 0;
  virtual void do_soft_cap(View x, float cap) = 0;
  virtual const float* do_host_logits(View logits) = 0;

 private:
  /// Whether an op over these rows computes anything: not when scratch is only counted.
  [[nodiscard]] bool runs(View rows) const { return rows.rows > 0 && !scratch_->is_counting(); }
  const Footprint& footprint_;
  memory::Arena* scratch_ = nullptr;
};

}  // namespace plimsoll::backend
