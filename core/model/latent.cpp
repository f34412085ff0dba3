#include "model/latent.h"

#include <cmath>
#include <utility>

#include "model/decoder_config.h"
#include "model/rope.h"
#include "model/spec_builder.h"

namespace plimsoll::model {
namespace {

// YaRN's share of the scale of q.k: its attention factor, by `mscale_all_dim`, on both sides.
double yarn_share(const ConfigReader& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.object(key);
    if (!rope || !is_yarn(rope->text({"rope_type", "type"}, "default"))) continue;
    const auto all_dim = yarn_mscale(*rope, "mscale_all_dim");
    const double factor = rope->positive({"factor"}, 1);
    const double scale = all_dim ? yarn_scale(factor, *all_dim) : 1;
    return scale * scale;
  }
  return 1;
}

}  // namespace

AttentionSpec read_latent(const ConfigReader& config, int64_t heads, int64_t rope,
                          int64_t value_dim) {
  // transformers' constant; published configs of DeepSeek's kind state the same for all norms.
  constexpr float kNormEpsilon = 1e-6f;
  constexpr IntegerRange kHeadSizes{1, 16384}, kRotated{0, 16384};
  AttentionSpec attention{.heads = heads, .kv_heads = heads};
  LatentSpec& latent = attention.latent;
  latent.kv_rank = config.required({"kv_lora_rank"}, kWidths);
  latent.q_rank = config.integer({"q_lora_rank"}, 0, kWidths);  // null: no latent
  latent.rotated =
      config.required({"qk_rope_head_dim", "head_dim"}, rope < 0 ? kRotated : kHeadSizes);
  latent.unrotated = config.required({"qk_nope_head_dim"}, kHeadSizes);
  attention.head_dim = latent.rotated + latent.unrotated;
  attention.value_dim = value_dim > 0 ? config.integer({"v_head_dim"}, value_dim, kHeadSizes)
                                      : config.required({"v_head_dim"}, kHeadSizes);
  if (attention.value_dim > attention.head_dim) {
    config.doubt("v_head_dim", "at most qk_nope_head_dim and qk_rope_head_dim together");
  }
  attention.rope = static_cast<int32_t>(rope);
  latent.q_norm.epsilon = latent.kv_norm.epsilon = kNormEpsilon;
  latent.bias = config.boolean({"attention_bias"}, false);
  attention.scale =
      static_cast<float>(yarn_share(config) / std::sqrt(static_cast<double>(attention.head_dim)));
  return attention;
}

namespace {

/// Adds the weights of a latent attention, part by part.
class LatentBuilder {
 public:
  LatentBuilder(ModelSpec& spec, AttentionSpec& attention, std::string module,
                LatentModules modules)
      : add_(spec),
        attention_(attention),
        latent_(attention.latent),
        module_(std::move(module)),
        inner_(modules == LatentModules::within ? module_ + ".mla_attn" : module_),
        hidden_(spec.hidden_size) {}

  void add_q() {
    const bool low = latent_.q_rank > 0;
    if (low) {
      latent_.q_norm = add_.norm(inner_ + ".q_a_layernorm", latent_.q_rank, latent_.q_norm);
      add_.at(add_.last()).parts.front().tensor = module_ + ".q_a_layernorm.weight";
    }
    const std::string name = low ? ".q_b_proj" : ".q_proj";
    const int64_t rows = attention_.heads * attention_.head_dim;
    latent_.q_up = add_.linear(inner_ + name, {Rows::all(module_ + name, rows)},
                               low ? latent_.q_rank : hidden_, {.split = Split::column});
  }
  void add_q_down() { latent_.q_down = add_.linear(q_rows().module, {q_rows()}, hidden_, down()); }
  void add_kv_down() {
    latent_.kv_down = add_.linear(kv_rows().module, {kv_rows()}, hidden_, down());
  }
  /// The latents of q and of k and v as one product.
  void add_down() {
    latent_.kv_down =
        add_.linear(module_ + ".fused_qkv_a_proj", {q_rows(), kv_rows()}, hidden_, down());
  }
  void add_kv_norm() {
    latent_.kv_norm = add_.norm(module_ + ".kv_a_layernorm", latent_.kv_rank, latent_.kv_norm);
  }
  void add_kv_up() {
    latent_.kv_up = add_.linear(module_ + ".kv_b_proj",
                                attention_.heads * (latent_.unrotated + attention_.value_dim),
                                latent_.kv_rank, {.split = Split::column});
  }
  void add_out() {
    const std::string out = ".o_proj";
    attention_.out = add_.linear(
        inner_ + out, {Rows::all(module_ + out, hidden_)}, attention_.heads * attention_.value_dim,
        {.split = Split::row, .bias = latent_.bias, .bias_kept = Kept::in_run});
  }
  void add_indexer() {
    IndexerSpec& indexer = attention_.indexer;
    if (!indexer.chooses()) return;
    const std::string module = module_ + ".indexer";
    indexer.q_up =
        add_.linear(module + ".wq_b", indexer.heads * indexer.head_dim, latent_.q_rank, {});
    indexer.down = add_.linear(module + ".wk_weights_proj",
                               {Rows::all(module + ".wk", indexer.head_dim),
                                Rows::all(module + ".weights_proj", indexer.heads)},
                               hidden_, {});
    Norm norm{.kind = NormKind::layer, .epsilon = 1e-6f};
    indexer.k_norm = add_.norm(module + ".k_norm", indexer.head_dim, norm);
    for (const WeightId id : {indexer.k_norm.weight, indexer.k_norm.bias}) {
      add_.at(id).dtype = DType::f32;
    }
    if (indexer.pool > 1) add_pool(indexer, module);
  }

 private:
  /// What makes one key of the keys of `indexer.pool` tokens.
  void add_pool(const IndexerSpec& indexer, const std::string& module) {
    const std::string name = module + ".index_kpool_compress_";
    add_.at(add_.parameter(name + "ape", {indexer.pool, indexer.head_dim})).dtype = DType::f32;
    add_.parameter(name + "gate", {indexer.head_dim, hidden_});
  }

  [[nodiscard]] LinearLayout down() const {
    return {.bias = latent_.bias, .bias_kept = Kept::in_run};
  }

  [[nodiscard]] Rows q_rows() const { return Rows::all(module_ + ".q_a_proj", latent_.q_rank); }
  [[nodiscard]] Rows kv_rows() const {
    return Rows::all(module_ + ".kv_a_proj_with_mqa", latent_.kv_rank + latent_.rotated);
  }

  SpecBuilder add_;
  AttentionSpec& attention_;
  LatentSpec& latent_;
  const std::string module_, inner_;
  const int64_t hidden_;
};

}  // namespace

void add_latent(ModelSpec& spec, AttentionSpec& attention, const std::string& module,
                LatentModules modules) {
  LatentBuilder add(spec, attention, module, modules);
  const bool low = attention.latent.q_rank > 0;
  const auto first = static_cast<WeightId>(spec.weights.size());
  switch (modules) {
    case LatentModules::within:
      if (low) {
        add.add_down();
      } else {
        add.add_kv_down();
      }
      add.add_q();
      break;
    case LatentModules::scales_first:
      attention.scales_before = first;
      [[fallthrough]];
    case LatentModules::beside:
      if (low) add.add_q_down();
      add.add_q();
      add.add_kv_down();
      break;
    case LatentModules::indexed:
      attention.scales_before = first;
      add.add_kv_up();
      add.add_indexer();
      add.add_down();
      add.add_q();
      add.add_kv_norm();
      return add.add_out();
  }
  add.add_kv_norm();
  add.add_kv_up();
  add.add_out();
}

}  // namespace plimsoll::model
