// A checkpoint's quantization configuration (or `--quantization`), as the scheme of each module.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/config_view.h"
#include "quantization/module_names.h"
#include "quantization/scheme.h"

namespace plimsoll::quantization {

class Quantization {
 public:
  /// A configuration without quantization.
  Quantization() = default;
  /// From `quantization_config`. A configuration without a method that vLLM knows of (MLX's) leaves
  /// everything plain. Throws Error(checkpoint_unusable) for a method that is not supported.
  explicit Quantization(const ConfigView& config);
  /// `--quantization METHOD` where the config states none: weights quantized while loading, or, for
  /// methods that cannot be, as checkpoints of the method usually are. Throws Error(usage).
  static Quantization asked(const std::string& method);

  [[nodiscard]] const std::string& method() const { return method_; }
  /// Weights are quantized while loading, from a 16-bit checkpoint.
  [[nodiscard]] bool is_online() const { return online_; }
  /// Nothing but the method's name is known of the checkpoint's own quantization.
  [[nodiscard]] bool is_assumed() const { return assumed_; }
  /// The scheme of a linear module in vLLM.
  [[nodiscard]] WeightScheme linear(const ModuleName& module) const;
  /// The scheme of a module as the checkpoint states it, which differs where vLLM quantizes experts
  /// alone.
  [[nodiscard]] WeightScheme stored(const ModuleName& module) const;
  [[nodiscard]] WeightScheme experts(const ModuleName& module) const;
  /// The scheme of an output projection over the vocabulary; plain unless the checkpoint says so.
  [[nodiscard]] WeightScheme lm_head(const ModuleName& module) const;
  /// The scheme of modules that no rule or list names.
  [[nodiscard]] const WeightScheme& usual() const { return base_; }
  /// The scheme of experts, where they have one of their own.
  [[nodiscard]] const std::optional<WeightScheme>& expert_scheme() const { return expert_scheme_; }
  /// True where an attention layer holds scales as parameters (attention_parameters).
  [[nodiscard]] bool has_attention_scales(bool latent) const {
    return latent ? latent_attention_scales_ : attention_scales_;
  }
  /// DeepSeek-V4's variant of block fp8: exponent-only scales, and experts in 4 bits.
  void specialize_for_deepseek_v4(const std::string& expert_dtype,
                                  const std::string& expert_method);
  /// Kimi K3's reading of compressed-tensors' MXFP4: experts go to the mxfp4 method, which leaves
  /// every other module plain.
  void leave_all_but_experts();
  /// The checkpoint asks for an fp8 KV cache under `--kv-cache-dtype auto`.
  [[nodiscard]] bool fp8_kv_cache() const { return fp8_kv_cache_; }
  [[nodiscard]] bool is(const char* method) const { return method_ == method; }
  /// Why vLLM 0.30 and later refuse this checkpoint, which earlier ones read; "" when they do not.
  [[nodiscard]] const std::string& dropped() const { return dropped_; }
  /// A transform (Hadamard) that is computed at run time; "": there is none.
  [[nodiscard]] const std::string& online_transform() const { return online_transform_; }
  /// Linear layers multiply in int8: each input is copied to 8 bits before the product.
  [[nodiscard]] bool int8_activations() const;

 private:
  struct Group {
    NameList names, targets;  // whole names alone, and those with patterns
    bool every_linear = false;
    WeightScheme scheme;
  };
  /// Scheme of the modules whose names a pattern matches; the first pattern that matches decides.
  struct Rule {
    NameList names;
    WeightScheme scheme;  // plain: not quantized
  };
  void read_fp8(const ConfigView& config);
  void read_modelopt(const ConfigView& config);
  void read_compressed(const ConfigView& config);
  void read_packed(const ConfigView& config);
  void read_auto_round(const ConfigView& config);
  void read_quark(const ConfigView& config);
  void read_rules(const ConfigView& config);
  void note_dropped(const WeightScheme& scheme);
  [[nodiscard]] WeightScheme by_rules(const ModuleName& module) const;
  [[nodiscard]] const WeightScheme* group_scheme(const ModuleName& module) const;
  [[nodiscard]] bool in_blocks(const ModuleName& module) const;
  void read_layers(const ConfigView& config);
  void list_layer(const std::string& name, const WeightScheme& scheme);
  [[nodiscard]] const WeightScheme* listed_layer(const ModuleName& module) const;

  std::string method_;
  bool online_ = false;
  bool assumed_ = false;
  bool experts_alone_ = false;
  bool mxfp4_packed_ = false;  // compressed-tensors: the format of all groups
  bool attention_scales_ = false;
  bool latent_attention_scales_ = false;
  bool fp8_kv_cache_ = false;
  bool lm_head_ = false;
  WeightScheme base_;
  std::optional<WeightScheme> expert_scheme_;  // where it differs from `base_`
  NameList ignored_;
  std::vector<Group> groups_;  // compressed-tensors
  std::vector<Rule> rules_;    // GPTQ's `dynamic`, Quark's patterns, those of the groups by name
  NameList blocks_;            // GPTQ: where not empty, these alone
  std::string dropped_;
  std::string online_transform_;
  std::unordered_map<std::string, WeightScheme> by_layer_;  // ModelOpt's mixed precision
  bool others_quantized_ = false;  // whether modules are quantized that `by_layer_` does not list
  // AutoRound: the blocks that are quantized, by the beginnings of names
  std::vector<std::string> block_prefixes_;
};

}  // namespace plimsoll::quantization
