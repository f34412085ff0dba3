#include "engine/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/counting.h"
#include "base/rounding.h"

namespace plimsoll::engine {

namespace {

/// Takes "step scratch" from the arena as an arena of its own, of the same mode.
memory::Arena take_scratch(memory::Arena& arena, size_t bytes) {
  void* base = arena.take("step scratch", bytes);
  return arena.is_counting() ? memory::Arena::counting() : memory::Arena::placing(base, bytes);
}

/// A region for what may need none: then there is no region.
template <typename T>
std::span<T> take_some(memory::Arena& arena, std::string_view name, int64_t count) {
  return count == 0 ? std::span<T>() : take_span<T>(arena, name, count);
}

bool has_kinds(const model::RopeSpec& rope) {
  return !rope.sections.empty();
}

BatchShape batch_shape(const EngineLayout& layout, const backend::Footprint& footprint,
                       const backend::StepShape& shape) {
  return {.limits = layout.limits,
          .vocab_size = shape.spec->vocab_size,
          .kv_groups = layout.kv.groups.size(),
          .images = layout.image_arrays,
          .turns = layout.image_arrays && std::ranges::any_of(shape.spec->ropes, has_kinds),
          .sees_ahead = layout.image_arrays && shape.spec->vision->two_way(),
          .draws = draws(layout, footprint),
          .plan_bytes = footprint.step_plan_bytes(shape),
          .states = layout.state_arrays,
          .steps = layout.stages};
}

std::optional<VisionTower> make_tower(const model::ModelSpec& spec, const EngineLayout& layout,
                                      backend::Backend& backend, memory::Arena& device) {
  std::optional<VisionTower> tower;
  if (layout.images) tower.emplace(spec, layout.dtype, backend, device);
  return tower;
}

backend::View take_embeddings(const model::ModelSpec& spec, const EngineLayout& layout,
                              const backend::Footprint& footprint, memory::Arena& device) {
  if (!layout.images) return {};
  const DType dtype = footprint.activation_dtype(layout.dtype);
  const int64_t rows = layout.images->cache_tokens, columns = spec.hidden_size;
  void* data = device.take("image embeddings", rows * columns * dtype_size(dtype));
  return {data, dtype, rows, columns, columns};
}

backend::LaunchParts take_parts(const backend::StepShape& shape,
                                const backend::Footprint& footprint, memory::Arena& device,
                                memory::Arena& host) {
  const auto on_device = static_cast<int64_t>(footprint.device_workspace_bytes(shape));
  const auto on_host = static_cast<int64_t>(footprint.host_workspace_bytes(shape));
  return {shape, take_some<std::byte>(device, "device workspace", on_device),
          take_some<std::byte>(host, "host workspace", on_host)};
}

std::unique_ptr<Launch> make_draft(const EngineLayout& layout, backend::Backend& backend,
                                   memory::Arena& device, memory::Arena& host) {
  if (!layout.draft) return nullptr;
  const memory::Prefix prefix(device, "draft ");
  return std::make_unique<Launch>(*layout.draft->model.spec, layout.draft->layout, backend, device,
                                  host);
}

/// Counting arenas for a launch; one where memory is shared.
struct CountingArenas {
  explicit CountingArenas(const backend::Footprint& footprint)
      : host(footprint.shares_memory() ? device : other) {}
  memory::Arena device = memory::Arena::counting();
  memory::Arena other = memory::Arena::counting();
  memory::Arena& host;
};

}  // namespace

backend::StepShape step_shape(const model::ModelSpec& spec, const EngineLayout& layout) {
  return {.spec = &spec,
          .tokens = layout.limits.batched_tokens,
          .sequences = layout.limits.sequences,
          .logits_rows = layout.limits.logits_rows,
          .table_stride = layout.limits.table_stride,
          .block_size = layout.kv.block_size,
          .kv_dtype = layout.kv.dtype,
          .tensor_ranks = layout.tensor_ranks,
          .stages = layout.stages};
}

Launch::Launch(const model::ModelSpec& spec, const EngineLayout& layout, backend::Backend& backend,
               memory::Arena& device, memory::Arena& host)
    : model(spec, layout.dtype, backend, device,
            {layout.kv, layout.num_blocks, layout.states, layout.limits.sequences,
             layout.limits.batched_tokens},
            layout.borrows_weights ? WeightsOf::another : WeightsOf::itself),
      tower(make_tower(spec, layout, backend, device)),
      embeddings(take_embeddings(spec, layout, backend.footprint(), device)),
      batch(device, host, batch_shape(layout, backend.footprint(), step_shape(spec, layout)),
            backend.footprint()),
      sampling_values(
          take_some<float>(host, "sampling values", layout.sampling_threads * spec.vocab_size)),
      sampling_ids(
          take_some<int32_t>(host, "sampling ids", layout.sampling_threads * spec.vocab_size)),
      logits_staging(
          take_some<float>(host, "logits staging", layout.staging_rows * spec.vocab_size)),
      messages(take_some<std::byte>(host, "messages", layout.message_bytes)),
      image_staging(take_some<std::byte>(host, "image staging",
                                         static_cast<int64_t>(layout.image_staging_bytes))),
      backend_parts(take_parts(step_shape(spec, layout), backend.footprint(), device, host)),
      scratch(take_scratch(device, layout.scratch_bytes)),
      draft(make_draft(layout, backend, device, host)) {
  backend.use_scratch(scratch);
  if (tower && !host.is_counting()) tower->use_staging(image_staging);
}

LaunchMemory::LaunchMemory(const EnginePlan& plan, backend::Backend& backend)
    : device_memory_(backend.take_memory(plan.total_bytes)),
      device_(memory::Arena::placing(device_memory_->data(), plan.total_bytes)) {
  if (backend.footprint().shares_memory()) return;
  host_memory_ = backend.take_host_memory(plan.host_bytes);
  host_.emplace(memory::Arena::placing(host_memory_->data(), plan.host_bytes));
}

void LaunchMemory::check(const EnginePlan& plan) {
  check_regions(plan.regions, device_);
  if (host_) check_regions(plan.host_regions, *host_);
}

VisionTower::Memory measure_step(const model::ModelSpec& spec, const EngineLayout& layout,
                                 const backend::Footprint& footprint) {
  CountingArenas arenas(footprint);
  backend::CountingBackend backend(footprint);
  Launch launch(spec, layout, backend, arenas.device, arenas.host);
  const StepLimits& limits = layout.limits;
  const memory::Scope scope(launch.scratch);
  const backend::BatchMeta batch =
      launch.batch.meta(0, {.tokens = limits.batched_tokens,
                            .sequences = limits.sequences,
                            .logits_rows = limits.batched_tokens,
                            .drawn = draws(layout, footprint) ? limits.sequences : 0});
  if (launch.tower) {
    for (const image::Layout& image : layout.images->extremes) {
      launch.tower->encode({image, {}}, launch.embeddings.slice_rows(0, image.tokens));
    }
  }
  const size_t staging = launch.tower ? launch.tower->staging_peak() : 0;
  const backend::View hidden = launch.model.forward(batch);
  if (spec.head == model::kNoWeight) return {launch.scratch.peak(), staging};
  const backend::View logits = launch.model.logits(hidden.slice_rows(0, limits.logits_rows));
  if (draws(layout, footprint)) {
    backend.run(
        ops::Draw{batch, logits.slice_rows(0, std::min(limits.logits_rows, limits.sequences)), 0});
  }
  return {launch.scratch.peak(), staging};
}

EnginePlan plan_layout(const model::ModelSpec& spec, const EngineLayout& layout,
                       const backend::Footprint& footprint) {
  CountingArenas arenas(footprint);
  backend::CountingBackend backend(footprint);
  const Launch launch(spec, layout, backend, arenas.device, arenas.host);
  return {.regions = arenas.device.regions(),
          .total_bytes = arenas.device.peak(),
          .host_regions = arenas.other.regions(),
          .host_bytes = arenas.other.peak(),
          .max_model_len = layout.max_model_len,
          .max_num_seqs = layout.limits.sequences,
          .max_num_batched_tokens = layout.limits.batched_tokens,
          .num_kv_blocks = layout.num_blocks,
          .kv_block_bytes = layout.kv.block_bytes,
          .kv_dtype = layout.kv.dtype,
          .recorded_sizes = layout.recorded_sizes};
}

size_t borrowed_bytes(const EnginePlan& plan) {
  size_t bytes = 0;
  for (const memory::Region& region : plan.regions)
    if (region.name == "weights" || region.name == "draft weights") bytes += region.bytes;
  return bytes;
}

void check_regions(const std::vector<memory::Region>& planned, const memory::Arena& placed) {
  const auto [plan, found] = std::mismatch(planned.begin(), planned.end(), placed.regions().begin(),
                                           placed.regions().end());
  if (plan == planned.end() && found == placed.regions().end()) return;
  throw std::logic_error(fmt::format("the launch differs from its plan at region {} ('{}')",
                                     plan - planned.begin(),
                                     plan == planned.end() ? found->name : plan->name));
}

std::vector<MeasuredRegion> measure_regions(const EnginePlan& plan, const memory::Arena& placed,
                                            const Launch& launch, int64_t blocks) {
  std::vector<MeasuredRegion> measured;
  for (size_t i = 0; i < placed.regions().size(); ++i) {
    const memory::Region& region = placed.regions()[i];
    const size_t planned = i < plan.regions.size() ? plan.regions[i].bytes : 0;
    MeasuredRegion& line =
        measured.emplace_back(MeasuredRegion{region.name, planned, region.bytes, std::nullopt});
    if (region.name == "kv blocks") {
      line.used_bytes = blocks * plan.kv_block_bytes;
    } else if (region.name == "step scratch") {
      line.used_bytes = launch.scratch.peak();
    } else if (region.name == "draft step scratch") {
      line.used_bytes = launch.draft->scratch.peak();
    }
  }
  return measured;
}

int64_t DraftLayout::blocks_beside(const KvLayout& kv, int64_t blocks) const {
  const auto own_groups = std::ssize(layout.kv.groups), groups = std::ssize(kv.groups);
  return divide_up(blocks * own_groups, std::max<int64_t>(1, groups));
}

size_t bytes_per_block(const KvLayout& kv, const KvLayout* draft) {
  if (draft == nullptr || kv.groups.empty()) return kv.block_bytes;
  return kv.block_bytes + divide_up(draft->block_bytes * draft->groups.size(), kv.groups.size());
}

bool wants_long_rope(const model::ModelSpec& spec, int64_t length) {
  return std::ranges::any_of(spec.ropes, [&](const model::RopeSpec& rope) {
    return rope.long_table && length > rope.original_max_position;
  });
}

EnginePlan plan_engine(const model::ModelSpec& spec, const EngineOptions& options,
                       const backend::Footprint& footprint) {
  return plan_layout(spec, resolve_layout(spec, options, footprint), footprint);
}

}  // namespace plimsoll::engine
