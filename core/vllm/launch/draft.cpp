#include "vllm/launch/draft.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "vllm/launch/quantization.h"
#include "vllm/shapes/mtp.h"

namespace plimsoll::vllm {
namespace {

/// The method that vLLM chooses: by a draft model's name, where none is given. "deepseek_mtp" and
/// its like are older names of "mtp".
std::string method_of(const EngineArgs& args) {
  if (args.draft_method.ends_with("mtp")) return "mtp";
  if (args.draft_method != "draft_model") return args.draft_method;
  const std::string name = lower_case(args.draft_model);
  if (name.find("eagle-") != std::string::npos) return "eagle";
  return name.find("eagle3") != std::string::npos ? "eagle3" : "draft_model";
}

ConfigView config_of(const EngineArgs& args) {
  return {*args.draft_config, args.draft_model};
}

/// Adds what was counted of a draft to the stage.
void join(Stage& last, const RankWeights& weights, const ModelShape& shape, const std::string& what,
          const char* source) {
  last.parameters += weights.parameter_bytes();
  last.apart += weights.parameter_bytes();
  last.buffers += weights.buffer_bytes();
  last.slack += weights.slack_bytes();
  last.shape.kv_layers.insert(last.shape.kv_layers.end(), shape.kv_layers.begin(),
                              shape.kv_layers.end());
  last.shape.choice.token_bytes += shape.choice.token_bytes;
  last.shape.choice.copies += shape.choice.copies;
  last.shape.draft = shape.draft;
  last.parts.push_back({"weights: draft model",
                        (weights.parameter_bytes() + weights.buffer_bytes()).value(),
                        what + ", this rank's share", source});
}

/// vllm/config/speculative.py, before 0.11 vllm/config.py.
void check_draft_model(const EngineArgs& args) {
  constexpr VllmVersion kRefused{0, 10, 0}, kRuns{0, 15, 0};
  if (args.version < kRefused || args.version >= kRuns) return;
  fail(ExitCode::usage,
       "Speculative decoding with draft model is not supported yet. Please consider using other "
       "speculative decoding methods such as ngram, medusa, eagle, or {}. vLLM 0.15.0 has it.",
       args.version < VllmVersion{0, 11, 0} ? "deepseek_mtp" : "mtp");
}

}  // namespace

bool counts_draft(const ConfigView& config, const EngineArgs& args) {
  const std::string method = method_of(args);
  if (method == "mtp") return has_mtp(config);
  if (args.draft_config == nullptr) return false;
  if (method == "draft_model") return is_known_architecture(config_of(args));
  return (method == "eagle" || method == "eagle3") && is_draft_head(config_of(args));
}

void add_draft(Stage& last, const EngineArgs& args, ShapeOptions options,
               const DraftedModel& target) {
  if (!counts_draft(target.config, args)) return;
  options.pipeline_parallel = 1;
  options.pipeline_rank = 0;
  options.pipeline_partition.clear();
  options.lora_slots = 0;
  const std::string method = method_of(args);
  if (method == "mtp") {
    const bool whole = leaves_mtp_whole(target.config, target.quantization);
    const Quantization quantization = whole ? Quantization() : target.quantization;
    RankWeights weights(options.tensor_parallel, options.element, quantization);
    const ModelShape shape = build_mtp(target.config, options, weights);
    return join(last, weights, shape, "layers of the model itself (mtp)", "config.json");
  }
  if (method == "draft_model") check_draft_model(args);
  const ConfigView config = config_of(args);
  EngineArgs own = args;
  own.quantization.clear();  // --quantization is for the target model
  const Quantization quantization = quantization_of(config, own);
  RankWeights weights(options.tensor_parallel, options.element, quantization);
  const DraftTarget head{last.shape.vocabulary, target.max_model_len};
  ModelShape shape = method == "draft_model"
                         ? build_shape(config, options, weights)
                         : build_draft_head(config, method == "eagle3", head, options, weights);
  shape.draft.hidden = text_config(config).integer({"hidden_size"}, 0);
  join(last, weights, shape, fmt::format("{} ({})", args.draft_model, method),
       "the draft's config.json");
}

std::string draft_note(const ConfigView& config, const EngineArgs& args) {
  if (args.draft_method.empty()) return "";
  const std::string method = method_of(args);
  if (method.starts_with("ngram") || method == "suffix") return "";
  if (!counts_draft(config, args))
    return fmt::format("not counted: weights and KV cache of the draft model ({})", method);
  const bool head = method.starts_with("eagle");
  return fmt::format(
      "weights and KV cache of the draft model ({}) are counted, its activations and graphs are "
      "not{}",
      method,
      head ? "; its embedding is taken for the model's own, as where the checkpoint has none" : "");
}

}  // namespace plimsoll::vllm
