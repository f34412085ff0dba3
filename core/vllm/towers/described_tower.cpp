#include "vllm/towers/described_tower.h"

#include "model/vllm/rank_rows.h"
#include "quantization/weight_modules.h"

namespace plimsoll::vllm {
namespace {

using model::WeightSpec;

void count(const WeightSpec& weight, RankWeights& weights) {
  const bool keeps_whole = weight.uneven_heads == model::UnevenHeads::replicated;
  const bool whole = weight.split == model::Split::replicated ||
                     (keeps_whole && weight.heads % weights.ranks() != 0);
  if (weight.heads > 0 && !whole) {
    static_cast<void>(
        weights.share(weight.heads, "the number of the vision tower's attention heads"));
  }
  const bool inputs = weight.split == model::Split::row;
  if (weight.is_vector() || weight.split == model::Split::vocabulary) {
    const Shares shares{weights, weight.name.c_str()};
    const model::Split split = whole ? model::Split::replicated : weight.split;
    const int64_t rows = rows_on_rank(weight, split, weight.heads, shares);
    return weights.plain(Part::vision, Amount{rows} * weight.columns());
  }
  Linear linear{.name = quantization::module_of_weight(weight),
                .inputs = weight.columns(),
                .outputs = {},
                .split = whole ? Split::none : (inputs ? Split::inputs : Split::outputs)};
  for (const model::Part& part : weight.parts) linear.outputs.push_back(part.rows());
  weights.linear(Part::vision, linear);
}

}  // namespace

void add_described_tower(const std::vector<WeightSpec>& table, TowerShape sizes, Builder& build) {
  for (const WeightSpec& weight : table) count(weight, build.weights);
  sizes.intermediate /= build.weights.ranks();
  build.shape.vision.tower = sizes;
}

}  // namespace plimsoll::vllm
