#include "backend/ops/attention.h"

#include "backend/checks.h"

namespace plimsoll::backend::ops {
namespace {

void check_cache(const char* op, View qkv, const model::AttentionSpec& spec, const KvLayer& cache,
                 const BatchMeta& batch) {
  const int64_t stored = spec.keys_of >= 0 ? 0 : spec.stored_heads();  // heads of k and v in qkv
  check_shape(op, "qkv", qkv, std::ssize(batch.positions), (spec.heads + stored) * spec.head_dim);
  check_tables(op, cache, batch);
}

/// A norm's weight or bias over each head, or over `heads` of them one after the other.
void check_heads(const Weight& vector, int64_t heads, const model::AttentionSpec& spec) {
  if (!vector) return;
  const int64_t all = heads * spec.head_dim;
  const bool shared = spec.norm_span == model::NormSpan::each_head;
  const int64_t elements = vector.spec->elements();
  if (elements == all || (shared && elements == spec.head_dim)) return;
  disagree("rope_and_store: {} is not of {} heads of {}", show(vector), heads, spec.head_dim);
}

}  // namespace

void RopeAngles::check() const {
  check_shape(kName, "out", out, std::ssize(batch->positions), rope->rotary_dim);
}

void RopeAndStore::check() const {
  check_cache(kName, qkv, *spec, cache, *batch);
  for (const Weight* weight : {&norms.q, &norms.q_bias}) check_heads(*weight, spec->heads, *spec);
  for (const Weight* weight : {&norms.k, &norms.k_bias})
    check_heads(*weight, spec->kv_heads, *spec);
  if (spec->norm_span == model::NormSpan::all_heads &&
      (spec->clamp > 0 || spec->norm_order != model::NormOrder::before_rope)) {
    disagree("{}: a norm over all heads comes first of all", kName);
  }
  if (spec->rope >= 0 && angles.rows != qkv.rows) {
    disagree("{}: angles {} do not match qkv {}", kName, show(angles), show(qkv));
  }
}

void ChooseKeys::check() const {
  const int64_t rows = std::ssize(batch->positions);
  check_shape(kName, "q", in.q, rows, spec->heads * spec->head_dim);
  check_shape(kName, "weights", in.weights, rows, spec->heads);
  check_rows(kName, chosen, "positions", batch->positions.size());
  if (chosen.dtype != DType::i32 || chosen.columns == 0) {
    disagree("{}: chosen {} are {}, not positions", kName, show(chosen), torch_name(chosen.dtype));
  }
  check_tables(kName, keys, *batch);
}

size_t ChooseKeys::workspace(const Footprint& footprint) const {
  return footprint.choice_workspace(std::ssize(batch->positions),
                                    batch->table_stride * keys.block_size);
}

void Attention::check() const {
  check_cache(kName, qkv, *spec, cache, *batch);
  check_shape(kName, "out", out, qkv.rows, spec->heads * spec->head_dim);
  const View heads{nullptr, qkv.dtype, qkv.rows, spec->heads, spec->heads};
  check_vector(kName, terms.sinks, "heads", heads);
  check_vector(kName, terms.slopes, "heads", heads);
  if (terms.chosen.columns > 0) {
    check_shape(kName, "chosen", terms.chosen, qkv.rows, terms.chosen.columns);
  }
}

size_t Attention::workspace(const Footprint& footprint) const {
  return footprint.attention_workspace(qkv.rows, sequences(*batch), *spec);
}

}  // namespace plimsoll::backend::ops
