// Feed-forward layers: dense, and mixtures of experts.
#include <algorithm>

#include "base/error.h"
#include "plan/builder.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kFloat32 = 4;

/// What routes tokens to experts: never quantized, held by every rank.
void add_router(const Builder& build, int64_t experts, int64_t element, bool bias) {
  build.weights.parameters(Part::experts, Amount{experts} * build.dims.hidden * element);
  if (bias) build.weights.parameters(Part::experts, Amount{experts} * kFloat32);
}

void add_shared_expert(Builder& build, const std::string& path, const Mixture& mixture) {
  if (mixture.shared_intermediate <= 0) return;
  const bool one = build.family.experts == Experts::qwen ||
                   build.family.experts == Experts::laguna ||
                   build.family.experts == Experts::llama4;
  add_mlp(build, path + (one ? ".shared_expert" : ".shared_experts"), mixture.shared_intermediate,
          Part::mlp);
  if (build.family.experts == Experts::qwen) {
    build.weights.plain(Part::experts, build.dims.hidden);  // shared_expert_gate
  }
}

void add_routed(const Builder& build, const std::string& path, const Mixture& mixture) {
  RankWeights::Experts experts{
      {path, "experts", {}}, mixture.experts, build.dims.hidden, mixture.intermediate};
  experts.bias = build.family.experts == Experts::gpt_oss;
  experts.up_matrices = build.family.gated ? 2 : 1;
  build.weights.experts(experts);
}

/// gpt-oss: mxfp4 experts whose width is padded for the kernel, router with bias.
void add_gpt_oss(Builder& build, const std::string& path, Mixture mixture) {
  RankWeights& weights = build.weights;
  weights.plain(Part::experts, Amount{mixture.experts} * (build.dims.hidden + 1));
  const bool packed =
      weights.quantization().experts({path, "experts", {}}).format == WeightFormat::mxfp4;
  if (packed) {
    constexpr int64_t kPadding = 64;  // of each rank's slice, for the Triton kernel
    const int64_t own = ceil_div(mixture.intermediate, weights.ranks()).value();
    mixture.intermediate = round_up(own, kPadding).value() * weights.ranks();
  }
  add_routed(build, path, mixture);
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

Mixture read_mixture(const Builder& build) {
  const ConfigView& config = build.config;
  Mixture mixture;
  constexpr Bounds kExperts{0, 1 << 20};
  mixture.experts = config.integer({"num_experts", "num_local_experts", "n_routed_experts",
                                    "moe_num_experts", "num_moe_experts"},
                                   0, kExperts);
  mixture.per_token = config.integer(
      {"num_experts_per_tok", "num_experts_per_token", "moe_k", "num_selected_experts", "moe_topk"},
      1, kExperts);
  mixture.intermediate =
      config.integer({"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"}, 0);
  const int64_t count = config.integer({"n_shared_experts", "num_shared_experts"}, 0, kExperts);
  mixture.shared_intermediate =
      config.integer({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                      "shared_intermediate_size"},
                     count * mixture.intermediate);
  switch (build.family.experts) {
    case Experts::mixtral:
    case Experts::minimax:
    case Experts::gpt_oss:
      mixture.shared_intermediate = 0;
      break;
    case Experts::llama4:
      mixture.intermediate = config.required({"intermediate_size"});
      mixture.shared_intermediate = mixture.intermediate;
      break;
    default:
      break;
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
  const std::vector<int64_t> listed = config.integers({"moe_layers"});
  if (!listed.empty()) return std::find(listed.begin(), listed.end(), layer) != listed.end();
  const std::vector<int64_t> dense = config.integers({"mlp_only_layers"});
  if (std::find(dense.begin(), dense.end(), layer) != dense.end()) return false;
  if (layer < config.integer({"first_k_dense_replace"}, 0)) return false;
  const int64_t frequency = frequencies.empty() ? 1 : std::max<int64_t>(1, frequencies[0]);
  const int64_t step =
      config.integer({"decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period"},
                     frequency, {0, 1 << 20});
  if (step == 0) return false;
  if (config.has("expert_layer_period")) {
    return layer % step == config.integer({"expert_layer_offset"}, 0);
  }
  if (build.family.experts == Experts::deepseek || build.family.experts == Experts::glm) {
    return layer % step == 0;
  }
  return (layer + 1) % step == 0;
}

void add_feed_forward(Builder& build, int64_t layer) {
  const std::string path = build.layer_path(layer) + ".mlp";
  ActivationShape& activation = build.shape.activation;
  if (!is_mixture_layer(build, layer)) {
    int64_t intermediate = build.dims.intermediate;
    if (build.family.experts == Experts::llama4) {
      intermediate = build.config.integer({"intermediate_size_mlp"}, intermediate);
    }
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
  if (build.family.experts == Experts::gpt_oss) {
    activation.triton_experts = false;
    add_gpt_oss(build, path, mixture);
    return;
  }
  const int64_t element = build.options.element;
  switch (build.family.experts) {
    case Experts::deepseek:
      if (build.family.architecture == "Glm4MoeLiteForCausalLM") {
        add_router(build, mixture.experts, kFloat32, true);
        break;
      }
      add_router(build, mixture.experts, element,
                 build.config.text({"topk_method"}, "") == "noaux_tc");
      break;
    case Experts::glm:
      add_router(build, mixture.experts, kFloat32, true);
      break;
    case Experts::minimax:
      add_router(build, mixture.experts, kFloat32, true);
      break;
    case Experts::laguna:
      add_router(build, mixture.experts, element, true);
      break;
    default:
      add_router(build, mixture.experts, element, false);
      break;
  }
  add_routed(build, path, mixture);
  add_shared_expert(build, path, mixture);
}

}  // namespace plimsoll::plan
