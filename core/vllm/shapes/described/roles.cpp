#include "vllm/shapes/described/roles.h"

namespace plimsoll::vllm {

using model::AttentionSpec;
using model::MlpSpec;
using model::RecurrentSpec;
using model::WeightId;

Roles::Roles(const model::ModelSpec& spec) : spec_(spec), roles_(spec.weights.size()) {
  const Role embedding{.part = Part::embedding};
  const Role table{.part = Part::embedding, .form = Form::numbers};
  for (const WeightId id : {spec.embedding, spec.position_embedding, spec.embedding_in,
                            spec.embedding_out, spec.layer_inputs.table}) {
    set(id, table);
  }
  add(spec.embedding_norm, table);
  add(spec.layer_inputs.projection, embedding);
  add(spec.layer_inputs.norm, {.part = Part::norm});
  for (const model::Linear& way : spec.streams.in) add(way, embedding);
  for (const model::Linear& way : spec.streams.out) add(way, embedding);
  for (const model::LayerSpec& layer : spec.layers) add(layer);
  add(spec.final_norm, {.part = Part::norm});
  set(spec.head_bias, {.part = Part::lm_head});
  if (spec.head != spec.embedding) set(spec.head, {.part = Part::lm_head});
}

Role Roles::of(WeightId id) const {
  const auto& named = roles_[static_cast<size_t>(id)];
  if (named) return *named;
  while (--id >= 0) {
    const auto& before = roles_[static_cast<size_t>(id)];
    if (before) return {.part = before->part, .form = before->form};
  }
  return {};
}

void Roles::set(WeightId id, const Role& role) {
  if (id != model::kNoWeight) roles_[static_cast<size_t>(id)] = role;
}

void Roles::add(const model::Linear& linear, const Role& role) {
  set(linear.weight, role);
  set(linear.bias, role);
}

void Roles::add(const model::Norm& norm, const Role& role) {
  set(norm.weight, role);
  set(norm.bias, role);
}

void Roles::add(const model::Adapter& adapter, const Role& role) {
  add(adapter.down, role);
  add(adapter.up, role);
}

void Roles::add(const model::LayerSpec& layer) {
  const Role norm{.part = Part::norm}, mlp{.part = Part::mlp};
  add(layer.attention_norm, norm);
  add(layer.attention_post_norm, norm);
  add(layer.mlp_norm, norm);
  add(layer.mlp_post_norm, norm);
  if (layer.has_attention()) add(layer.attention);
  if (layer.crossed) add(*layer.crossed);
  if (layer.recurrent) add(*layer.recurrent);
  add(layer.mlp);
  if (layer.shortcut) add(*layer.shortcut);
  if (layer.input) {
    add(layer.input->gate, mlp);
    add(layer.input->projection, mlp);
    add(layer.input->norm, norm);
  }
  if (layer.shared_block) {
    add(layer.shared_block->input_norm, norm);
    add(layer.shared_block->mlp_norm, norm);
    add(layer.shared_block->mlp);
    add(layer.shared_block->adapter, {});
    add(layer.shared_block->out, {});
  }
  if (layer.streams) add(*layer.streams);
}

void Roles::add(const AttentionSpec& attention) {
  const Form form = spec_.vllm.whole_attention ? Form::exact : Form::layer;
  const Role heads{.form = form, .attention = &attention};
  add(attention.qkv, heads);
  add(attention.q_norm, heads);
  add(attention.k_norm, heads);
  add(attention.out, {.form = form});
  add(attention.gate, {.form = form});
  // DeepSeek-V4 pads them to 64 or 128 heads.
  set(attention.sinks, {.row_multiple = attention.compression > 0 ? 64 : 1});
  for (const model::Adapter* adapter :
       {&attention.q_adapter, &attention.k_adapter, &attention.v_adapter}) {
    add(*adapter, {});
  }
  const model::LatentSpec& latent = attention.latent;
  for (const model::Linear* linear :
       {&latent.q_down, &latent.kv_down, &latent.q_up, &latent.kv_up}) {
    add(*linear, {.form = form});
  }
  add(latent.q_norm, {});
  add(latent.kv_norm, {});
  add(attention.indexer.q_up, heads);
  add(attention.indexer.down, {.form = Form::exact, .indexer = true});
  add(attention.indexer.k_norm, {});
}

void Roles::add(const RecurrentSpec& mixer) {
  // Mamba's first kind is in no scheme, whatever the checkpoint's; nor are the padded rows of
  // Kimi's delta rule, which no adapter reaches either.
  const bool first_mamba = mixer.kind == model::RecurrentKind::mamba1;
  const bool channels = mixer.kind == model::RecurrentKind::channel_delta;
  const bool padded = channels && mixer.rank > 0;
  const bool mamba = first_mamba || mixer.kind == model::RecurrentKind::mamba2;
  const Role layer{.form = first_mamba || spec_.vllm.whole_attention ? Form::exact : Form::layer,
                   .module = mamba ? "mixer" : nullptr};
  for (const model::Linear* linear : {&mixer.choose, &mixer.step, &mixer.gate_up, &mixer.out}) {
    add(*linear, layer);
  }
  Role in{
      .form = padded ? Form::numbers : layer.form, .module = layer.module, .last_whole = padded};
  if (padded && mixer.gate_up.weight == model::kNoWeight) in.row_multiple = 16;
  add(mixer.in, in);
  add(mixer.gate_down, in);
  add(mixer.steps, {.narrow = true});
  for (const model::Linear& gate : mixer.head_gates) add(gate, layer);
  set(mixer.conv.weight, {.form = channels ? Form::numbers : Form::exact});
  for (const WeightId id : {mixer.conv.bias, mixer.step_bias, mixer.decay, mixer.skip}) set(id, {});
  for (const model::Norm* norm : {&mixer.step_norm, &mixer.b_norm, &mixer.c_norm, &mixer.norm}) {
    add(*norm, {});
  }
}

void Roles::add(const MlpSpec& mlp) {
  if (mlp.kind == model::MlpKind::experts) return add_experts(mlp);
  add(mlp.up, {.part = Part::mlp, .gate_and_up = mlp.kind == model::MlpKind::gated});
  add(mlp.down, {.part = Part::mlp, .down = true});
  set(mlp.xielu, {.part = Part::mlp});
}

void Roles::add_experts(const MlpSpec& mlp) {
  const Role part{.part = Part::experts};
  const Role numbers{.part = Part::experts, .form = Form::numbers};
  set(mlp.up.weight, {.part = Part::experts, .experts = &mlp});
  add(mlp.latent_in, part);
  add(mlp.latent_out, part);
  Role router = spec_.vllm.quantizes_router ? part : numbers;
  router.router = true;
  add(mlp.router.gate, router);
  set(mlp.router.choice_bias, numbers);
  set(mlp.router.expert_scale, numbers);
  add(mlp.router.norm, numbers);
  add(mlp.experts_norm, {.part = Part::norm});
  add(mlp.experts_out_norm, {.part = Part::norm});
  add(mlp.shared.out_norm, {.part = Part::norm});
  add(mlp.shared.up, {.part = Part::mlp, .gate_and_up = mlp.gated, .shared = true});
  add(mlp.shared.down, {.part = Part::mlp, .shared = true});
  add(mlp.shared.gate, numbers);
}

void Roles::add(const model::StreamLayer& streams) {
  const Role mlp{.part = Part::mlp};
  for (const model::Linear* linear : {&streams.router, &streams.predict, &streams.correct}) {
    add(*linear, mlp);
  }
  set(streams.input_scale, mlp);
  add(streams.laurel, mlp);
  add(streams.norm, {.part = Part::norm});
  add(streams.laurel_norm, {.part = Part::norm});
}

}  // namespace plimsoll::vllm
