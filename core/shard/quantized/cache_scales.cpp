#include "shard/quantized/cache_scales.h"

#include <algorithm>

namespace plimsoll::shard {
namespace {

using model::WeightSpec;

struct Parameter {
  std::string name;
  std::vector<std::string> stored;  // below the checkpoint's module: vLLM 0.32's scale mappers
  std::optional<DType> dtype;       // none: the model's
  std::vector<int64_t> shape;
  float absent = 0;
};

std::vector<std::string> names_of(const std::string& letter, bool with_projections) {
  std::vector<std::string> names = {"attn." + letter + "_scale", letter + "_scale"};
  if (!with_projections) return names;
  for (const std::string& module : {letter + "_proj", std::string("qkv_proj")}) {
    names.push_back(module + "." + letter + "_scale");
  }
  names.push_back(letter + "_cache.scale");
  if (letter == "k")
    names.emplace_back("kv_scale");  // of both; vLLM's attention takes it for v too
  return names;
}

/// vLLM's BaseKVCacheMethod; `output_scales`: the method looks for those of the projections too.
std::vector<Parameter> base_parameters(bool output_scales) {
  std::vector<Parameter> parameters;
  for (const std::string letter : {"q", "k", "v"}) {
    std::vector<std::string> names = names_of(letter, letter != "q");
    if (output_scales) names.push_back(letter + "_proj.output_scale");
    if (letter == "q") names.emplace_back("q.scale");
    parameters.push_back({letter + "_scale", std::move(names), std::nullopt, {}, -1});
  }
  std::vector<std::string> names = {"attn.prob_scale"};
  if (output_scales) names.emplace_back("prob_output_scale");
  parameters.push_back({"prob_scale", std::move(names), std::nullopt, {}, -1});
  return parameters;
}

std::vector<Parameter> compressed_parameters() {
  std::vector<Parameter> parameters;
  for (const std::string letter : {"k", "v", "q"}) {
    parameters.push_back({letter + "_scale", names_of(letter, letter != "q"), DType::f32, {1}, 1});
  }
  for (const std::string letter : {"k", "v", "q"}) {
    const std::string name = letter + "_zero_point";
    parameters.push_back({name, {"attn." + name, name}, std::nullopt, {1}, 0});
  }
  return parameters;
}

}  // namespace

void add_cache_scales(const std::string& method, const std::string& module,
                      const std::string& stored_module, const StoredTensors& stored,
                      std::vector<WeightSpec>& to) {
  const std::vector<Parameter> parameters =
      method == "compressed-tensors" ? compressed_parameters()
                                     : base_parameters(method == "fp8" || method == "quark");
  for (const Parameter& parameter : parameters) {
    WeightSpec weight{.name = module + ".attn." + parameter.name,
                      .shape = parameter.shape,
                      .use = model::WeightUse::vector,
                      .outputs = model::OutputAxis::none,
                      .dtype = parameter.dtype};
    const auto found = std::ranges::find_if(parameter.stored, [&](const std::string& name) {
      return stored.has(stored_module + "." + name);
    });
    if (found == parameter.stored.end()) {
      weight.constant = {parameter.absent};
    } else {
      const std::string tensor = stored_module + "." + *found;
      weight.parts = {{.tensor = tensor,
                       .stored_shape = stored.scalar_shape(tensor),
                       .block_rows = 1,
                       .block_stride = 1}};
    }
    to.push_back(std::move(weight));
  }
}

}  // namespace plimsoll::shard
