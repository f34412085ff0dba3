// A step's attention, or an image encoder's over its segments: FlashInfer's kernels where they
// cover a layer, the plain kernel elsewhere.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/footprint.h"
#include "kernels/attention/attention_trial.h"
#include "kernels/attention/flash_attention.h"
#include "kernels/attention/hopper_attention.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Options that decide which kernels a launch may take: DeviceOptions.
struct AttentionOptions {
  std::optional<int64_t> hopper_from = 0;  // absent: from where a trial finds them faster
};

class StepAttention {
 public:
  /// `workspace` is device memory: CudaFootprint::device_workspace_bytes without the parts of
  /// products, ropes and ranks.
  void start(const backend::StepShape& shape, const backend::CardFigures& card,
             std::span<std::byte> workspace, const AttentionOptions& options);

  /// Starts the attention of an image encoder: each image's segments have limits of their own.
  void start_segments(const backend::CardFigures& card);

  /// Fills batch.plan on the host.
  void plan(const backend::BatchMeta& batch);
  void plan_segments(const backend::BatchMeta& batch, const model::AttentionSpec& spec);
  /// True when the planned step launches what every decode step of its size launches, so that a
  /// graph may be replayed for it. False where fixed splits need several rounds.
  [[nodiscard]] bool recordable() const;

  /// One layer's attention over the planned step.
  struct Call {
    backend::View out;  // [T, heads * head_dim]
    backend::View qkv;
    const model::AttentionSpec* spec = nullptr;
    const backend::KvLayer* cache = nullptr;
    Vector sinks{};                 // [heads] or none
    const float* slopes = nullptr;  // [heads] of the spec's ALiBi, or none
    backend::View chosen{};         // of ops::ChooseKeys, or none
  };
  void run(const Call& call, const backend::BatchMeta& batch, const DeviceBatch& device,
           cudaStream_t stream);

  /// Measures for each shape that has run from how many tokens on the kernels for Hopper are faster
  /// for prefills, over sequences that are made up in `scratch` (device memory, idle) and in the
  /// cache, which is only read. Shapes without room in `scratch` keep the estimate (kHopperFrom).
  void tune(std::span<std::byte> scratch, cudaStream_t stream);

  /// Notes on the shapes that the plain kernel computes, a fraction as fast, and why, and on the
  /// tokens from which prefill takes the kernels for Hopper. `whose` stands before them ("the image
  /// encoder's ").
  [[nodiscard]] std::vector<std::string> notes(std::string_view whose) const;

  /// Ends the planning of new shapes: from now on only shapes that have run are planned.
  void seal() { sealed_ = true; }

 private:
  /// A layer whose rows see their own past, for a trial to repeat.
  struct LayerCall {
    model::AttentionSpec spec;
    backend::KvLayer cache;
    DType activation = DType::bf16;
    const FlashUnit* flash = nullptr;
  };
  /// The plans of one shape.
  struct Shape {
    backend::AttentionPart part;
    FlashPlanner flash;
    const HopperUnit* hopper = nullptr;  // for long prefills; null: other kernels compute them
    int64_t hopper_from = kHopperFrom;
    std::optional<LayerCall> seen{};
    bool tried = false;  // which are faster
    PlainPlan plain;     // launched for the step at hand
    bool uses_flash = false;
    [[nodiscard]] bool uses_hopper() const { return uses_flash && hopper != nullptr; }
    bool uses_plain = false;
    std::string why_plain{};
  };
  Shape& find(const model::AttentionSpec& spec);
  /// True when steps are planned for FlashInfer's kernels: they have run, or may yet.
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
  enum class Kernels : uint8_t { flash, hopper };
  /// Seconds of a step of such a size; Stopwatch::kRefused where it finds no room.
  double seconds(const Shape& shape, const AttentionTrial::Size& size, Kernels kernels,
                 std::span<std::byte> scratch, cudaStream_t stream);
  [[nodiscard]] int64_t longest_trial(const Shape& shape, int64_t sequences) const;
  void try_hopper(Shape& shape, std::span<std::byte> scratch, cudaStream_t stream);
  static PagedLayer layer_of(const Call& call, const Shape& shape, const backend::BatchMeta& batch);
  static void run_hopper(const Call& call, const PagedLayer& layer, const Shape& shape,
                         const backend::BatchMeta& batch, cudaStream_t stream);
  void run_flash(const Call& call, const FlashUnit& unit, const PagedLayer& layer,
                 const backend::BatchMeta& batch, cudaStream_t stream);
  void run_plain(const Call& call, const Shape& shape, const backend::BatchMeta& batch,
                 const DeviceBatch& device, cudaStream_t stream);

  FlashLimits flash_limits_;
  PlainLimits plain_limits_;
  backend::CardFigures card_;
  FlashMemory memory_ = FlashMemory::large;
  AttentionOptions options_;
  std::vector<const FlashUnit*> loaded_;
  std::vector<const HopperUnit*> loaded_hopper_;
  std::span<std::byte> workspace_;  // partial results
  int64_t table_stride_ = 0;
  std::vector<Shape> shapes_;
  bool sealed_ = false;
};

}  // namespace plimsoll::kernels
