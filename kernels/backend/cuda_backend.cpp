// A launch and its steps; the ops are in cuda_ops.cpp.
#include "kernels/backend/cuda_backend.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/backend/device_team.h"
#include "kernels/backend/nccl_team.h"
#include "kernels/rows/random.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/load_packed.h"
#include "kernels/runtime/step_copies.h"

namespace plimsoll::kernels {

using backend::BatchMeta;

namespace {

/// Columns of a block table are copied by cudaMemcpy2DAsync where fewer are used than this share of
/// a row; else in one piece.
constexpr int64_t kWholeRows = 2;

std::vector<CudaBackend*> cuda_backends(std::span<backend::Backend* const> ranks) {
  std::vector<CudaBackend*> devices;
  for (backend::Backend* rank : ranks) devices.push_back(&dynamic_cast<CudaBackend&>(*rank));
  return devices;
}

BackendParts open_device(const backend::DeviceOptions& options) {
  const int count = driver_state().devices;
  if (options.index < 0 || options.index >= count) {
    fail(ExitCode::device_lost, "there is no device {}: the driver shows {}", options.index, count);
  }
  use_device(options.index);
  allow_overlap(options.overlap ? Overlap::yes : Overlap::no);
  backend::DeviceInfo info = describe_device(options.index);
  if (info.compute_capability < kLeastCapability) {
    fail(ExitCode::device_lost,
         "{} has compute capability {}.{}; kernels are built from 8.0 on (--device cpu runs "
         "without)",
         info.name, info.compute_capability / 10, info.compute_capability % 10);
  }
  require_code(info);
  const backend::CardFigures card{.compute_capability = info.compute_capability,
                                  .processors = info.processors,
                                  .deterministic = options.deterministic};
  return {std::move(info), backend::CudaFootprint(card)};
}

}  // namespace

CudaBackend::CudaBackend(const backend::DeviceOptions& options)
    : BackendParts(open_device(options)),
      Backend(BackendParts::footprint_of_device),
      pool_(std::max(1, options.threads)),
      graphs_(stream_.get()),
      attention_options_{options.hopper_from},
      nccl_(options.nccl),
      products_(options.deterministic ? Pinning::single : Pinning::by_rows, stream_.get()) {}

CudaBackend::~CudaBackend() {
  ignore(cudaStreamSynchronize(stream_.get()));
  unseal_allocations();
}

std::unique_ptr<backend::RankTeam> CudaBackend::make_team(
    std::span<backend::Backend* const> ranks) const {
  std::vector<CudaBackend*> devices = cuda_backends(ranks);
  const std::string hidden = hidden_memory(devices);
  if (hidden.empty()) return std::make_unique<DeviceTeam>(std::move(devices));
  try {
    return join_processes(ranks,
                          {.id = make_communicator_id(), .first = 0, .ranks = std::ssize(ranks)});
  } catch (const Error& error) {
    fail(error.code(), "-tp: {}, and over NCCL: {}; -pp or -dp do without", hidden, error.what());
  }
}

backend::CommunicatorId CudaBackend::make_communicator_id() const {
  const Nccl& library = nccl(nccl_);
  backend::CommunicatorId id{};
  library.check(library.unique_id(&id), "ncclGetUniqueId");
  return id;
}

std::unique_ptr<backend::ProcessTeam> CudaBackend::join_processes(
    std::span<backend::Backend* const> ranks, const backend::Membership& membership) const {
  return std::make_unique<NcclTeam>(nccl(nccl_), cuda_backends(ranks), membership);
}

// Between devices that cannot read each other's memory the driver copies by way of the host.
void CudaBackend::copy_from_peer(std::span<const std::byte> from, void* to) {
  if (from.empty()) return;
  check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, stream()),
        "cudaMemcpyAsync (between devices)");
  stream_.wait();
}

std::unique_ptr<memory::Memory> CudaBackend::take_memory(size_t bytes) {
  return std::make_unique<DeviceMemory>(bytes);
}

std::unique_ptr<memory::Memory> CudaBackend::take_host_memory(size_t bytes) {
  return std::make_unique<PinnedMemory>(bytes);
}

void CudaBackend::start_launch(const backend::LaunchParts& parts) {
  // Graphs and algorithms of an earlier launch have addresses of its memory.
  if (loader_ != nullptr) throw std::logic_error("CUDA backend: it serves one launch");
  const backend::CardFigures& card = footprint_of_device.card();
  const size_t product_bytes = backend::product_workspace_bytes(card);
  logits_rows_ = parts.shape.logits_rows;
  const size_t rope_bytes = backend::rope_table_bytes(*parts.shape.spec);
  among_ranks_ = parts.shape.tensor_ranks > 1;
  products_.set_among_ranks(among_ranks_);
  products_.use_workspace(parts.device_workspace.data(), product_bytes);
  ropes_.start(*parts.shape.spec, parts.device_workspace.subspan(product_bytes, rope_bytes),
               stream());
  for (StepAttention& attention : attention_) attention.start_segments(card);
  const size_t rank_bytes = backend::cuda::rank_area_bytes(parts.shape.tensor_ranks);
  const std::span<std::byte> rest = parts.device_workspace.subspan(product_bytes + rope_bytes);
  step_attention().start(parts.shape, card, rest.first(rest.size() - rank_bytes),
                         attention_options_);
  rank_area_ = rest.last(rank_bytes);
  if (!rank_area_.empty()) {
    check(cudaMemsetAsync(rank_area_.data(), 0, backend::cuda::kBarrierBytes, stream()),
          "cudaMemsetAsync");
    stream_.wait();
  }
  loader_ =
      std::make_unique<Loader>(parts.host_workspace, backend::kLoadPieceBytes, pool_, info.index);
  finished_.clear();
  for (int64_t slot = 0; slot < footprint().slabs(parts.shape.stages); ++slot) {
    finished_.push_back(std::make_unique<Event>());
  }
}

void CudaBackend::parallel(int64_t tasks, const backend::HostJob& job) {
  // A row of logits is some hundred thousand operations.
  constexpr int64_t kOperations = int64_t{1} << 18;
  pool_.run(tasks, tasks * kOperations, [&](int64_t task, int) { job(task); });
}

void CudaBackend::do_load_weight(const backend::Weight& weight, const backend::RowReader& read) {
  const model::WeightSpec& spec = *weight.spec;
  if (spec.is_packed()) {
    return load_packed(*loader_, weight, read, footprint_of_device.slices(spec));
  }
  loader_->load(weight.data, spec.matrices() * spec.rows(),
                static_cast<size_t>(spec.columns()) * dtype_size(weight.dtype), read);
}

void CudaBackend::fill_random(const backend::Weight& weight, uint64_t seed, float scale) {
  if (weight.spec->is_packed()) return Backend::fill_random(weight, seed, scale);
  kernels::fill_random(weight.data, weight.dtype, weight.spec->elements(), seed, scale, stream());
}

void CudaBackend::finish_loading() {
  loader_->finish();
  stream_.wait();
}

void CudaBackend::finish_launch() {
  stream_.wait();
  tune();
  products_.seal();
  few_rows_.seal();
  for (StepAttention& attention : attention_) attention.seal();
  seal_allocations();
}

std::vector<std::string> CudaBackend::notes() const {
  std::vector<std::string> notes;
  for (const StepAttention& attention : attention_) {
    const bool encodes = &attention != &attention_.front();
    for (std::string& note : attention.notes(encodes ? "the image encoder's " : "")) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  for (std::string& note : few_rows_.notes()) notes.push_back(std::move(note));
  std::set<std::string> slow = slow_products_;
  for (const std::string& product : products_.refused()) slow.insert(product);
  for (const std::string& product : slow) {
    notes.push_back(product + ": cuBLASLt has no algorithm, so steps of many rows are slow");
  }
  return notes;
}

void CudaBackend::tune() {
  const memory::Scope scope(scratch());
  const size_t bytes = scratch().left() / memory::Arena::kAlignment * memory::Arena::kAlignment;
  const std::span room(static_cast<std::byte*>(scratch().take("product tuning", bytes)), bytes);
  products_.tune(room, logits_rows_);
  few_rows_.tune(room);
  fp8_.tune(room);
  step_attention().tune(room, stream());
  stream_.wait();
}

void CudaBackend::start_step(const BatchMeta& batch) {
  step_attention().plan(batch);
  for (const Extent& extent : join_extents(flat_extents(batch), kCopyGap)) {
    copy_to_device(batch.device_base + extent.begin, batch.host_base + extent.begin,
                   extent.end - extent.begin, stream());
  }
  copy_tables(batch);
}

void CudaBackend::send_masks(const BatchMeta& batch) {
  const std::span<const int32_t> masks = batch.drawing.masks;
  copy_to_device(const_cast<int32_t*>(batch.on_device(masks)), masks.data(), masks.size_bytes(),
                 stream());
}

void CudaBackend::copy_tables(const BatchMeta& batch) {
  const auto sequences = static_cast<int64_t>(batch.context_length.size());
  if (sequences == 0 || batch.table_width == 0) return;
  const size_t pitch = static_cast<size_t>(batch.table_stride) * sizeof(int32_t);
  const size_t width = static_cast<size_t>(batch.table_width) * sizeof(int32_t);
  for (const std::span<const int32_t> table : batch.block_tables) {
    auto* to = const_cast<int32_t*>(batch.on_device(table));
    if (batch.table_width * kWholeRows > batch.table_stride || sequences == 1) {
      const size_t bytes = pitch * static_cast<size_t>(sequences - 1) + width;
      copy_to_device(to, table.data(), bytes, stream());
      continue;
    }
    check(cudaMemcpy2DAsync(to, pitch, table.data(), pitch, width, static_cast<size_t>(sequences),
                            cudaMemcpyHostToDevice, stream()),
          "cudaMemcpy2DAsync");
  }
}

void CudaBackend::run_step(int64_t key, const std::function<void()>& ops) {
  if (key == 0 || !step_attention().recordable()) return ops();
  if (graphs_.has(key)) return graphs_.replay(key);
  // The first time runs as it is: kernels are loaded and products chosen before they are recorded.
  ops();
  stream_.wait();
  tune();
  graphs_.record(key, ops);
}

void CudaBackend::finish_step(const BatchMeta& batch) {
  copy_to_host(batch.drawn.data(), batch.drawn_on_device, batch.drawn.size_bytes(), stream());
  finished_[static_cast<size_t>(batch.slot)]->record(stream());
}

void CudaBackend::await_step(const BatchMeta& batch) {
  finished_[static_cast<size_t>(batch.slot)]->wait();
}

void CudaBackend::plan_segments(const BatchMeta& batch, const model::AttentionSpec& spec) {
  attention_of(batch.segmentation).plan_segments(batch, spec);
}

void CudaBackend::send(void* to, std::span<const std::byte> from) {
  copy_to_device(to, from.data(), from.size(), stream());
  sent_.record(stream());
}

}  // namespace plimsoll::kernels
