// Checks and workspaces of attention and of the ops that prepare it.
#include "backend/checks.h"

namespace plimsoll::backend {
namespace {

void check_cache(const char* op, View qkv, const model::AttentionSpec& spec, const KvLayer& cache,
                 const BatchMeta& batch) {
  const int64_t stored = spec.keys_of >= 0 ? 0 : spec.stored_heads();  // heads of k and v in qkv
  check_shape(op, "qkv", qkv, static_cast<int64_t>(batch.positions.size()),
              (spec.heads + stored) * spec.head_dim);
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

void Backend::rope_angles(View out, const model::RopeSpec& rope, const BatchMeta& batch) {
  check_shape("rope_angles", "out", out, static_cast<int64_t>(batch.positions.size()),
              rope.rotary_dim);
  if (runs(out)) do_rope_angles(out, rope, batch);
}

void Backend::rope_and_store(View qkv, View angles, const model::AttentionSpec& spec,
                             const HeadNorms& norms, const KvLayer& cache, const BatchMeta& batch) {
  check_cache("rope_and_store", qkv, spec, cache, batch);
  for (const Weight* weight : {&norms.q, &norms.q_bias}) check_heads(*weight, spec.heads, spec);
  for (const Weight* weight : {&norms.k, &norms.k_bias}) check_heads(*weight, spec.kv_heads, spec);
  if (spec.norm_span == model::NormSpan::all_heads &&
      (spec.clamp > 0 || spec.norm_order != model::NormOrder::before_rope)) {
    disagree("rope_and_store: a norm over all heads comes first of all");
  }
  if (spec.rope >= 0 && angles.rows != qkv.rows) {
    disagree("rope_and_store: angles {} do not match qkv {}", show(angles), show(qkv));
  }
  if (runs(qkv)) do_rope_and_store(qkv, angles, spec, norms, cache, batch);
}

void Backend::choose_keys(View chosen, const IndexInputs& in, const model::AttentionSpec& spec,
                          const KvLayer& keys, const BatchMeta& batch) {
  constexpr const char* kOp = "choose_keys";
  const auto rows = static_cast<int64_t>(batch.positions.size());
  check_shape(kOp, "q", in.q, rows, spec.heads * spec.head_dim);
  check_shape(kOp, "weights", in.weights, rows, spec.heads);
  check_rows(kOp, chosen, "positions", batch.positions.size());
  if (chosen.dtype != DType::i32 || chosen.columns == 0) {
    disagree("{}: chosen {} are {}, not positions", kOp, show(chosen), torch_name(chosen.dtype));
  }
  check_tables(kOp, keys, batch);
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "choice workspace", footprint_.choice_workspace(rows, batch.table_stride * keys.block_size)));
  if (runs(chosen)) do_choose_keys(chosen, in, spec, keys, batch, workspace);
}

void Backend::do_choose_keys(View, const IndexInputs&, const model::AttentionSpec&, const KvLayer&,
                             const BatchMeta&, std::byte*) {
  disagree("choose_keys: the {} backend has no such kernel", footprint_.name());
}

void Backend::attention(View out, View qkv, const model::AttentionSpec& spec,
                        const ScoreTerms& terms, const KvLayer& cache, const BatchMeta& batch) {
  check_cache("attention", qkv, spec, cache, batch);
  check_shape("attention", "out", out, qkv.rows, spec.heads * spec.head_dim);
  const View heads{nullptr, qkv.dtype, qkv.rows, spec.heads, spec.heads};
  check_vector("attention", terms.sinks, "heads", heads);
  check_vector("attention", terms.slopes, "heads", heads);
  if (terms.chosen.columns > 0) {
    check_shape("attention", "chosen", terms.chosen, qkv.rows, terms.chosen.columns);
  }
  const memory::Scope scope(*scratch_);
  auto* workspace = static_cast<std::byte*>(scratch_->take(
      "attention workspace", footprint_.attention_workspace(qkv.rows, sequences(batch), spec)));
  if (runs(out)) do_attention(out, qkv, spec, terms, cache, batch, workspace);
}

void Backend::copy_heads(View out, View in, const HeadColumns& columns) {
  const auto end = [&](int64_t first, int64_t stride) {
    return first + (columns.heads - 1) * stride + columns.width;
  };
  const bool from_nothing = in.rows == 0;
  if (end(columns.to, columns.to_stride) > out.columns ||
      (!from_nothing && (end(columns.from, columns.from_stride) > in.columns ||
                         in.rows != out.rows || in.dtype != out.dtype))) {
    disagree("copy_heads: {} heads of {} columns of in {} do not fit out {}", columns.heads,
             columns.width, show(in), show(out));
  }
  if (columns.width > 0 && runs(out)) do_copy_heads(out, in, columns);
}

}  // namespace plimsoll::backend
