// The ops of the CUDA backend but for products: what the host decides before a kernel is enqueued.
#include "kernels/attention/choose_keys.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/change_logits.h"
#include "kernels/rows/rope.h"
#include "kernels/rows/rows.h"
#include "kernels/rows/sample.h"
#include "kernels/runtime/cuda_backend.h"
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

}  // namespace

void CudaBackend::do_embed(View out, const Weight& table, const BatchMeta& batch, float scale) {
  kernels::embed({.out = out,
                  .table = rows_of(table),
                  .ids = batch.on_device(batch.token_ids),
                  .drawn = batch.drawn_on_device,
                  // The device's copy of the ids is the device's own to write.
                  .resolved = const_cast<int32_t*>(batch.on_device(batch.token_ids)),
                  .scale = scale,
                  .first_row = table.first_row(),
                  .all_rows = table.ranks == nullptr ? 0 : table.all_rows()},
                 stream());
}

void CudaBackend::do_embed_positions(View out, const Weight& table, const BatchMeta& batch,
                                     int64_t offset) {
  kernels::embed({.out = out,
                  .table = rows_of(table),
                  .ids = batch.on_device(batch.positions),
                  .id_offset = static_cast<int32_t>(offset),
                  .store = Store::accumulate},
                 stream());
}

void CudaBackend::do_gather_rows(View out, View in, const BatchMeta& batch) {
  kernels::gather_rows(out, in, batch.on_device(batch.logits_rows), stream());
}

void CudaBackend::do_norm(View out, View in, const model::Norm& spec, const Weight& weight,
                          const Weight& bias) {
  kernels::norm({.out = out,
                 .in = in,
                 .delta = {},
                 .spec = spec,
                 .weight = vector_of(weight),
                 .bias = vector_of(bias),
                 .turns = weight ? weight.spec->elements() / in.columns : 1},
                stream());
}

void CudaBackend::do_add(View residual, View delta) {
  kernels::add(residual, delta, stream());
}

void CudaBackend::do_add_norm(View out, View residual, View delta, const model::Norm& spec,
                              const Weight& weight, const Weight& bias) {
  kernels::norm({.out = out,
                 .in = residual,
                 .delta = delta,
                 .spec = spec,
                 .weight = vector_of(weight),
                 .bias = vector_of(bias)},
                stream());
}

void CudaBackend::do_rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) {
  kernels::rope_angles(out, ropes_.of(rope), device_batch(batch), stream());
}

void CudaBackend::do_rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                                    const backend::HeadNorms& norms, const KvLayer& cache,
                                    const BatchMeta& batch) {
  const auto of_heads = [&](const Weight& weight) -> HeadVector {
    if (!weight) return {};
    return {vector_of(weight), weight.spec->elements() > spec.head_dim ? spec.head_dim : 0};
  };
  kernels::rope_and_store({.qkv = qkv,
                           .angles = spec.rope < 0 ? View{} : angles,
                           .spec = &spec,
                           .q_norm = of_heads(norms.q),
                           .q_bias = of_heads(norms.q_bias),
                           .k_norm = of_heads(norms.k),
                           .k_bias = of_heads(norms.k_bias),
                           .cache = &cache},
                          device_batch(batch), stream());
}

void CudaBackend::do_choose_keys(View chosen, const backend::IndexInputs& in,
                                 const model::AttentionSpec& spec, const KvLayer& keys,
                                 const BatchMeta& batch, std::byte* workspace) {
  kernels::choose_keys({.chosen = chosen,
                        .q = in.q,
                        .weights = in.weights,
                        .spec = &spec,
                        .keys = &keys,
                        .scores = reinterpret_cast<float*>(workspace),
                        .longest = batch.table_stride * keys.block_size},
                       device_batch(batch), stream());
}

void CudaBackend::do_attention(View out, View qkv, const model::AttentionSpec& spec,
                               const backend::ScoreTerms& terms, const KvLayer& cache,
                               const BatchMeta& batch, std::byte*) {
  StepAttention& attention = attention_of(batch.segmentation);
  attention.run({.out = out,
                 .qkv = qkv,
                 .spec = &spec,
                 .cache = &cache,
                 .sinks = vector_of(terms.sinks),
                 .slopes = static_cast<const float*>(terms.slopes.data),
                 .chosen = terms.chosen},
                batch, device_batch(batch), stream());
}

void CudaBackend::do_place_embeddings(View out, const BatchMeta& batch) {
  kernels::place_rows({.out = out,
                       .in = batch.embeddings,
                       .out_rows = batch.on_device(batch.embedded_rows),
                       .in_rows = batch.on_device(batch.embedding_rows),
                       .count = std::ssize(batch.embedded_rows)},
                      stream());
}

void CudaBackend::do_average_parts(View out, View in) {
  kernels::average_parts(out, in, stream());
}

void CudaBackend::do_scale_columns(View x, const Weight& weight) {
  kernels::scale_columns(x, vector_of(weight), stream());
}

void CudaBackend::do_copy_heads(View out, View in, const backend::HeadColumns& columns) {
  kernels::copy_heads(out, in, columns, stream());
}

void CudaBackend::do_multiply_gates(View x, View gates, model::GateKind kind) {
  kernels::multiply_gates(x, gates, kind, stream());
}

void CudaBackend::do_xielu(View x, const Weight& parameters) {
  kernels::xielu(x, vector_of(parameters), stream());
}

void CudaBackend::do_multiply_factors(View x, const Weight& factors, View indices) {
  kernels::multiply_factors(x, vector_of(factors), indices, stream());
}

void CudaBackend::do_scale(View x, float factor) {
  kernels::scale(x, factor, stream());
}

void CudaBackend::do_limit_gates(View x, const model::GateLimits& limits) {
  kernels::limit_gates(x, limits, stream());
}

void CudaBackend::do_gated_activation(View out, View in, Activation activation) {
  kernels::gated_activation(out, in, activation, stream());
}

void CudaBackend::do_soft_cap(View x, float cap) {
  kernels::soft_cap(x, cap, stream());
}

void CudaBackend::do_match_size(View x, View like) {
  kernels::match_size(x, like, stream());
}

void CudaBackend::do_keep_above(View x, float deviations) {
  kernels::keep_above(x, deviations, stream());
}

void CudaBackend::do_convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                              const Weight& bias, const StateLayer& states,
                              const BatchMeta& batch) {
  kernels::convolve({.out = out,
                     .in = in,
                     .spec = spec,
                     .weight = vector_of(weight),
                     .bias = vector_of(bias),
                     .states = states},
                    device_batch(batch), stream());
}

void CudaBackend::do_selective_scan(View out, const backend::ScanInputs& in,
                                    const model::RecurrentSpec& spec,
                                    const backend::ScanWeights& weights, const StateLayer& states,
                                    const BatchMeta& batch) {
  kernels::selective_scan({.out = out,
                           .in = in,
                           .spec = &spec,
                           .decay = vector_of(weights.decay),
                           .decays_each = weights.decay.spec->elements() > spec.heads,
                           .skip = vector_of(weights.skip),
                           .step_bias = vector_of(weights.step_bias),
                           .states = states},
                          device_batch(batch), stream());
}

void CudaBackend::do_gated_delta(View out, const backend::DeltaInputs& in,
                                 const model::RecurrentSpec& spec,
                                 const backend::DeltaWeights& weights, const StateLayer& states,
                                 const BatchMeta& batch) {
  kernels::gated_delta({.out = out,
                        .in = in,
                        .spec = &spec,
                        .decay_log = vector_of(weights.decay_log),
                        .step_bias = vector_of(weights.step_bias),
                        .states = states},
                       device_batch(batch), stream());
}

void CudaBackend::do_linear_recurrence(View out, const backend::LruInputs& in,
                                       const model::RecurrentSpec& spec, const Weight& decay,
                                       const StateLayer& states, const BatchMeta& batch) {
  kernels::linear_recurrence({.out = out,
                              .in = in,
                              .head_dim = spec.head_dim,
                              .decay = vector_of(decay),
                              .states = states},
                             device_batch(batch), stream());
}

void CudaBackend::do_draw(const BatchMeta& batch, View logits, int64_t first, std::byte*) {
  const backend::Drawing& drawing = batch.drawing;
  const auto first_section = static_cast<int64_t>(backend::kChangeSections) * first;
  kernels::change_logits({.logits = logits,
                          .repetition = batch.on_device(drawing.repetition) + first,
                          .frequency = batch.on_device(drawing.frequency) + first,
                          .presence = batch.on_device(drawing.presence) + first,
                          .adds_own = batch.on_device(drawing.adds_own) + first,
                          .sections = batch.on_device(drawing.sections) + first_section,
                          .changes = batch.on_device(drawing.changes),
                          .rows = batch.on_device(batch.logits_rows) + first,
                          .token_ids = batch.on_device(batch.token_ids)},
                         stream());
  kernels::sample({.logits = logits,
                   .temperature = batch.on_device(drawing.temperature) + first,
                   .top_k = batch.on_device(drawing.top_k) + first,
                   .top_p = batch.on_device(drawing.top_p) + first,
                   .min_p = batch.on_device(drawing.min_p) + first,
                   .uniform = batch.on_device(drawing.uniform) + first,
                   .drawn = batch.drawn_on_device + first},
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
