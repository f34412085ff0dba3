#include "vllm/launch/draft.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/json.h"
#include "vllm/launch/quantization.h"

namespace plimsoll::vllm {
namespace {

/// The method that vLLM chooses: by a draft model's name, where none is given.
std::string method_of(const EngineArgs& args) {
  if (args.draft_method != "draft_model") return args.draft_method;
  std::string name = args.draft_model;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (name.find("eagle-") != std::string::npos) return "eagle";
  return name.find("eagle3") != std::string::npos ? "eagle3" : "draft_model";
}

ConfigView config_of(const EngineArgs& args) {
  return {*args.draft_config, args.draft_model};
}

}  // namespace

bool counts_draft(const EngineArgs& args) {
  if (args.draft_config == nullptr) return false;
  const std::string method = method_of(args);
  if (method == "draft_model") return is_known_architecture(config_of(args));
  return (method == "eagle" || method == "eagle3") && is_draft_head(config_of(args));
}

void add_draft(Stage& last, const EngineArgs& args, ShapeOptions options, int64_t max_model_len) {
  if (!counts_draft(args)) return;
  const ConfigView config = config_of(args);
  options.pipeline_parallel = 1;
  options.pipeline_rank = 0;
  options.pipeline_partition.clear();
  options.lora_slots = 0;
  EngineArgs own = args;
  own.quantization.clear();  // --quantization is for the target model
  const Quantization quantization = quantization_of(config, own);
  RankWeights weights(options.tensor_parallel, options.element, quantization);
  const std::string method = method_of(args);
  const DraftTarget target{last.shape.vocabulary, max_model_len};
  const ModelShape shape = method == "draft_model" ? build_shape(config, options, weights)
                                                   : build_draft_head(config, method == "eagle3",
                                                                      target, options, weights);
  last.parameters += weights.parameter_bytes();
  last.apart += weights.parameter_bytes();
  last.buffers += weights.buffer_bytes();
  last.shape.kv_layers.insert(last.shape.kv_layers.end(), shape.kv_layers.begin(),
                              shape.kv_layers.end());
  last.parts.push_back({"weights: draft model",
                        (weights.parameter_bytes() + weights.buffer_bytes()).value(),
                        fmt::format("{} ({}), this rank's share", args.draft_model, method),
                        "the draft's config.json"});
}

std::string draft_note(const EngineArgs& args) {
  if (args.draft_method.empty()) return "";
  const std::string method = method_of(args);
  if (method.starts_with("ngram") || method == "suffix") return "";
  if (!counts_draft(args))
    return fmt::format("not counted: weights and KV cache of the draft model ({})", method);
  const bool head = method != "draft_model";
  return fmt::format(
      "weights and KV cache of the draft model ({}) are counted, its activations and graphs are "
      "not{}",
      method,
      head ? "; its embedding is taken for the model's own, as where the checkpoint has none" : "");
}

}  // namespace plimsoll::vllm
