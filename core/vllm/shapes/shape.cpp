// Makes a model's shape from its config, by the config's row of the family table.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/families/multimodal/languages.h"
#include "model/pipeline.h"
#include "vllm/shapes/adapters.h"
#include "vllm/shapes/builder.h"
#include "vllm/shapes/described/described_model.h"
#include "vllm/shapes/rank_rules.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {

namespace {

constexpr model::VllmVersion kNoExpertOrder{0, 30, 0};
constexpr model::VllmVersion kPadsPlainExperts{0, 31, 0};  // on Blackwell
constexpr model::VllmVersion kAdaptsExperts{0, 11, 1};
constexpr model::VllmVersion kCountsPositions{0, 32, 0};  // before: tables enlarged for videos

bool has_experts(const ConfigView& config) {
  constexpr Bounds kCounts{0, 1 << 20};
  return config.integer({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
                         "num_routed_experts", "n_experts"},
                        0, kCounts) > 0;
}

bool is_decoder(const ConfigView& text) {
  return text.has("num_hidden_layers") && text.has("hidden_size") &&
         text.has("num_attention_heads") && text.has("vocab_size") &&
         (text.has("intermediate_size") || text.has("moe_intermediate_size"));
}

/// Key of a config for layers which no kin of an unknown architecture counts; empty: none.
std::string uncounted_key(const ConfigView& text) {
  for (const std::string& type : text.texts({"layer_types"})) {
    if (type.find("attention") == std::string::npos || type.find("linear") != std::string::npos)
      return fmt::format("layer_types: \"{}\"", type);
  }
  for (const auto& [key, value] : text.json().items()) {
    const bool number = value.is_number_integer() && value > 1;
    const bool experts = key.find("expert") != std::string::npos && !has_experts(text);
    const bool states = key.starts_with("mamba_") || key.starts_with("ssm_") ||
                        key.starts_with("linear_num_") || key == "state_size";
    if (number && (experts || states)) return key;
  }
  return "";
}

/// Advice plans a model dozens of times, pipelines stage by stage: the last description is kept.
const DescribedModel& described(std::string_view family, nlohmann::json config) {
  struct Kept {
    std::string family;
    nlohmann::json config;
    std::unique_ptr<const DescribedModel> model;
  };
  thread_local Kept kept;
  if (kept.model == nullptr || kept.family != family || kept.config != config) {
    kept.model =
        std::make_unique<const DescribedModel>(*model::describe_language_model(family, config));
    kept.family = family;
    kept.config = std::move(config);
  }
  return *kept.model;
}

/// The sizes of the whole model.
void fill_sizes(Builder& build) {
  ModelShape& shape = build.shape;
  shape.hidden = shape.activation.hidden = build.dims.hidden;
  shape.vocabulary = shape.activation.vocabulary = build.dims.vocabulary;
  shape.heads = build.dims.heads;
  shape.kv_heads = build.dims.kv_heads;
}

/// A model of a family of core/model.
void build_described(Builder& build, std::string_view family) {
  const DescribedModel& model =
      model::naming_config(build.whole.path(), [&]() -> const DescribedModel& {
        return described(family, wrapped_text(build.whole, build.shape.architecture));
      });
  const model::ModelSpec& spec = model.spec;
  const ShapeOptions& options = build.options;
  build.dims = dims_of(spec);
  build.shape.attention_free = spec.vllm.attention_free;
  build.shape.encoder =
      model::find_architecture(family)->transformer == model::Transformer::encoder;
  build.shape.pools = build.shape.encoder || options.pools;
  fill_sizes(build);
  model::StageOfMany stage{
      .layers = model::layers_of_stage(build.dims.layers, options.pipeline_rank,
                                       options.pipeline_parallel, options.pipeline_partition),
      .first = options.pipeline_rank == 0,
      .last = options.pipeline_rank + 1 == options.pipeline_parallel};
  build.shape.first_layer = stage.layers.first;
  build.shape.stage_layers = stage.layers.end - stage.layers.first;
  // Qwen3.5's language model alone has positions of one kind in every release.
  const bool wrapped = find_wrapper(build.shape.architecture) != nullptr;
  build.counted_positions |=
      spec.vllm.counted_positions && (!wrapped || options.version >= kCountsPositions);
  add_layers(model, stage, build);
  stage.has_head = !add_pooling_head(build);  // what stands for a head is on every stage
  count_table(model, stage, build);
}

}  // namespace

void set_rules(const ShapeOptions& options, const std::string& architecture, RankWeights& weights) {
  weights.set_expert_parallel(options.expert_parallel);
  weights.set_data_parallel(options.data_parallel);
  weights.set_refined_blocks(options.refined_blocks);
  weights.set_expert_order(options.version < kNoExpertOrder);
  if (options.card == hardware::Architecture::blackwell && options.version >= kPadsPlainExperts) {
    constexpr int64_t kTensorRtMultiple = 128;
    weights.set_plain_expert_multiple(kTensorRtMultiple);
  }
  weights.set_lora(options.lora_slots, options.lora_rank);
  using enum RankWeights::ExpertAdapters;
  weights.set_expert_adapters(options.version < kAdaptsExperts                      ? none
                              : adapts_experts_fused(architecture, options.version) ? fused
                                                                                    : apart);
}

ModelShape build_shape(const ConfigView& config, const ShapeOptions& options,
                       RankWeights& weights) {
  ModelShape shape;
  shape.architecture = architecture_name(config);
  const ConfigView text = text_config(config);
  std::string language = language_architecture(config, shape.architecture);
  if (!is_language_model(language)) {
    if (shape.architecture.empty() && !config.has("model_type")) {
      fail(ExitCode::checkpoint_unusable,
           "{}: names neither \"architectures\" nor \"model_type\", by which loaders choose the "
           "model's class",
           config.path());
    }
    if (!is_decoder(text)) {
      fail(ExitCode::checkpoint_unusable,
           "{}: the architecture \"{}\" is not known, and the config does not describe a decoder "
           "(hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size)",
           config.path(), shape.architecture.empty() ? "(none named)" : shape.architecture);
    }
    const model::Kin kin = model::nearest_kin(text, has_experts(text));
    language = kin.architecture;
    shape.estimated = true;
    shape.note = fmt::format("unknown architecture, read as {}", kin.words);
    shape.uncounted = uncounted_key(text);
  }
  set_rules(options, shape.architecture, weights);
  constexpr int64_t kUsualChunk = 2048;
  shape.state_chunk = text.integer({"mamba_chunk_size", "chunk_size"}, kUsualChunk, {1, 1 << 20});
  shape.activation.int8_activations = weights.quantization().int8_activations();
  Builder build{config, text, options, weights, shape};
  const Wrapper* wrapper = find_wrapper(shape.architecture);
  build.counted_positions =
      wrapper != nullptr && wrapper->counted_positions && options.version >= kCountsPositions;
  build_described(build, language);
  adapt_vocabulary(language, build);
  shape.multimodal = add_towers(config, shape.architecture, build);  // on every stage
  if (has_unknown_tower(config, shape.architecture)) {
    shape.estimated = true;
    if (!shape.note.empty()) shape.note += "; ";
    shape.note += "the encoder of " + shape.architecture +
                  " is not known: its weights and memory are not in the plan";
  }
  return shape;
}

}  // namespace plimsoll::vllm
