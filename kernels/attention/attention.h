// A step's attention, or an image encoder's over its segments: FlashInfer's kernels where they
// cover a layer, the plain kernel elsewhere.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/footprint.h"
#include "kernels/attention/flash_attention.h"
#include "kernels/attention/hopper_attention.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

class StepAttention {
 public:
  /// `workspace` is of the device: CudaFootprint::device_workspace_bytes without the parts of
  /// products and ropes. `hopper_from`: DeviceOptions, with what it stands for where it is absent.
  void start(const backend::StepShape& shape, const backend::CardFigures& card,
             std::span<std::byte> workspace, int64_t hopper_from);

  /// Of an image encoder: each picture's segments have limits of their own.
  void start_segments(const backend::CardFigures& card);

  /// Fills batch.plan on the host.
  void plan(const backend::BatchMeta& batch);
  void plan_segments(const backend::BatchMeta& batch, const model::AttentionSpec& spec);
  /// Whether the planned step launches what every decode step of its size launches: a graph may
  /// stand for it. Not so where fixed splits need several rounds.
  [[nodiscard]] bool recordable() const;

  /// One layer's attention over the planned step.
  struct Call {
    backend::View out;  // [T, heads * head_dim]
    backend::View qkv;
    const model::AttentionSpec* spec = nullptr;
    const backend::KvLayer* cache = nullptr;
    Vector sinks{};                 // [heads] or none
    const float* slopes = nullptr;  // [heads] of the spec's ALiBi, or none
    backend::View chosen{};         // of Backend::choose_keys, or none
  };
  void run(const Call& call, const backend::BatchMeta& batch, const DeviceBatch& device,
           cudaStream_t stream);

  /// The shapes that the plain kernel computes, a fraction as fast, and why, and from where on
  /// prefill takes the kernels for Hopper. `whose` stands before
  /// them ("the image encoder's ").
  [[nodiscard]] std::vector<std::string> notes(std::string_view whose) const;

  /// From now on only what has run is planned.
  void seal() { sealed_ = true; }

 private:
  /// The plans of one shape.
  struct Shape {
    backend::AttentionPart part;
    FlashPlanner flash;
    const HopperUnit* hopper = nullptr;  // of long prefills; none: they are no others'
    PlainPlan plain;                     // launched for the step at hand
    bool uses_flash = false;
    [[nodiscard]] bool uses_hopper() const { return uses_flash && hopper != nullptr; }
    bool uses_plain = false;
    std::string why_plain{};
  };
  Shape& find(const model::AttentionSpec& spec);
  /// Whether steps are planned for FlashInfer's kernels: they have run, or may yet.
  [[nodiscard]] bool plans_flash(const Shape& shape) const;
  void plan_plain(const backend::BatchMeta& batch, Shape& shape) const;
  /// FlashInfer's kernels for a layer, or why there are none.
  struct Choice {
    const FlashUnit* unit = nullptr;
    std::string why_not{};
  };
  [[nodiscard]] Choice choose(const Call& call, FlashSight sight);
  void load(const FlashUnit& unit);
  void load_hopper(const Shape& shape);
  static PagedLayer layer_of(const Call& call, const Shape& shape, const backend::BatchMeta& batch);
  static void run_hopper(const Call& call, const Shape& shape, const backend::BatchMeta& batch,
                         cudaStream_t stream);
  void run_flash(const Call& call, const FlashUnit& unit, const Shape& shape,
                 const backend::BatchMeta& batch, cudaStream_t stream);
  void run_plain(const Call& call, const Shape& shape, const backend::BatchMeta& batch,
                 const DeviceBatch& device, cudaStream_t stream);

  FlashLimits flash_limits_;
  PlainLimits plain_limits_;
  backend::CardFigures card_;
  FlashMemory memory_ = FlashMemory::large;
  int64_t hopper_from_ = 0;
  std::vector<const FlashUnit*> loaded_;
  std::vector<const HopperUnit*> loaded_hopper_;
  std::span<std::byte> workspace_;
  int64_t table_stride_ = 0;
  std::vector<Shape> shapes_;
  bool sealed_ = false;
};

}  // namespace plimsoll::kernels
