// Memory that a backend takes of a device, and its abilities: for plans on any machine and for
// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Largest shapes of a launch's steps, and the model they run.
struct StepShape {
  const model::ModelSpec* spec = nullptr;
  int64_t tokens = 0;        // T
  int64_t sequences = 0;     // B
  int64_t logits_rows = 0;   // of one product with the head
  int64_t table_stride = 0;  // blocks of the longest sequence
  int64_t block_size = 16;
  DType kv_dtype = DType::bf16;
  int64_t tensor_ranks = 1;  // of the stage
  int64_t stages = 1;        // of the pipeline; as many steps are under way
};

/// Sizes on a device: pure functions, equal for planning (on any machine) and running.
class Footprint {
 public:
  virtual ~Footprint() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Type of activations between ops when the model computes in `model`.
  [[nodiscard]] virtual DType activation_dtype(DType model) const = 0;
  [[nodiscard]] virtual size_t weight_bytes(const model::WeightSpec& spec, DType dtype) const = 0;
  /// Bytes of K and V of `block_size` tokens in one layer.
  [[nodiscard]] virtual size_t kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                                        DType dtype) const = 0;
  [[nodiscard]] virtual size_t linear_workspace(int64_t rows, const model::WeightSpec& spec,
                                                DType dtype) const = 0;
  [[nodiscard]] virtual size_t experts_workspace(int64_t rows, const model::MlpSpec& mlp,
                                                 int64_t hidden, DType dtype) const = 0;
  /// Workspace after experts_workspace: rewritten inputs of quantized experts.
  [[nodiscard]] virtual size_t expert_inputs_workspace(int64_t /*rows*/, const model::MlpSpec&,
                                                       const model::WeightSpec& /*up*/,
                                                       const model::WeightSpec& /*down*/,
                                                       DType) const {
    return 0;
  }
  [[nodiscard]] virtual size_t attention_workspace(int64_t rows, int64_t sequences,
                                                   const model::AttentionSpec& spec) const = 0;
  /// Workspace of ops::ChooseKeys for rows that see at most `longest` keys.
  [[nodiscard]] virtual size_t choice_workspace(int64_t /*rows*/, int64_t /*longest*/) const {
    return 0;
  }

  // Abilities and sizes in which devices with memory of their own differ.

  /// True when host and device see the same memory: then one arena serves both.
  [[nodiscard]] virtual bool shares_memory() const { return true; }
  /// True when keys and values can be stored in `kv` while the model computes in `model`.
  [[nodiscard]] virtual bool stores_kv(DType kv, DType model) const { return kv == model; }
  /// True when tokens are drawn on the device; rows that need more than BatchMeta::drawing are read
  /// by the host all the same.
  [[nodiscard]] virtual bool draws() const { return false; }
  /// The largest top_k that is drawn on the device.
  [[nodiscard]] virtual int64_t largest_drawn_top_k() const { return 1024; }
  /// Steps that may be enqueued before the results of an earlier one are read: 0 or 1.
  [[nodiscard]] virtual int ahead() const { return 0; }
  /// Number of slabs of step arrays that are used in turn, for a pipeline of `stages` stages.
  [[nodiscard]] int64_t slabs(int64_t stages) const {
    return stages > ahead() ? stages : ahead() + 1;
  }
  /// Most rows of a step that consists of ops::FusedLinear, where a model's layers allow it.
  [[nodiscard]] virtual int64_t fused_rows() const { return 0; }
  /// True when a sum over ranks before an ops::AddNorm is left to Backend::sum_add_norm(); else it
  /// is part of the product (Backend::sum_linear).
  [[nodiscard]] virtual bool sums_with_norms() const { return false; }
  /// True when a product with a weight sums slices, and in the same way the slices of all ranks.
  [[nodiscard]] virtual bool slices(const model::WeightSpec&) const { return false; }
  /// True when the ops of image encoders run.
  [[nodiscard]] virtual bool sees_images() const { return false; }
  /// True when steps of equal size are recorded and replayed (run_step).
  [[nodiscard]] virtual bool records() const { return false; }
  /// Bytes of BatchMeta::plan for an image encoder's rows in `segments` segments
  /// (Backend::plan_segments).
  [[nodiscard]] virtual size_t segments_plan_bytes(int64_t /*rows*/, int64_t /*segments*/,
                                                   const model::AttentionSpec& /*spec*/) const {
    return 0;
  }
  [[nodiscard]] virtual size_t draw_workspace(int64_t /*rows*/, int64_t /*vocab_size*/) const {
    return 0;
  }
  /// Bytes of BatchMeta::plan for a step.
  [[nodiscard]] virtual size_t step_plan_bytes(const StepShape&) const { return 0; }
  /// Memory that the backend takes for itself from the launch on, on the device ("device
  /// workspace": of products) and on the host ("host workspace": rings for loading).
  [[nodiscard]] virtual size_t device_workspace_bytes(const StepShape&) const { return 0; }
  [[nodiscard]] virtual size_t host_workspace_bytes(const StepShape&) const { return 0; }
};

}  // namespace plimsoll::backend
