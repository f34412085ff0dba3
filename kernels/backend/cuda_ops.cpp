// The ops of the CUDA backend but for products: what the host decides before a kernel is enqueued.
#include "kernels/attention/choose_keys.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/change_logits.h"
#include "kernels/rows/embed_blocks.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/sample.h"
#include "kernels/runtime/operands.h"

namespace plimsoll::kernels {

using backend::BatchMeta;
using backend::KvLayer;
using backend::StateLayer;
using backend::View;
using backend::Weight;
using model::Activation;

namespace {

DeviceBatch device_batch(const BatchMeta& batch) {
  DeviceBatch device{.token_ids = batch.on_device(batch.token_ids),
                     .drawn = batch.drawn_on_device,
                     .positions = batch.on_device(batch.positions),
                     .row_sequence = batch.on_device(batch.row_sequence),
                     .query_start = batch.on_device(batch.query_start),
                     .context_length = batch.on_device(batch.context_length),
                     .long_rope = batch.on_device(batch.long_rope),
                     .rope_positions = batch.on_device(batch.rope_positions),
                     .seen_end = batch.on_device(batch.seen_end),
                     .state_slots = batch.on_device(batch.state_slots),
                     .logits_rows = batch.on_device(batch.logits_rows)};
  if (batch.block_tables.size() > backend::kMostKvGroups)
    throw std::logic_error("batch: too many KV groups");
  for (size_t group = 0; group < batch.block_tables.size(); ++group) {
    device.block_tables[group] = batch.on_device(batch.block_tables[group]);
  }
  device.table_stride = batch.table_stride;
  device.rows = std::ssize(batch.positions);
  device.sequences = std::ssize(batch.context_length);
  device.logits_count = std::ssize(batch.logits_rows);
  return device;
}

void look_up(const Embed& op, const Weight& table, cudaStream_t stream) {
  if (!table.spec->is_packed()) return embed(op, stream);
  const backend::Segments segments = backend::cuda::packed_segments(*table.spec, table.dtype, 0);
  if (segments.parts.size() != 1) throw std::logic_error("embed: a packed table in several parts");
  const model::Part& part = *segments.parts.front().part;
  const bool is_plain = part.packing->code == model::Code::none;
  embed_blocks(
      op,
      {.data = static_cast<const std::byte*>(table.data),
       .is_plain = is_plain,
       .type = model::dtype_of(part.packing->scale),
       .layout = backend::cuda::PackedMatrix(part, table.spec->columns()),
       .packing = *part.packing,
       .blocks = is_plain ? BlockShape() : BlockShape(*find_ggml_blocks(part.packing->blocks))},
      stream);
}

}  // namespace

void CudaBackend::compute(const ops::Embed& op) {
  const BatchMeta& batch = *op.batch;
  look_up({.out = op.out,
           .table = rows_of(op.table),
           .ids = batch.on_device(batch.token_ids),
           .drawn = batch.drawn_on_device,
           // The device's copy of the ids is the device's own to write.
           .resolved = const_cast<int32_t*>(batch.on_device(batch.token_ids)),
           .scale = op.scale,
           .first_row = op.table.first_row(),
           .all_rows = op.table.ranks == nullptr ? 0 : op.table.all_rows()},
          op.table, stream());
}

void CudaBackend::compute(const ops::EmbedPositions& op) {
  look_up({.out = op.out,
           .table = rows_of(op.table),
           .ids = op.batch->on_device(op.batch->positions),
           .id_offset = static_cast<int32_t>(op.offset),
           .store = Store::accumulate},
          op.table, stream());
}

void CudaBackend::compute(const ops::GatherRows& op) {
  kernels::gather_rows(op.out, op.in, op.batch->on_device(op.batch->logits_rows), stream());
}

void CudaBackend::compute(const ops::Norm& op) {
  kernels::norm({.out = op.out,
                 .in = op.in,
                 .delta = {},
                 .spec = op.spec,
                 .weight = vector_of(op.weight),
                 .bias = vector_of(op.bias),
                 .turns = op.weight ? op.weight.spec->elements() / op.in.columns : 1},
                stream());
}

void CudaBackend::compute(const ops::AddNorm& op) {
  kernels::norm({.out = op.out,
                 .in = op.residual,
                 .delta = op.delta,
                 .spec = op.spec,
                 .weight = vector_of(op.weight),
                 .bias = vector_of(op.bias)},
                stream());
}

void CudaBackend::compute(const ops::RopeAngles& op) {
  kernels::rope_angles(op.out, ropes_.of(*op.rope), device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::RopeAndStore& op) {
  const model::AttentionSpec& spec = *op.spec;
  const auto of_heads = [&](const Weight& weight) -> HeadVector {
    if (!weight) return {};
    return {vector_of(weight), weight.spec->elements() > spec.head_dim ? spec.head_dim : 0};
  };
  kernels::rope_and_store({.qkv = op.qkv,
                           .angles = spec.rope < 0 ? View{} : op.angles,
                           .spec = &spec,
                           .q_norm = of_heads(op.norms.q),
                           .q_bias = of_heads(op.norms.q_bias),
                           .k_norm = of_heads(op.norms.k),
                           .k_bias = of_heads(op.norms.k_bias),
                           .cache = &op.cache},
                          device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::ChooseKeys& op, std::byte* workspace) {
  kernels::choose_keys({.chosen = op.chosen,
                        .q = op.in.q,
                        .weights = op.in.weights,
                        .spec = &*op.spec,
                        .keys = &op.keys,
                        .scores = reinterpret_cast<float*>(workspace),
                        .longest = op.batch->table_stride * op.keys.block_size},
                       device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::Attention& op) {
  const BatchMeta& batch = *op.batch;
  StepAttention& attention = attention_of(batch.segmentation);
  attention.run({.out = op.out,
                 .qkv = op.qkv,
                 .spec = &*op.spec,
                 .cache = &op.cache,
                 .sinks = vector_of(op.terms.sinks),
                 .slopes = static_cast<const float*>(op.terms.slopes.data),
                 .chosen = op.terms.chosen},
                batch, device_batch(batch), stream());
}

void CudaBackend::compute(const ops::PlaceEmbeddings& op) {
  const BatchMeta& batch = *op.batch;
  kernels::place_rows({.out = op.out,
                       .in = batch.embeddings,
                       .out_rows = batch.on_device(batch.embedded_rows),
                       .in_rows = batch.on_device(batch.embedding_rows),
                       .count = std::ssize(batch.embedded_rows)},
                      stream());
}

void CudaBackend::compute(const ops::ScaleColumns& op) {
  kernels::scale_columns(op.x, vector_of(op.weight), stream());
}

void CudaBackend::compute(const ops::Xielu& op) {
  kernels::xielu(op.x, vector_of(op.parameters), stream());
}

void CudaBackend::compute(const ops::MultiplyFactors& op) {
  kernels::multiply_factors(op.x, vector_of(op.factors), op.indices, stream());
}

void CudaBackend::compute(const ops::Convolve& op) {
  kernels::convolve({.out = op.out,
                     .in = op.in,
                     .spec = *op.spec,
                     .weight = vector_of(op.weight),
                     .bias = vector_of(op.bias),
                     .states = op.states},
                    device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::SelectiveScan& op) {
  kernels::selective_scan({.out = op.out,
                           .in = op.in,
                           .spec = &*op.spec,
                           .decay = vector_of(op.weights.decay),
                           .decays_each = op.weights.decay.spec->elements() > op.spec->heads,
                           .skip = vector_of(op.weights.skip),
                           .step_bias = vector_of(op.weights.step_bias),
                           .states = op.states},
                          device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::GatedDelta& op) {
  kernels::gated_delta({.out = op.out,
                        .in = op.in,
                        .spec = &*op.spec,
                        .decay_log = vector_of(op.weights.decay_log),
                        .step_bias = vector_of(op.weights.step_bias),
                        .states = op.states},
                       device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::LinearRecurrence& op) {
  kernels::linear_recurrence({.out = op.out,
                              .in = op.in,
                              .head_dim = op.spec->head_dim,
                              .decay = vector_of(op.decay),
                              .states = op.states},
                             device_batch(*op.batch), stream());
}

void CudaBackend::compute(const ops::Draw& op) {
  const BatchMeta& batch = *op.batch;
  const backend::Drawing& drawing = batch.drawing;
  const auto first_section = static_cast<int64_t>(backend::kChangeSections) * op.first;
  kernels::change_logits({.logits = op.logits,
                          .repetition = batch.on_device(drawing.repetition) + op.first,
                          .frequency = batch.on_device(drawing.frequency) + op.first,
                          .presence = batch.on_device(drawing.presence) + op.first,
                          .adds_own = batch.on_device(drawing.adds_own) + op.first,
                          .sections = batch.on_device(drawing.sections) + first_section,
                          .changes = batch.on_device(drawing.changes),
                          .rows = batch.on_device(batch.logits_rows) + op.first,
                          .token_ids = batch.on_device(batch.token_ids),
                          .mask_of = batch.on_device(drawing.mask_of) + op.first,
                          .masks = batch.on_device(drawing.masks),
                          .mask_words = drawing.mask_words},
                         stream());
  kernels::sample({.logits = op.logits,
                   .temperature = batch.on_device(drawing.temperature) + op.first,
                   .top_k = batch.on_device(drawing.top_k) + op.first,
                   .top_p = batch.on_device(drawing.top_p) + op.first,
                   .min_p = batch.on_device(drawing.min_p) + op.first,
                   .uniform = batch.on_device(drawing.uniform) + op.first,
                   .drawn = batch.drawn_on_device + op.first},
                  stream());
}

const float* CudaBackend::do_host_logits(View logits, std::span<float> staging) {
  const auto count = static_cast<size_t>((logits.rows - 1) * logits.stride + logits.columns);
  if (staging.size() < count) throw std::logic_error("host_logits: the staging is too small");
  copy_to_host(staging.data(), logits.data, count * sizeof(float), stream());
  stream_.wait();
  return staging.data();
}

}  // namespace plimsoll::kernels
