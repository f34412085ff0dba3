#include "engine/vision/encoder_inputs.h"

#include <algorithm>

namespace plimsoll::engine {
namespace {

std::span<const int32_t> write(memory::Arena& arena, std::string_view name,
                               const std::vector<int32_t>& values) {
  auto* to = arena.take_array<int32_t>(name, values.size());
  if (!arena.is_counting()) std::ranges::copy(values, to);
  return {to, values.size()};
}

}  // namespace

EncoderInputs::EncoderInputs(backend::Backend& backend, memory::Arena& staging)
    : backend_(backend),
      staging_(staging),
      shares_memory_(backend.footprint().shares_memory()),
      scope_(staging) {
  if (!shares_memory_ && !is_counting()) backend_.await_sent();
}

StagedPiece EncoderInputs::take(std::string_view name, size_t bytes) {
  StagedPiece piece{.bytes = bytes};
  piece.device = static_cast<std::byte*>(backend_.scratch().take(name, bytes));
  piece.host = shares_memory_ ? piece.device : static_cast<std::byte*>(staging_.take(name, bytes));
  return piece;
}

void EncoderInputs::send(const StagedPiece& piece) {
  if (shares_memory_ || is_counting() || piece.bytes == 0) return;
  backend_.send(piece.device, {piece.host, piece.bytes});
}

EncoderArrays::EncoderArrays(const EncoderRows& rows, const model::AttentionSpec& attention,
                             EncoderInputs& inputs) {
  backend::Backend& backend = inputs.backend();
  memory::Arena counted = memory::Arena::counting();
  lay_out(rows, attention, backend.footprint(), counted);
  piece_ = inputs.take("image arrays", counted.peak());
  if (inputs.is_counting()) return;
  memory::Arena placed = memory::Arena::placing(piece_.host, piece_.bytes);
  lay_out(rows, attention, backend.footprint(), placed);
  for (const auto* segments : {&frames_, &windows_}) {
    if (*segments) backend.plan_segments((*segments)->batch(), attention);
  }
  inputs.send(piece_);
}

void EncoderArrays::lay_out(const EncoderRows& rows, const model::AttentionSpec& attention,
                            const backend::Footprint& footprint, memory::Arena& arena) {
  order_ = write(arena, "order of rows", rows.order);
  places_ = write(arena, "rows and columns", rows.places);
  const auto cut = [&](const std::vector<int64_t>& lengths, backend::Segmentation segmentation,
                       std::optional<Segments>& segments) {
    if (lengths.empty()) return;
    segments.emplace(lengths, segmentation, attention, footprint, arena);
    segments->place(piece_.host, piece_.device);
  };
  cut(rows.frames, backend::Segmentation::frames, frames_);
  cut(rows.windows, backend::Segmentation::windows, windows_);
}

backend::BatchMeta EncoderArrays::at(backend::BatchMeta batch) const {
  batch.host_base = piece_.host;
  batch.device_base = piece_.device;
  return batch;
}

backend::BatchMeta EncoderArrays::places() const {
  backend::BatchMeta batch = frames_->batch();
  batch.rope_positions = places_;
  return batch;
}

backend::KvLayer EncoderArrays::take_cache(const model::AttentionSpec& attention, DType dtype,
                                           backend::Backend& backend) const {
  const int64_t blocks = std::max(frames().blocks(), windows().blocks());
  backend::KvLayer cache{.dtype = dtype, .block_size = Segments::kBlockRows};
  cache.block_stride = backend.footprint().kv_bytes(attention, cache.block_size, dtype);
  cache.pool = backend.scratch().take_array<std::byte>("segment keys and values",
                                                       blocks * cache.block_stride);
  return cache;
}

}  // namespace plimsoll::engine
