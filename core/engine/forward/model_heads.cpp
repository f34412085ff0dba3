// Heads of attention that are not simply rows of one product: q, k and v from latents, and v's
// heads that are smaller than k's; keys that an indexer chooses.
#include <algorithm>

#include "engine/forward/model.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::Activation;

View Model::take_choice(const backend::BatchMeta& batch) {
  int64_t most = 0;
  for (const model::LayerSpec& layer : spec_.layers) {
    most = std::max(most, layer.attention.indexer.most);
  }
  if (most == 0) return {};
  const int64_t longest = batch.table_stride * caches_.front().block_size;
  return take("top-k indices", std::ssize(batch.positions), std::min(most, longest), DType::i32);
}

void Model::choose_keys(const Step& step, size_t index, View input, View q_latent) {
  const model::AttentionSpec& attention = spec_.layers[index].attention;
  const model::IndexerSpec& indexer = attention.indexer;
  const model::AttentionSpec spec = attention.index_heads();
  const Scope scope(backend_.scratch());
  const int64_t dim = spec.head_dim, q_columns = spec.heads * dim;
  const View down = take("index keys and weights", input.rows, dim + spec.heads);
  linear(down, input, indexer.down, Activation::none);
  const View qk = take("index q and k", input.rows, q_columns + dim);
  const View q = qk.slice_columns(0, q_columns);
  linear(q, q_latent, indexer.q_up, Activation::none);
  copy(qk.slice_columns(q_columns, dim), down.slice_columns(0, dim));
  backend::KvLayer keys = caches_[index];
  keys.layer_offset +=
      layer_block(spec_.layers[index], keys.block_size, keys.dtype, backend_.footprint())
          .index_offset;
  const backend::HeadNorms norms{.k = weight(spec.k_norm.weight),
                                 .k_bias = weight(spec.k_norm.bias)};
  const View angles = angles_[spec.rope];
  backend_.run(ops::RopeAndStore{qk, angles, spec, norms, keys, step.batch});
  backend_.run(ops::ChooseKeys{
      step.chosen, {q, down.slice_columns(dim, spec.heads)}, spec, keys, step.batch});
}

void Model::expand_latents(const Step& step, size_t index, View input, View qkv) {
  const model::AttentionSpec& spec = spec_.layers[index].attention;
  const model::LatentSpec& latent = spec.latent;
  const Scope scope(backend_.scratch());
  const int64_t heads = spec.heads, dim = spec.head_dim;
  const bool fused = latent.q_rank > 0 && latent.q_down.weight == model::kNoWeight;
  const int64_t first = fused ? latent.q_rank : 0;  // column of the latent of k and v
  const View down = take("latents", input.rows, first + latent.kv_rank + latent.rotated);
  linear(down, input, latent.kv_down, Activation::none);
  View q_in = input;
  if (latent.q_rank > 0) {
    q_in = take("q latent", input.rows, latent.q_rank);
    if (!fused) linear(q_in, input, latent.q_down, Activation::none);
    norm(q_in, fused ? down.slice_columns(0, latent.q_rank) : q_in, latent.q_norm);
  }
  if (spec.indexer.chooses()) choose_keys(step, index, input, q_in);
  const View q = take("q", input.rows, heads * dim);
  linear(q, q_in, latent.q_up, Activation::none);
  const View normed = take("kv latent", input.rows, latent.kv_rank);
  norm(normed, down.slice_columns(first, latent.kv_rank), latent.kv_norm);
  const int64_t kv_width = latent.unrotated + spec.value_dim;  // of a head
  const View kv = take("k and v", input.rows, heads * kv_width);
  linear(kv, normed, latent.kv_up, Activation::none);

  const auto copy = [&](View to, View from, int64_t width, int64_t from_column, int64_t from_stride,
                        int64_t to_column) {
    backend_.run(
        ops::CopyHeads{to, from, {heads, width, from_column, from_stride, to_column, dim}});
  };
  const View keys = qkv.slice_columns(heads * dim, heads * dim);
  const View values = qkv.slice_columns(2 * heads * dim, heads * dim);
  copy(qkv, q, latent.rotated, latent.unrotated, dim, 0);
  copy(qkv, q, latent.unrotated, 0, dim, latent.rotated);
  copy(keys, down, latent.rotated, first + latent.kv_rank, 0, 0);
  copy(keys, kv, latent.unrotated, 0, kv_width, latent.rotated);
  copy(values, kv, spec.value_dim, latent.unrotated, kv_width, 0);
  copy(values, {}, dim - spec.value_dim, 0, 0, spec.value_dim);
}

void Model::widen_values(const model::AttentionSpec& spec, View input, View qkv) {
  const Scope scope(backend_.scratch());
  const int64_t before = (spec.heads + spec.kv_heads) * spec.head_dim;  // q and k
  const View narrow = take("narrow qkv", input.rows, before + spec.kv_heads * spec.value_dim);
  linear(narrow, input, spec.qkv, Activation::none);
  const View values = qkv.slice_columns(before, spec.kv_heads * spec.head_dim);
  const int64_t dim = spec.head_dim;
  backend_.run(ops::CopyHeads{qkv, narrow, {.heads = 1, .width = before}});
  backend_.run(ops::CopyHeads{
      values, narrow, {spec.kv_heads, spec.value_dim, before, spec.value_dim, 0, dim}});
  backend_.run(
      ops::CopyHeads{values, {}, {spec.kv_heads, dim - spec.value_dim, 0, 0, spec.value_dim, dim}});
}

View Model::narrow_values(const model::AttentionSpec& spec, View attended) {
  const View values = take("attended values", attended.rows, spec.heads * spec.value_dim);
  backend_.run(ops::CopyHeads{
      values, attended, {spec.heads, spec.value_dim, 0, spec.head_dim, 0, spec.value_dim}});
  if (spec.value_factor != 1) backend_.run(ops::Scale{values, spec.value_factor});
  return values;
}

}  // namespace plimsoll::engine
