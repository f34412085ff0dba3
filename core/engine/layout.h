// The layout of a launch: limits resolved, then the same constructors run over a counting arena
// (plan) and over real memory (launch).
//
//   EngineLayout layout = resolve_layout(spec, options, backend.footprint());
//   EnginePlan plan = plan_layout(spec, layout, backend.footprint());
//   LaunchMemory memory(plan, backend);
//   Launch launch(spec, layout, backend, memory.device(), memory.host());
//   memory.check(plan);
//   launch.model.load(reader);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/batch_arrays.h"
#include "engine/engine.h"
#include "engine/forward/model.h"
#include "engine/vision/tower.h"
#include "memory/arena.h"
#include "model/model_spec.h"

namespace plimsoll::engine {

struct DraftLayout;

/// Decisions about a launch that are made before memory is allocated.
struct EngineLayout {
  DType dtype = DType::bf16;
  StepLimits limits;
  KvLayout kv;
  StateLayout states;
  bool state_arrays = false;  // sequences have states, in this stage of a pipeline or another
  int64_t max_model_len = 0;
  int64_t num_blocks = 0;
  int64_t stages = 1;        // of the pipeline; as many steps are under way, each in another stage
  int64_t tensor_ranks = 1;  // of each
  bool borrows_weights = false;
  int64_t sampling_threads = 1;  // 0 for a stage without the head
  int64_t staging_rows = 0;      // of logits, on their way to the host or from another process
  int64_t message_bytes = 0;     // on their way to ranks in other processes and back
  std::vector<int64_t> recorded_sizes;  // of decode steps, ascending
  size_t scratch_bytes = 0;
  size_t image_staging_bytes = 0;  // of the host, where memory is not shared
  std::optional<ImageOptions> images;
  /// Prompts have images; a pipeline's first stage alone encodes them.
  bool image_arrays = false;
  std::shared_ptr<const DraftLayout> draft;  // null: no draft model
};

/// A draft model, laid out for the sequences of the model that it proposes for.
struct DraftLayout {
  DraftModel model;
  EngineLayout layout;

  /// KV blocks of the draft model beside `blocks` of the other's `kv`: as many in each group.
  [[nodiscard]] int64_t blocks_beside(const KvLayout& kv, int64_t blocks) const;
};

/// Bytes of a block of `kv` and of the draft model's blocks that go with it; null: there are none.
size_t bytes_per_block(const KvLayout& kv, const KvLayout* draft);

/// True where all tokens of a sequence that may become so long have the long table of longrope.
bool wants_long_rope(const model::ModelSpec& spec, int64_t length);

/// True when tokens are drawn on the device: not in a pipeline, where a device would draw them and
/// another would embed them.
inline bool draws(const EngineLayout& layout, const backend::Footprint& footprint) {
  return footprint.draws() && layout.stages == 1;
}

/// Resolves the limits of a launch. Throws Error(usage) for limits that contradict each other and
/// Error(does_not_fit) when one sequence of max_model_len does not fit the KV pool, saying what
/// would.
EngineLayout resolve_layout(const model::ModelSpec& spec, const EngineOptions& options,
                            const backend::Footprint& footprint);

/// A launch, placed in its arenas. On the device, in order: weights, KV blocks, batch metadata,
/// workspace, step scratch; on the host: batch metadata, sampling, staging. Where memory is shared
/// both arenas are one, sampling comes before the step scratch and nothing is staged. A draft
/// model's launch follows, its regions as "draft weights", "draft kv blocks" and so on. `layout`,
/// `spec` and `backend` must outlive it; the backend takes its scratch from here.
struct Launch {
  Launch(const model::ModelSpec& spec, const EngineLayout& layout, backend::Backend& backend,
         memory::Arena& device, memory::Arena& host);
  /// Places a launch in one arena, where memory is shared.
  Launch(const model::ModelSpec& spec, const EngineLayout& layout, backend::Backend& backend,
         memory::Arena& arena)
      : Launch(spec, layout, backend, arena, arena) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  Model model;
  std::optional<VisionTower> tower;  // as `embeddings` where the layout has images
  backend::View embeddings;          // [cache_tokens, hidden] of images
  BatchArrays batch;
  std::span<float> sampling_values;  // [threads, vocab] scores of the rows being sampled
  std::span<int32_t> sampling_ids;   // [threads, vocab] token ids beside them
  std::span<float> logits_staging;   // [staging_rows, vocab]; else empty with shared memory
  std::span<std::byte> messages;     // [message_bytes]
  std::span<std::byte> image_staging;
  backend::LaunchParts backend_parts;
  memory::Arena scratch;
  std::unique_ptr<Launch> draft;  // of the draft model; null: there is none
};

/// The memory of a launch, taken from its backend.
class LaunchMemory {
 public:
  LaunchMemory(const EnginePlan& plan, backend::Backend& backend);

  [[nodiscard]] memory::Arena& device() { return device_; }
  [[nodiscard]] const memory::Arena& device() const { return device_; }
  /// The host's arena, which is the device's where memory is shared.
  [[nodiscard]] memory::Arena& host() { return host_ ? *host_ : device_; }
  /// Checks that the launch took what was planned: throws std::logic_error naming the first region
  /// that differs.
  void check(const EnginePlan& plan);

 private:
  std::unique_ptr<memory::Memory> device_memory_;
  std::unique_ptr<memory::Memory> host_memory_;
  memory::Arena device_;
  std::optional<memory::Arena> host_;
};

/// Sizes of decode steps to record, ascending, at most `sequences`: the sizes asked for, or about
/// 40 that go up to it. Empty where nothing is recorded. Throws Error(usage).
std::vector<int64_t> recorded_sizes(const EngineOptions& options, int64_t sequences,
                                    const backend::Footprint& footprint);

/// The largest shapes of a layout's steps.
backend::StepShape step_shape(const model::ModelSpec& spec, const EngineLayout& layout);

/// Memory of scratch and of staging: runs the largest step and the largest images on counting
/// arenas.
VisionTower::Memory measure_step(const model::ModelSpec& spec, const EngineLayout& layout,
                                 const backend::Footprint& footprint);

/// Regions and sizes of a launch of this layout, by a counting pass over Launch's constructor.
EnginePlan plan_layout(const model::ModelSpec& spec, const EngineLayout& layout,
                       const backend::Footprint& footprint);

/// Bytes of the weights that replicas after the first borrow from it, where memory is shared: the
/// model's and its draft model's.
size_t borrowed_bytes(const EnginePlan& plan);

/// Throws std::logic_error naming the first region that differs.
void check_regions(const std::vector<memory::Region>& planned, const memory::Arena& placed);

/// Regions of the plan beside those of the arena, in order; `launch` lies in it. `blocks`: most KV
/// blocks in use at one time.
std::vector<MeasuredRegion> measure_regions(const EnginePlan& plan, const memory::Arena& placed,
                                            const Launch& launch, int64_t blocks);

}  // namespace plimsoll::engine
