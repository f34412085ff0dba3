// ERNIE-4.5-VL's layers: experts for text beside experts for images, each from one layer to
// another, and experts that both share (vllm/model_executor/models/ernie45_vl_moe.py).
#include <algorithm>
#include <array>

#include "base/error.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

using Pair = std::array<int64_t, 2>;  // of text, and of images

Pair read_pair(const Builder& build, const char* key, Pair usual) {
  const std::vector<int64_t> listed = build.config.integers({key});
  if (listed.empty()) return usual;
  static constexpr int64_t kMost = 1 << 24;
  const auto bounded = [](int64_t value) { return std::clamp<int64_t>(value, 0, kMost); };
  return {bounded(listed.front()), bounded(listed.back())};
}

}  // namespace

void add_paired_experts(Builder& build, int64_t layer, const std::string& path) {
  const int64_t end = build.dims.layers - 1;
  const Pair experts = read_pair(build, "moe_num_experts", {0, 0});
  const Pair first = read_pair(build, "moe_layer_start_index", {0, 0});
  const Pair last = read_pair(build, "moe_layer_end_index", {end, end});
  const Pair widths = read_pair(build, "moe_intermediate_size", {0, 0});
  const int64_t interval = build.config.integer({"moe_layer_interval"}, 1, {1, 1 << 20});
  const bool bias = build.bias(build.family.mlp_bias);
  const bool mixed = std::max(experts[0], experts[1]) > 0 && (layer + 1) % interval == 0 &&
                     layer >= std::min(first[0], first[1]) && layer <= std::max(last[0], last[1]);
  ActivationShape& activation = build.shape.activation;
  activation.intermediate = build.dims.intermediate / build.weights.ranks();
  if (!mixed) {
    add_mlp(build, path, build.dims.intermediate, Part::mlp, bias);
    return;
  }
  build.shape.mixture = true;
  activation.expert_intermediate = std::max(widths[0], widths[1]);
  activation.experts_per_token = build.config.integer({"moe_k"}, 2, {1, 1 << 20});
  RankWeights& weights = build.weights;
  weights.parameters(Part::experts, Amount{2} * experts[0] * kFloat32);  // correction biases
  const int64_t shared = build.config.integer({"moe_num_shared_experts"}, 0, {0, 1 << 20});
  if (shared > 0) add_mlp(build, path + ".shared_experts", widths[0] * shared, Part::mlp);
  constexpr std::array<const char*, 2> kNames = {"text_experts", "vision_experts"};
  for (size_t kind = 0; kind < kNames.size(); ++kind) {
    if (layer < first[kind] || layer > last[kind]) {
      add_mlp(build, path + ".mlp", build.dims.intermediate, Part::mlp, bias);
      continue;
    }
    weights.parameters(Part::experts, Amount{experts[kind]} * build.dims.hidden * kFloat32);
    weights.experts({{path, kNames[kind], {}}, experts[kind], build.dims.hidden, widths[kind]});
  }
}

}  // namespace plimsoll::vllm
