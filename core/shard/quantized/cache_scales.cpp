#include "shard/quantized/cache_scales.h"

#include <algorithm>

#include "quantization/layer_parameters.h"

namespace plimsoll::shard {
namespace {

using model::WeightSpec;
using quantization::Holds;
using quantization::LayerParameter;

/// Names below the checkpoint's module that vLLM 0.32's mappers give to a parameter.
std::vector<std::string> stored_names(const std::string& parameter, const std::string& method) {
  const bool output_scales = method == "fp8" || method == "quark";  // those of the projections too
  std::vector<std::string> names = {"attn." + parameter};
  if (parameter == "prob_scale") {
    if (output_scales) names.emplace_back("prob_output_scale");
    return names;
  }
  names.push_back(parameter);
  if (!parameter.ends_with("_scale")) return names;
  const std::string letter = parameter.substr(0, 1);
  if (letter != "q") {
    for (const std::string& module : {letter + "_proj.", std::string("qkv_proj.")}) {
      names.push_back(module + parameter);
    }
    names.push_back(letter + "_cache.scale");
  }
  if (letter == "k")
    names.emplace_back("kv_scale");  // of both; vLLM's attention takes it for v too
  if (output_scales) names.push_back(letter + "_proj.output_scale");
  if (letter == "q" && method != "compressed-tensors") names.emplace_back("q.scale");
  return names;
}

}  // namespace

void add_cache_scales(const std::string& method, const std::string& module,
                      const std::string& stored_module, const StoredTensors& stored,
                      std::vector<WeightSpec>& to) {
  const bool compressed = method == "compressed-tensors";
  const std::string beside = stored_module + ".";
  for (const LayerParameter& parameter : quantization::attention_parameters(method)) {
    WeightSpec weight{.name = module + ".attn." + parameter.name,
                      .shape = std::vector<int64_t>(compressed ? 1 : 0, 1),
                      .use = model::WeightUse::vector,
                      .outputs = model::OutputAxis::none,
                      .dtype = parameter.dtype};
    const std::vector<std::string> names = stored_names(parameter.name, method);
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return stored.has(beside + name); });
    if (found == names.end()) {
      const float of_compressed = parameter.holds == Holds::zeros ? 0 : 1;
      weight.constant = {compressed ? of_compressed : -1};
    } else {
      const std::string tensor = beside + *found;
      weight.parts = {{.tensor = tensor,
                       .stored_shape = stored.scalar_shape(tensor),
                       .block_rows = 1,
                       .block_stride = 1}};
    }
    to.push_back(std::move(weight));
  }
}

}  // namespace plimsoll::shard
