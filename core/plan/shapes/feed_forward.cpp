// Feed-forward layers: dense, and mixtures of experts.
#include <algorithm>

#include "base/error.h"
#include "plan/shapes/builder.h"

namespace plimsoll::plan {
namespace {

/// What routes tokens to experts: held by every rank, seldom quantized.
void add_router(const Builder& build, const std::string& path, int64_t experts, int64_t element,
                bool bias) {
  if (build.family.quantized_router) {
    build.weights.linear(Part::experts,
                         {{path, "gate", {}}, build.dims.hidden, {experts}, Split::none});
  } else {
    build.weights.parameters(Part::experts, Amount{experts} * build.dims.hidden * element);
  }
  if (bias) build.weights.parameters(Part::experts, Amount{experts} * kFloat32);
}

void add_shared_expert(Builder& build, const std::string& path, const Mixture& mixture) {
  if (mixture.shared_intermediate <= 0) return;
  const bool one = build.family.experts == Experts::qwen ||
                   build.family.experts == Experts::laguna ||
                   build.family.experts == Experts::llama4;
  std::string name = path + (one ? ".shared_expert" : ".shared_experts");
  if (build.family.experts == Experts::granite) {  // beside the mixture, not in it
    name = path.substr(0, path.rfind('.')) + ".shared_mlp";
  }
  add_mlp(build, name, mixture.shared_intermediate, Part::mlp);
  if (build.family.experts == Experts::qwen) {
    build.weights.plain(Part::experts, build.dims.hidden);  // shared_expert_gate
  }
}

RankWeights::Experts routed_experts(const Builder& build, const std::string& path,
                                    const Mixture& mixture) {
  RankWeights::Experts experts{
      {path, "experts", {}}, mixture.experts, build.dims.hidden, mixture.intermediate};
  experts.bias = build.family.experts == Experts::gpt_oss;
  experts.up_matrices = build.family.gated ? 2 : 1;
  return experts;
}

/// What a kernel that wants an order of its own keeps beside one expert that was loaded: `slice` is
/// the rank's share of its width.
Amount reordered_bytes(const ExpertKernel& kernel, int64_t hidden, int64_t slice) {
  constexpr int64_t kGroup = 32, kTile = 64, kScaleRows = 256, kScaleColumns = 2;
  const auto padded = [&](int64_t size) {
    return kernel.padded_values ? round_up(size, kTile).value() : size;
  };
  Amount bytes = 0;
  const auto add = [&](int64_t outputs, int64_t inputs) {
    const Amount loaded = Amount{outputs} * (inputs / 2);
    bytes += Amount{padded(outputs)} * padded(inputs / 2) - loaded;
    bytes += round_up(outputs, kScaleRows) * round_up(inputs / kGroup, kScaleColumns);
    bytes += Amount{outputs} * (kFloat32 - 2);  // biases
  };
  add(2 * slice, hidden);
  add(hidden, slice);
  return bytes;
}

/// gpt-oss: a router with bias, and experts that are padded for their kernel where they are in
/// mxfp4.
void add_gpt_oss(Builder& build, const std::string& path, const Mixture& mixture) {
  RankWeights& weights = build.weights;
  weights.plain(Part::experts, Amount{mixture.experts} * (build.dims.hidden + 1));
  RankWeights::Experts experts = routed_experts(build, path, mixture);
  if (weights.quantization().experts(experts.name).format == WeightFormat::mxfp4) {
    const ExpertKernel& kernel = build.options.mxfp4;
    const bool whole = build.options.expert_parallel;  // each expert is
    const int64_t ranks = whole ? 1 : weights.ranks();
    const int64_t own = ceil_div(mixture.intermediate, ranks).value();
    const int64_t slice = round_up(own, kernel.intermediate_multiple).value();
    experts.intermediate = slice * ranks;
    experts.hidden = round_up(experts.hidden, kernel.hidden_multiple).value();
    if (kernel.reordered) {
      const Amount held = whole ? ceil_div(mixture.experts, weights.ranks()) : mixture.experts;
      build.shape.after_loading_bytes += held * reordered_bytes(kernel, experts.hidden, slice);
    }
  }
  weights.experts(experts);
}

}  // namespace

void add_mlp(Builder& build, const std::string& path, int64_t intermediate, Part part, bool bias) {
  const int64_t hidden = build.dims.hidden;
  RankWeights& weights = build.weights;
  const Split up = build.family.mlp_split ? Split::outputs : Split::none;
  const Split down = build.family.mlp_split ? Split::inputs : Split::none;
  if (build.family.gated && build.family.experts == Experts::laguna) {
    weights.linear(part, {{path, "gate_proj", {}}, hidden, {intermediate}, up, bias});
    weights.linear(part, {{path, "up_proj", {}}, hidden, {intermediate}, up, bias});
  } else if (build.family.gated) {
    weights.linear(part, {{path, "gate_up_proj", {"gate_proj", "up_proj"}},
                          hidden,
                          {intermediate, intermediate},
                          up,
                          bias && !build.family.plain_gate});
  } else {
    weights.linear(part, {{path, "up_proj", {}}, hidden, {intermediate}, up, bias});
  }
  const bool down_bias = bias || build.family.down_bias;
  weights.linear(part, {{path, "down_proj", {}}, intermediate, {hidden}, down, down_bias});
}

Mixture read_mixture(const Builder& build) {
  const ConfigView& config = build.config;
  Mixture mixture;
  constexpr Bounds kExperts{0, 1 << 20};
  // Hunyuan lists one number for each layer, all alike.
  const auto first = [&](Keys keys, int64_t fallback, Bounds bounds) {
    const std::vector<int64_t> listed = config.integers(keys);
    if (listed.size() < 2) return config.integer(keys, fallback, bounds);
    return std::clamp(listed.front(), bounds.least, bounds.most);
  };
  mixture.experts = config.integer({"num_experts", "num_local_experts", "n_routed_experts",
                                    "moe_num_experts", "num_moe_experts"},
                                   0, kExperts);
  mixture.per_token = first({"num_experts_per_tok", "num_experts_per_token", "moe_k",
                             "num_selected_experts", "moe_topk", "moe_top_k"},
                            1, kExperts);
  mixture.intermediate = first(
      {"moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim", "intermediate_size"},
      0, {});
  const int64_t count =
      config.integer({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
                     build.family.experts == Experts::sarvam ? 1 : 0, kExperts);
  mixture.shared_intermediate =
      config.integer({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                      "shared_intermediate_size", "share_expert_dim"},
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
    case Experts::bailing:
    case Experts::sarvam:
      mixture.shared_intermediate =
          count * config.integer({"moe_shared_expert_intermediate_size"}, mixture.intermediate);
      break;
    case Experts::minimax3:
      mixture.intermediate = config.required({"intermediate_size"});
      mixture.shared_intermediate = count * mixture.intermediate;
      break;
    case Experts::hunyuan:  // one width for experts and for what they share
      mixture.intermediate = config.required({"intermediate_size"});
      mixture.shared_intermediate = mixture.intermediate;
      break;
    case Experts::step:
      mixture.shared_intermediate = config.required({"share_expert_dim"});
      break;
    default:
      break;
  }
  if (config.has_child({"ffn_config"})) {  // DBRX
    const ConfigView nested = config.child({"ffn_config"});
    mixture.experts = nested.required({"moe_num_experts"}, kExperts);
    mixture.per_token = nested.integer({"moe_top_k"}, 1, kExperts);
    mixture.intermediate = nested.required({"ffn_hidden_size"});
  }
  return mixture;
}

namespace {

/// From one layer to another, each n-th.
bool is_ernie_mixture(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  constexpr Bounds kLayer{-1, 1 << 20};
  const int64_t interval = config.integer({"moe_layer_interval"}, 1, {1, 1 << 20});
  const int64_t first = config.integer({"moe_layer_start_index"}, 0, kLayer);
  const int64_t stated = config.integer({"moe_layer_end_index"}, -1, kLayer);
  const int64_t last = stated < 0 ? build.dims.layers - 1 : stated;
  return (layer + 1) % interval == 0 && layer >= first && layer <= last;
}

/// Listed in a text: "3,4,5"; else all but the first.
bool is_step_mixture(const Builder& build, int64_t layer) {
  if (!build.config.has("moe_layers_enum")) return layer > 0;
  const std::string listed = "," + build.config.text({"moe_layers_enum"}, "") + ",";
  return listed.find("," + std::to_string(layer) + ",") != std::string::npos;
}

}  // namespace

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
  const int64_t usual = build.family.experts == Experts::sarvam ? 1 : 0;
  if (layer < config.integer({"first_k_dense_replace", "num_dense_layers"}, usual)) return false;
  if (build.family.experts == Experts::ernie) return is_ernie_mixture(build, layer);
  if (build.family.experts == Experts::step || config.has("moe_layers_enum"))
    return is_step_mixture(build, layer);
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
  const std::string path = build.layer_path(layer) + "." + build.family.mlp_name;
  ActivationShape& activation = build.shape.activation;
  if (build.family.experts == Experts::paired) {
    add_paired_experts(build, layer, path);
    return;
  }
  if (!is_mixture_layer(build, layer)) {
    int64_t intermediate = build.dims.intermediate;
    if (build.family.experts == Experts::llama4) {
      intermediate = build.config.integer({"intermediate_size_mlp"}, intermediate);
    } else if (build.family.experts == Experts::minimax3) {
      intermediate = build.config.integer({"dense_intermediate_size"}, 0);
    } else if (build.family.experts == Experts::cohere) {
      intermediate = build.config.integer({"prefix_dense_intermediate_size"}, intermediate);
    }
    if (intermediate <= 0) {
      fail(ExitCode::checkpoint_unusable, "{}: \"intermediate_size\" is missing",
           build.config.path());
    }
    add_mlp(build, path, intermediate, Part::mlp, build.bias(build.family.mlp_bias));
    activation.intermediate =
        std::max(activation.intermediate,
                 build.family.mlp_split ? intermediate / build.weights.ranks() : intermediate);
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
      add_router(build, path, mixture.experts, element,
                 build.config.text({"topk_method"}, "") == "noaux_tc");
      break;
    case Experts::glm:
    case Experts::minimax:
    case Experts::ernie:
      add_router(build, path, mixture.experts, kFloat32, true);
      break;
    case Experts::minimax3:
      add_router(build, path, mixture.experts, kFloat32, build.bias(build.family.router_bias));
      break;
    case Experts::step:
      add_router(build, path, mixture.experts, kFloat32,
                 build.config.flag({"use_moe_router_bias"}, false));
      break;
    case Experts::bailing:
      add_router(
          build, path, mixture.experts,
          build.config.text({"router_dtype"}, build.family.float_router ? "fp32" : "") == "fp32"
              ? kFloat32
              : element,
          build.config.flag({"moe_router_enable_expert_bias"}, false));
      break;
    case Experts::longcat: {
      const int64_t idle = build.config.integer({"zero_expert_num"}, 0, {0, 1 << 20});
      add_router(build, path, mixture.experts + idle, kFloat32, true);
      break;
    }
    case Experts::laguna:
    case Experts::biased:
    case Experts::sarvam:
      add_router(build, path, mixture.experts, element, build.bias(build.family.router_bias));
      break;
    default:
      add_router(build, path, mixture.experts, element, false);
      break;
  }
  build.weights.experts(routed_experts(build, path, mixture));
  add_shared_expert(build, path, mixture);
}

}  // namespace plimsoll::plan
