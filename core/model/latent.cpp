#include "model/latent.h"

#include <cmath>

#include "model/decoder_config.h"
#include "model/spec_builder.h"

namespace plimsoll::model {
namespace {

// YaRN's share of the scale of q.k: its attention factor, by `mscale_all_dim`, on both sides.
double yarn_share(const ConfigReader& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.object(key);
    if (!rope || rope->text({"rope_type", "type"}, "default") != "yarn") continue;
    const auto all_dim = rope->positive({"mscale_all_dim"});
    const double factor = rope->positive({"factor"}, 1);
    if (!all_dim || factor <= 1) return 1;
    const double scale = 0.1 * *all_dim * std::log(factor) + 1;
    return scale * scale;
  }
  return 1;
}

}  // namespace

AttentionSpec read_latent(const ConfigReader& config, int64_t heads, int64_t rope) {
  constexpr IntegerRange kHeadSizes{1, 16384};
  AttentionSpec attention{.heads = heads, .kv_heads = heads};
  LatentSpec& latent = attention.latent;
  latent.kv_rank = config.integer({"kv_lora_rank"}, 512, kWidths);
  latent.q_rank = config.integer({"q_lora_rank"}, kWidths).value_or(0);
  latent.rotated = config.integer({"qk_rope_head_dim"}, 64, kHeadSizes);
  latent.unrotated = config.integer({"qk_nope_head_dim"}, 128, kHeadSizes);
  attention.head_dim = latent.rotated + latent.unrotated;
  attention.value_dim = config.integer({"v_head_dim"}, 128, {1, attention.head_dim});
  attention.rope = static_cast<int32_t>(rope);
  attention.scale =
      static_cast<float>(yarn_share(config) / std::sqrt(static_cast<double>(attention.head_dim)));
  return attention;
}

void add_latent(ModelSpec& spec, AttentionSpec& attention, const std::string& module,
                LatentModules modules) {
  SpecBuilder add(spec);
  LatentSpec& latent = attention.latent;
  const bool within = modules == LatentModules::within;
  const std::string inner = within ? module + ".mla_attn" : module;
  // transformers' constant; published configs state the same for all norms.
  const Norm norm{.epsilon = 1e-6f};
  const int64_t hidden = spec.hidden_size;
  const std::string kv_down = module + ".kv_a_proj_with_mqa", q_down = module + ".q_a_proj";
  const Rows kv_rows = Rows::all(kv_down, latent.kv_rank + latent.rotated);
  const Rows q_rows = Rows::all(q_down, latent.q_rank);
  const bool fused = within && latent.q_rank > 0;
  const auto first = static_cast<WeightId>(spec.weights.size());
  if (modules == LatentModules::scales_first) attention.scales_before = first;
  const auto add_q = [&] {
    const bool low = latent.q_rank > 0;
    if (low) {
      latent.q_norm = add.norm(inner + ".q_a_layernorm", latent.q_rank, norm);
      spec.weights.back().parts.front().tensor = module + ".q_a_layernorm.weight";
    }
    const std::string name = low ? ".q_b_proj" : ".q_proj";
    latent.q_up =
        add.linear(inner + name, {Rows::all(module + name, attention.heads * attention.head_dim)},
                   low ? latent.q_rank : hidden, {.split = Split::column});
  };
  if (fused) {
    latent.kv_down = add.linear(module + ".fused_qkv_a_proj", {q_rows, kv_rows}, hidden, {});
    add_q();
  } else if (within) {
    latent.kv_down = add.linear(kv_down, {kv_rows}, hidden, {});
    add_q();
  } else {
    if (latent.q_rank > 0) latent.q_down = add.linear(q_down, {q_rows}, hidden, {});
    add_q();
    latent.kv_down = add.linear(kv_down, {kv_rows}, hidden, {});
  }
  latent.kv_norm = add.norm(module + ".kv_a_layernorm", latent.kv_rank, norm);
  const std::string kv_up = module + ".kv_b_proj";
  latent.kv_up = add.linear(kv_up, attention.heads * (latent.unrotated + attention.value_dim),
                            latent.kv_rank, {.split = Split::column});
  const std::string out = ".o_proj";
  attention.out = add.linear(inner + out, {Rows::all(module + out, hidden)},
                             attention.heads * attention.value_dim, {.split = Split::row});
}

}  // namespace plimsoll::model
