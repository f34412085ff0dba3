// Feed-forward layers: dense, and mixtures of experts.
#include <algorithm>

#include "base/error.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

/// Counts the router of tokens to experts: held by every rank, seldom quantized.
void add_router(const Builder& build, int64_t experts, int64_t element, bool bias) {
  build.weights.parameters(Part::experts, Amount{experts} * build.dims.hidden * element);
  if (bias) build.weights.parameters(Part::experts, Amount{experts} * kFloat32);
}

void add_shared_expert(Builder& build, const std::string& path, const Mixture& mixture) {
  if (mixture.shared_intermediate <= 0) return;
  add_mlp(build, path + ".shared_experts", mixture.shared_intermediate, Part::mlp);
}

RankWeights::Experts routed_experts(const Builder& build, const std::string& path,
                                    const Mixture& mixture) {
  RankWeights::Experts experts{
      {path, "experts", {}}, mixture.experts, build.dims.hidden, mixture.intermediate};
  experts.up_matrices = build.family.gated ? 2 : 1;
  return experts;
}

}  // namespace

void add_mlp(Builder& build, const std::string& path, int64_t intermediate, Part part, bool bias) {
  const int64_t hidden = build.dims.hidden;
  RankWeights& weights = build.weights;
  if (build.family.gated) {
    weights.linear(part, {{path, "gate_up_proj", {"gate_proj", "up_proj"}},
                          hidden,
                          {intermediate, intermediate},
                          Split::outputs,
                          bias});
  } else {
    weights.linear(part, {{path, "up_proj", {}}, hidden, {intermediate}, Split::outputs, bias});
  }
  weights.linear(part, {{path, "down_proj", {}}, intermediate, {hidden}, Split::inputs, bias});
}

namespace {

constexpr Keys kExpertKeys = {"num_experts",     "num_local_experts",  "n_routed_experts",
                              "moe_num_experts", "num_routed_experts", "n_experts"};
constexpr Bounds kExpertCount{0, 1 << 20};

}  // namespace

bool has_experts(const ConfigView& config) {
  return config.integer(kExpertKeys, 0, kExpertCount) > 0;
}

Mixture read_mixture(const Builder& build) {
  const ConfigView& config = build.config;
  Mixture mixture;
  mixture.experts = config.integer(kExpertKeys, 0, kExpertCount);
  mixture.per_token = config.integer({"num_experts_per_tok", "num_experts_per_token", "moe_topk",
                                      "moe_top_k", "experts_per_token"},
                                     1, kExpertCount);
  mixture.intermediate = config.integer({"moe_intermediate_size", "expert_intermediate_size",
                                         "moe_ffn_hidden_size", "intermediate_size"},
                                        0);
  const int64_t count = config.integer(
      {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0, kExpertCount);
  mixture.shared_intermediate =
      config.integer({"moe_shared_expert_intermediate_size", "share_expert_dim",
                      "shared_expert_intermediate_size"},
                     count * mixture.intermediate);
  if (build.family.experts == Experts::bailing) {
    mixture.shared_intermediate =
        count * config.integer({"moe_shared_expert_intermediate_size"}, mixture.intermediate);
  }
  return mixture;
}

bool is_mixture_layer(const Builder& build, int64_t layer) {
  if (build.family.experts == Experts::none) return false;
  const ConfigView& config = build.config;
  if (read_mixture(build).experts <= 0) return false;
  const auto i = static_cast<size_t>(layer);
  const std::vector<std::string> types = config.texts({"mlp_layer_types"});
  if (i < types.size()) return types[i] == "sparse";
  const std::vector<int64_t> frequencies = config.integers({"moe_layer_freq"});
  if (frequencies.size() > 1) return i < frequencies.size() && frequencies[i] != 0;
  const int64_t usual = build.family.experts == Experts::hunyuan ? 1 : 0;
  if (layer < config.integer({"first_k_dense_replace", "num_dense_layers"}, usual)) return false;
  const std::vector<int64_t> dense = config.integers({"mlp_only_layers"});
  if (std::find(dense.begin(), dense.end(), layer) != dense.end()) return false;
  const int64_t step =
      frequencies.empty() ? config.integer({"decoder_sparse_step"}, 1) : frequencies[0];
  if (step <= 0) return false;
  const bool first =
      build.family.experts == Experts::deepseek || build.family.experts == Experts::glm;
  return (first ? layer : layer + 1) % step == 0;
}

void add_feed_forward(Builder& build, int64_t layer) {
  const std::string path = build.layer_path(layer) + ".mlp";
  ActivationShape& activation = build.shape.activation;
  if (build.family.experts == Experts::paired) {
    add_paired_experts(build, layer, path);
    return;
  }
  if (!is_mixture_layer(build, layer)) {
    const int64_t intermediate = build.dims.intermediate;
    if (intermediate <= 0) {
      fail(ExitCode::checkpoint_unusable, "{}: \"intermediate_size\" is missing",
           build.config.path());
    }
    add_mlp(build, path, intermediate, Part::mlp, build.bias(build.family.mlp_bias));
    activation.intermediate =
        std::max(activation.intermediate, intermediate / build.weights.ranks());
    return;
  }
  const Mixture mixture = read_mixture(build);
  build.shape.mixture = true;
  activation.expert_intermediate = mixture.intermediate;
  activation.experts_per_token = mixture.per_token;
  const int64_t element = build.options.element;
  switch (build.family.experts) {
    case Experts::deepseek:
      add_router(build, mixture.experts, element,
                 build.config.text({"topk_method"}, "") == "noaux_tc");
      break;
    case Experts::glm:
    case Experts::hunyuan:
      add_router(build, mixture.experts, kFloat32, true);
      break;
    case Experts::bailing:
      add_router(
          build, mixture.experts,
          build.config.text({"router_dtype"}, build.family.float_router ? "fp32" : "") == "fp32"
              ? kFloat32
              : element,
          build.config.flag({"moe_router_enable_expert_bias"}, false));
      break;
    default:
      add_router(build, mixture.experts, element, false);
      break;
  }
  build.weights.experts(routed_experts(build, path, mixture));
  add_shared_expert(build, path, mixture);
}

}  // namespace plimsoll::vllm
