#include "shard/ranks/run_splits.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::Split;
using model::WeightId;

class Splits {
 public:
  explicit Splits(const ModelSpec& spec) : spec_(spec) {
    for (const model::WeightSpec& weight : spec.weights) splits_.push_back(weight.split);
  }

  void add(const model::LayerSpec& layer, int64_t ranks) {
    if (layer.has_attention()) add(layer.attention);
    if (layer.recurrent && spans_ranks(*layer.recurrent, ranks)) whole(layer.recurrent->norm);
    if (layer.shared_block) whole(layer.shared_block->adapter.down);
    add(layer.mlp);
    if (layer.shortcut) add(*layer.shortcut);
    if (!layer.streams) return;
    whole(layer.streams->laurel.down);
    whole(layer.streams->laurel.up);
  }

  void whole(const model::Linear& linear) {
    set(linear.weight, Split::replicated);
    set(linear.bias, Split::replicated);
  }

  std::vector<Split> take() { return std::move(splits_); }

 private:
  // Cuts a mixture's weights by experts, but for the outputs' bias, which every rank adds to the
  // sums.
  void add(const model::MlpSpec& mlp) {
    if (!spec_.whole_experts || mlp.kind != model::MlpKind::experts) return;
    for (const WeightId id : {mlp.up.weight, mlp.up.bias, mlp.down.weight}) set(id, Split::experts);
  }

  void add(const model::AttentionSpec& attention) {
    for (const model::Adapter* adapter :
         {&attention.q_adapter, &attention.k_adapter, &attention.v_adapter}) {
      whole(adapter->down);
    }
    if (attention.norm_span == model::NormSpan::all_heads) {
      whole(attention.q_norm);
      whole(attention.k_norm);
      return;
    }
    // K's norm has weights for each KV head: they go to the ranks that have the head.
    for (const WeightId id : {attention.k_norm.weight, attention.k_norm.bias}) {
      if (id != model::kNoWeight && spec_.weight(id).elements() > attention.head_dim)
        set(id, Split::kv);
    }
  }

  void whole(const model::Norm& norm) {
    set(norm.weight, Split::replicated);
    set(norm.bias, Split::replicated);
  }

  void set(WeightId id, Split split) {
    if (id != model::kNoWeight) splits_[static_cast<size_t>(id)] = split;
  }

  const ModelSpec& spec_;
  std::vector<Split> splits_;
};

}  // namespace

bool spans_ranks(const model::RecurrentSpec& recurrent, int64_t ranks) {
  return recurrent.norm.present && recurrent.norm_groups % ranks != 0;
}

std::vector<Split> run_splits(const ModelSpec& spec, int64_t ranks) {
  Splits splits(spec);
  for (const model::LayerSpec& layer : spec.layers) splits.add(layer, ranks);
  splits.whole(spec.layer_inputs.projection);
  for (const auto* projections : {&spec.streams.in, &spec.streams.out}) {
    for (const model::Linear& projection : *projections) splits.whole(projection);
  }
  return splits.take();
}

}  // namespace plimsoll::shard
