// MLPs, experts and recurrent layers of a GGUF file.
#include "checkpoint/gguf/binder.h"

namespace plimsoll::checkpoint::gguf {

void Binder::bind_mlp(const Linear& up, const Linear& down, bool gated, const std::string& kind) {
  linear(down, blk_ + "ffn_down" + kind);
  const std::string gate = blk_ + "ffn_gate" + kind, rest = blk_ + "ffn_up" + kind;
  if (!gated) return linear(up, rest);
  const int64_t rows = spec_.weight(up.weight).rows() / 2;
  if (has(gate + ".weight")) return linear(up, {{gate, rows}, {rest, rows}});
  linear(up, {{rest, 2 * rows, 0, rows}, {rest, 2 * rows, rows, rows}});  // the gate's first
}

void Binder::bind_experts(MlpSpec& mlp) {
  linear(mlp.router.gate, blk_ + "ffn_gate_inp");
  const std::string bias = blk_ + "exp_probs_b";
  one(mlp.router.choice_bias, has(bias) ? bias : bias + ".bias");
  const std::string down = blk_ + "ffn_down_exps";
  const int64_t width = spec_.weight(mlp.down.weight).rows();
  linear(mlp.down, of_experts(mlp, {{down, width}}));
  const int64_t inner = mlp.intermediate;
  const std::string fused = blk_ + "ffn_gate_up_exps", gate = blk_ + "ffn_gate_exps",
                    up = blk_ + "ffn_up_exps";
  std::vector<TensorRows> rows;
  if (!mlp.gated) {
    rows = {{up, inner}};
  } else if (has(fused + ".weight")) {
    rows = {{fused, 2 * inner, 0, inner}, {fused, 2 * inner, inner, inner}};
  } else {
    rows = {{gate, inner}, {up, inner}};
  }
  linear(mlp.up, of_experts(mlp, rows));
  for (const WeightId id : {mlp.up.weight, mlp.up.bias})
    if (id != kNoWeight && mlp.gated)
      spec_.weights[static_cast<size_t>(id)].split = Split::merged_column;
  bind_expert_norms(mlp);
  if (mlp.shared.intermediate == 0) return;
  linear(mlp.shared.gate, blk_ + "ffn_gate_inp_shexp");
  const bool is_layers = mlp.experts_norm.present;  // Gemma 4
  bind_mlp(mlp.shared.up, mlp.shared.down, mlp.gated, is_layers ? "" : "_shexp");
}

void Binder::bind_expert_norms(MlpSpec& mlp) {
  one(mlp.router.norm.weight, blk_ + "ffn_gate_inp.scale");
  one(mlp.router.expert_scale, blk_ + "ffn_down_exps.scale");
  norm(mlp.experts_norm, blk_ + "pre_ffw_norm_2");
  norm(mlp.experts_out_norm, blk_ + "post_ffw_norm_2");
  norm(mlp.shared.out_norm, blk_ + "post_ffw_norm_1");
}

std::vector<TensorRows> Binder::of_experts(const MlpSpec& mlp,
                                           const std::vector<TensorRows>& first) {
  std::vector<TensorRows> all;
  for (int64_t e = 0; e < mlp.experts; ++e) {
    for (TensorRows rows : first) {
      rows.first += e * rows.stored;
      rows.stored *= mlp.experts;
      all.push_back(rows);
    }
  }
  return all;
}

void Binder::bind_recurrent(RecurrentSpec& mixer) {
  if (mixer.kind == RecurrentKind::short_conv) {
    linear(mixer.in, in_parts(mixer.in, blk_ + "shortconv.in_proj"));
    one(mixer.conv.weight, blk_ + "shortconv.conv.weight");
    one(mixer.conv.bias, blk_ + "shortconv.conv.bias");
    return linear(mixer.out, blk_ + "shortconv.out_proj");
  }
  if (mixer.kind == RecurrentKind::channel_delta) return bind_channel_delta(mixer);
  for (const auto& [id, ending] :
       {std::pair(mixer.conv.weight, ".weight"), std::pair(mixer.conv.bias, ".bias")})
    if (id != kNoWeight) bind(id, cut_like(id, blk_ + "ssm_conv1d"), ending);
  one(mixer.step_bias, blk_ + "ssm_dt.bias");
  one(mixer.skip, blk_ + "ssm_d");
  one(mixer.decay, blk_ + "ssm_a");
  norm(mixer.norm, blk_ + "ssm_norm");
  linear(mixer.out, blk_ + "ssm_out");
  if (mixer.kind == RecurrentKind::gated_delta) return bind_delta(mixer);
  linear(mixer.in, in_parts(mixer.in, blk_ + "ssm_in"));
  linear(mixer.choose, blk_ + "ssm_x");
  linear(mixer.step, blk_ + "ssm_dt");
  norm(mixer.step_norm, blk_ + "ssm_dt_norm");
  norm(mixer.b_norm, blk_ + "ssm_b_norm");
  norm(mixer.c_norm, blk_ + "ssm_c_norm");
}

std::vector<TensorRows> Binder::cut_like(WeightId id, const std::string& base) const {
  std::vector<TensorRows> rows;
  const WeightSpec& weight = spec_.weight(id);
  int64_t first = 0;
  for (const Part& part : weight.parts) {
    rows.emplace_back(base, weight.rows(), first, part.rows());
    first += part.rows();
  }
  return rows;
}

void Binder::bind_delta(RecurrentSpec& mixer) {
  spec_.weights[static_cast<size_t>(mixer.decay)].parts[0].mapping = model::Mapping::log_minus;
  const int64_t keys = mixer.groups * mixer.state, width = mixer.width();
  const int64_t all = 2 * keys + width;
  const std::string qkv = blk_ + "attn_qkv";
  WeightSpec& in = spec_.weights[static_cast<size_t>(mixer.in.weight)];
  linear(mixer.in, {{qkv, all, 0, keys},
                    {qkv, all, keys, keys},
                    {qkv, all, 2 * keys, width},
                    {blk_ + "attn_gate", width}});
  in.split = Split::merged_column;
  WeightSpec& steps = spec_.weights[static_cast<size_t>(mixer.steps.weight)];
  steps.split = Split::merged_column;
  const int64_t each = mixer.heads / mixer.groups;
  if (!has(blk_ + "ssm_ba.weight")) {
    mixer.tiled = true;
    return linear(mixer.steps,
                  {{blk_ + "ssm_beta", mixer.heads}, {blk_ + "ssm_alpha", mixer.heads}});
  }
  std::vector<TensorRows> rows;  // of each key head, beta of its heads, then alpha
  for (const int64_t first : {int64_t{0}, each}) {
    TensorRows part(blk_ + "ssm_ba", 2 * mixer.heads, first, each);
    part.stride = 2 * each;
    part.count = mixer.groups;
    rows.push_back(part);
  }
  linear(mixer.steps, rows);
}

void Binder::bind_channel_delta(RecurrentSpec& mixer) {
  const int64_t keys = mixer.groups * mixer.state, width = mixer.width();
  const std::string conv = blk_ + "ssm_conv1d_";
  bind(mixer.conv.weight, {{conv + "q", keys}, {conv + "k", keys}, {conv + "v", width}}, ".weight");
  spec_.weights[static_cast<size_t>(mixer.conv.weight)].split = Split::merged_column;
  one(mixer.step_bias, blk_ + "ssm_dt.bias");
  one(mixer.decay, blk_ + "ssm_a");
  spec_.weights[static_cast<size_t>(mixer.decay)].parts[0].mapping = model::Mapping::log_minus;
  linear(mixer.in, {{blk_ + "attn_q", keys},
                    {blk_ + "attn_k", keys},
                    {blk_ + "attn_v", width},
                    {blk_ + "ssm_beta", mixer.heads},
                    {blk_ + "ssm_f_a", mixer.rank}});
  linear(mixer.step, blk_ + "ssm_f_b");
  linear(mixer.gate_down, blk_ + "ssm_g_a");
  linear(mixer.gate_up, blk_ + "ssm_g_b");
  norm(mixer.norm, blk_ + "ssm_norm");
  linear(mixer.out, blk_ + "attn_output");
}

}  // namespace plimsoll::checkpoint::gguf
