// Names are those that checkpoint/gguf/bind.cpp reads; shapes follow from the description.
#include "engines/llamacpp/conversion/tensors.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace plimsoll::engines::llamacpp {
namespace {

using checkpoint::gguf::Tensor;
using model::AttentionSpec;
using model::kNoWeight;
using model::LayerSpec;
using model::Linear;
using model::MlpKind;
using model::MlpSpec;
using model::Norm;
using model::RecurrentKind;
using model::RecurrentSpec;
using model::WeightId;

class Writer {
 public:
  Writer(const model::ModelSpec& spec, const ConvertedFacts& facts, const std::string& path)
      : spec_(spec), facts_(facts), path_(path) {}

  std::vector<Tensor> write() {
    matrix("token_embd", spec_.embedding);
    if (spec_.head != spec_.embedding) matrix("output", spec_.head);
    vector("output.bias", spec_.head_bias);
    matrix("position_embd", spec_.position_embedding);
    norm("token_embd_norm", spec_.embedding_norm);
    const bool lfm = facts_.architecture.starts_with("lfm2");
    norm(lfm ? "token_embd_norm" : "output_norm", spec_.final_norm);
    if (spec_.layer_inputs.table != kNoWeight) {  // padded to the vocabulary
      add("per_layer_token_embd.weight",
          {columns(spec_.layer_inputs.table), rows(spec_.embedding)});
    }
    linear("per_layer_model_proj", spec_.layer_inputs.projection);
    norm("per_layer_proj_norm", spec_.layer_inputs.norm);
    write_streams("altup_proj.weight", spec_.streams.in);
    write_streams("altup_unembd_proj.weight", spec_.streams.out);
    write_frequencies();
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      blk_ = fmt::format("blk.{}.", i);
      write_layer(spec_.layers[i]);
    }
    return std::move(tensors_);
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail(ExitCode::checkpoint_unusable,
         "{}: {}: llama.cpp's conversion of {} is not known; plan a GGUF file of it", path_,
         spec_.architecture, what);
  }

  void add(std::string name, std::vector<int64_t> ne) {
    if (std::ranges::any_of(ne, [](int64_t size) { return size < 1; })) {
      fail(ExitCode::checkpoint_unusable, "{}: tensor {} would have no values: {}", path_, name,
           fmt::join(ne, " x "));
    }
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.ne = std::move(ne);
    tensors_.push_back(std::move(tensor));
  }
  [[nodiscard]] int64_t rows(WeightId id) const { return spec_.weight(id).rows(); }
  [[nodiscard]] int64_t columns(WeightId id) const { return spec_.weight(id).columns(); }

  void vector(const std::string& name, WeightId id) {
    if (id != kNoWeight) add(name, {rows(id)});
  }
  void matrix(const std::string& base, WeightId id) {
    if (id != kNoWeight) add(base + ".weight", {columns(id), rows(id)});
  }
  void linear(const std::string& base, const Linear& linear) {
    matrix(base, linear.weight);
    vector(base + ".bias", linear.bias);
  }
  /// Rows of a matrix that the description stores with others.
  void part(const std::string& base, const Linear& whole, int64_t count) {
    if (whole.weight != kNoWeight) add(base + ".weight", {columns(whole.weight), count});
    if (whole.bias != kNoWeight) add(base + ".bias", {count});
  }
  void norm(const std::string& base, const Norm& norm) {
    vector(base + ".weight", norm.weight);
    vector(base + ".bias", norm.bias);
  }

  void write_streams(const char* name, const std::vector<Linear>& linears) {
    const auto count = static_cast<int64_t>(linears.size());
    if (count > 0) add(name, {spec_.hidden_size, spec_.hidden_size, count});
  }

  /// Divisors of RoPE's frequencies, where a file has them.
  void write_frequencies() {
    if (facts_.frequency_factors > 0) add("rope_freqs.weight", {facts_.frequency_factors});
    if (facts_.long_factors == 0) return;
    add("rope_factors_long.weight", {facts_.long_factors});
    add("rope_factors_short.weight", {facts_.long_factors});
  }

  void write_layer(const LayerSpec& layer) {
    if (layer.shared_block || layer.crossed || layer.shortcut) refuse("such layers");
    write_norms(layer);
    vector(blk_ + "layer_output_scale.weight", layer.factor);
    if (layer.input) {
      linear(blk_ + "inp_gate", layer.input->gate);
      linear(blk_ + "proj", layer.input->projection);
      norm(blk_ + "post_norm", layer.input->norm);
    }
    if (layer.streams) write_stream(*layer.streams);
    if (layer.has_attention()) write_attention(layer.attention);
    if (layer.recurrent) write_mixer(*layer.recurrent);
    if (layer.mlp.kind == MlpKind::experts) {
      write_experts(layer.mlp);
    } else if (layer.mlp.kind != MlpKind::none) {
      write_mlp("", layer.mlp.up, layer.mlp.down, layer.mlp.kind == MlpKind::gated);
    }
  }

  void write_norms(const LayerSpec& layer) {
    const bool one_branch =
        layer.mlp.kind == MlpKind::none || (!layer.has_attention() && !layer.recurrent);
    const bool alone = one_branch && facts_.architecture.starts_with("nemotron_h");
    const bool one = layer.mlp_norm.weight == layer.attention_norm.weight;
    const bool two = facts_.architecture == "falcon" && !one;
    norm(blk_ + (two ? "attn_norm_2" : "attn_norm"), layer.attention_norm);
    norm(blk_ + "post_attention_norm", layer.attention_post_norm);
    if (!one) {
      const char* const name = alone || two                    ? "attn_norm"
                               : facts_.late_mlp_norm          ? "post_attention_norm"
                               : facts_.architecture == "dbrx" ? "attn_output_norm"
                                                               : "ffn_norm";
      norm(blk_ + name, layer.mlp_norm);
    }
    norm(blk_ + "post_ffw_norm", layer.mlp_post_norm);
  }

  void write_stream(const model::StreamLayer& stream) {
    vector(blk_ + "altup_correct_scale.weight", stream.input_scale);
    linear(blk_ + "altup_correct_coef", stream.correct);
    linear(blk_ + "altup_predict_coef", stream.predict);
    linear(blk_ + "altup_router", stream.router);
    norm(blk_ + "altup_router_norm", stream.norm);
    linear(blk_ + "laurel_l", stream.laurel.down);
    linear(blk_ + "laurel_r", stream.laurel.up);
    norm(blk_ + "laurel_post_norm", stream.laurel_norm);
  }

  void write_attention(const AttentionSpec& attention) {
    vector(blk_ + "attn_sinks.weight", attention.sinks);
    norm(blk_ + "attn_q_norm", attention.q_norm);
    norm(blk_ + "attn_k_norm", attention.k_norm);
    linear(blk_ + "attn_output", attention.out);
    linear(blk_ + "attn_gate", attention.gate);
    if (attention.latent.kv_rank > 0) return write_latent(attention);
    const int64_t head = attention.head_dim;
    const int64_t q = attention.heads * head, k = attention.kv_heads * head;
    const int64_t v = attention.value_dim > 0 ? attention.kv_heads * attention.value_dim : k;
    if (facts_.fuses_attention) return part(blk_ + "attn_qkv", attention.qkv, q + k + v);
    part(blk_ + "attn_q", attention.qkv, attention.gates_in_qkv ? 2 * q : q);
    part(blk_ + "attn_k", attention.qkv, k);
    if (!keys_are_values(attention)) part(blk_ + "attn_v", attention.qkv, v);
  }

  /// True where the values are the keys (Gemma 4's full layers).
  [[nodiscard]] bool keys_are_values(const AttentionSpec& attention) const {
    const auto& parts = spec_.weight(attention.qkv.weight).parts;
    if (attention.keys_of >= 0 || parts.size() < 2) return false;
    const auto &last = parts.back(), &before = parts[parts.size() - 2];
    return last.tensor == before.tensor && last.first_row == before.first_row;
  }

  void write_latent(const AttentionSpec& attention) {
    const model::LatentSpec& latent = attention.latent;
    norm(blk_ + "attn_q_a_norm", latent.q_norm);
    norm(blk_ + "attn_kv_a_norm", latent.kv_norm);
    if (latent.q_rank > 0) add(blk_ + "attn_q_a.weight", {spec_.hidden_size, latent.q_rank});
    linear(blk_ + (latent.q_rank > 0 ? "attn_q_b" : "attn_q"), latent.q_up);
    add(blk_ + "attn_kv_a_mqa.weight", {spec_.hidden_size, latent.kv_rank + latent.rotated});
    if (facts_.architecture == "minicpm3") {
      linear(blk_ + "attn_kv_b", latent.kv_up);
    } else {
      add(blk_ + "attn_k_b.weight", {latent.unrotated, latent.kv_rank, attention.heads});
      add(blk_ + "attn_v_b.weight", {latent.kv_rank, attention.value_dim, attention.heads});
    }
    const model::IndexerSpec& indexer = attention.indexer;
    if (!indexer.chooses()) return;
    const std::string module = blk_ + "indexer.";
    linear(module + "attn_q_b", indexer.q_up);
    part(module + "attn_k", indexer.down, indexer.head_dim);
    part(module + "proj", indexer.down, indexer.heads);
    norm(module + "k_norm", indexer.k_norm);
  }

  /// `kind`: "", or "_shexp" of shared experts.
  void write_mlp(const std::string& kind, const Linear& up, const Linear& down, bool gated) {
    linear(blk_ + "ffn_down" + kind, down);
    if (!gated || facts_.fuses_mlp) return linear(blk_ + "ffn_up" + kind, up);
    const int64_t half = rows(up.weight) / 2;
    part(blk_ + "ffn_gate" + kind, up, half);
    part(blk_ + "ffn_up" + kind, up, half);
  }

  void write_experts(const MlpSpec& mlp) {
    if (mlp.latent > 0) refuse("experts behind a latent projection (moe_latent_size)");
    if (mlp.router.identities > 0) refuse("such experts");
    linear(blk_ + "ffn_gate_inp", mlp.router.gate);
    vector(blk_ + "ffn_gate_inp.scale", mlp.router.norm.weight);
    vector(blk_ + "exp_probs_b.bias", mlp.router.choice_bias);
    vector(blk_ + "ffn_down_exps.scale", mlp.router.expert_scale);
    norm(blk_ + "pre_ffw_norm_2", mlp.experts_norm);
    norm(blk_ + "post_ffw_norm_2", mlp.experts_out_norm);
    norm(blk_ + "post_ffw_norm_1", mlp.shared.out_norm);
    const int64_t inner = mlp.intermediate;
    stack("ffn_down_exps", mlp, mlp.down, inner, spec_.hidden_size);
    if (mlp.gated && facts_.fuses_experts) {
      stack("ffn_gate_up_exps", mlp, mlp.up, spec_.hidden_size, 2 * inner);
    } else {
      if (mlp.gated) stack("ffn_gate_exps", mlp, mlp.up, spec_.hidden_size, inner);
      stack("ffn_up_exps", mlp, mlp.up, spec_.hidden_size, inner);
    }
    if (mlp.shared.intermediate == 0) return;
    linear(blk_ + "ffn_gate_inp_shexp", mlp.shared.gate);
    const bool is_layers = mlp.experts_norm.present;  // Gemma 4's own MLP
    write_mlp(is_layers ? "" : "_shexp", mlp.shared.up, mlp.shared.down, mlp.gated);
  }

  /// Matrices of all experts, one over the other.
  void stack(const char* name, const MlpSpec& mlp, const Linear& linear, int64_t in, int64_t out) {
    add(blk_ + name + ".weight", {in, out, mlp.experts});
    if (linear.bias != kNoWeight) add(blk_ + name + ".bias", {out, mlp.experts});
  }

  void write_mixer(const RecurrentSpec& mixer) {
    const auto convolution = [&](const std::string& base, int64_t width) {
      add(blk_ + base + ".weight", {mixer.conv.taps, width});
      if (mixer.conv.bias != kNoWeight) add(blk_ + base + ".bias", {width});
    };
    switch (mixer.kind) {
      case RecurrentKind::short_conv:
        linear(blk_ + "shortconv.in_proj", mixer.in);
        convolution("shortconv.conv", mixer.conv.width);
        return linear(blk_ + "shortconv.out_proj", mixer.out);
      case RecurrentKind::mamba1:
      case RecurrentKind::mamba2:
        convolution("ssm_conv1d", mixer.conv.width);
        return write_mamba(mixer);
      case RecurrentKind::gated_delta:
        convolution("ssm_conv1d", mixer.conv.width);
        return write_delta(mixer);
      case RecurrentKind::channel_delta:
        convolution("ssm_conv1d_q", mixer.groups * mixer.state);
        convolution("ssm_conv1d_k", mixer.groups * mixer.state);
        convolution("ssm_conv1d_v", mixer.width());
        return write_channel_delta(mixer);
      default:
        refuse("such recurrent layers");
    }
  }

  void write_mamba(const RecurrentSpec& mixer) {
    const bool first = mixer.kind == RecurrentKind::mamba1;
    linear(blk_ + "ssm_in", mixer.in);
    linear(blk_ + "ssm_x", mixer.choose);
    matrix(blk_ + "ssm_dt", mixer.step.weight);
    vector(blk_ + "ssm_dt.bias", mixer.step_bias);
    norm(blk_ + "ssm_dt_norm", mixer.step_norm);
    norm(blk_ + "ssm_b_norm", mixer.b_norm);
    norm(blk_ + "ssm_c_norm", mixer.c_norm);
    add(blk_ + "ssm_a", {first ? mixer.state : 1, mixer.heads});
    if (first) {
      vector(blk_ + "ssm_d", mixer.skip);
    } else {
      add(blk_ + "ssm_d", {1, mixer.heads});
    }
    if (mixer.norm.weight != kNoWeight)
      add(blk_ + "ssm_norm.weight", {mixer.width() / mixer.groups, mixer.groups});
    linear(blk_ + "ssm_out", mixer.out);
  }

  void write_delta(const RecurrentSpec& mixer) {
    const int64_t keys = mixer.groups * mixer.state;
    part(blk_ + "attn_qkv", mixer.in, 2 * keys + mixer.width());
    part(blk_ + "attn_gate", mixer.in, mixer.width());
    if (facts_.architecture == "qwen3next") {
      part(blk_ + "ssm_ba", mixer.steps, 2 * mixer.heads);
    } else {
      part(blk_ + "ssm_alpha", mixer.steps, mixer.heads);
      part(blk_ + "ssm_beta", mixer.steps, mixer.heads);
    }
    vector(blk_ + "ssm_dt.bias", mixer.step_bias);
    vector(blk_ + "ssm_a", mixer.decay);
    norm(blk_ + "ssm_norm", mixer.norm);
    linear(blk_ + "ssm_out", mixer.out);
  }

  void write_channel_delta(const RecurrentSpec& mixer) {
    const int64_t keys = mixer.groups * mixer.state;
    part(blk_ + "attn_q", mixer.in, keys);
    part(blk_ + "attn_k", mixer.in, keys);
    part(blk_ + "attn_v", mixer.in, mixer.width());
    part(blk_ + "ssm_beta", mixer.in, mixer.heads);
    part(blk_ + "ssm_f_a", mixer.in, mixer.rank);
    matrix(blk_ + "ssm_f_b", mixer.step.weight);
    linear(blk_ + "ssm_g_a", mixer.gate_down);
    linear(blk_ + "ssm_g_b", mixer.gate_up);
    vector(blk_ + "ssm_dt.bias", mixer.step_bias);
    vector(blk_ + "ssm_a", mixer.decay);
    norm(blk_ + "ssm_norm", mixer.norm);
    linear(blk_ + "attn_output", mixer.out);
  }

  const model::ModelSpec& spec_;
  const ConvertedFacts& facts_;
  const std::string& path_;
  std::string blk_;  // "blk.0."
  std::vector<Tensor> tensors_;
};

}  // namespace

std::vector<Tensor> tensors_of(const model::ModelSpec& spec, const ConvertedFacts& facts,
                               const std::string& path) {
  return Writer(spec, facts, path).write();
}

}  // namespace plimsoll::engines::llamacpp
