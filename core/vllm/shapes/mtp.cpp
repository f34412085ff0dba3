#include "vllm/shapes/mtp.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/families/family.h"
#include "vllm/shapes/described/described_model.h"
#include "vllm/shapes/rank_rules.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {
namespace {

/// What a kind of layers that predict has.
struct Predictor {
  const char* key;   // of the number of the layers
  int64_t usual;     // where the config does not say
  const char* path;  // of the layers in checkpoints; nullptr: they follow the model's own
  Split projection = Split::none;
  const char* without = nullptr;  // switch of the config that is off for these layers
  /// Part of the names of weights that mix residual streams behind the layers, as behind the
  /// model's own; empty: there are none.
  std::string_view mixer{};
  bool embeds_images = false;  // its class reads embeddings of images
  bool one_more = false;       // it is described as the layer after the model's last
  bool projects_each = false;  // embedding and hidden states by a quantized matrix each
  bool shares_choice = false;  // its buffer of chosen keys is the model's
};

std::optional<Predictor> find_predictor(std::string_view language) {
  const model::Family* row = model::find_architecture(language);
  switch (row == nullptr ? model::Predictors::none : row->predictors) {
    case model::Predictors::none:
      return std::nullopt;
    case model::Predictors::appended:
      return Predictor{"num_nextn_predict_layers", 0, nullptr};
    case model::Predictors::deepseek_v4:
      return Predictor{.key = "num_nextn_predict_layers",
                       .usual = 0,
                       .path = nullptr,
                       .mixer = "hc_head_",
                       .one_more = true,
                       .projects_each = true,
                       .shares_choice = true};
    case model::Predictors::glm5_next:
      return Predictor{"num_nextn_predict_layers", 0, nullptr, Split::none, "mhc"};
    case model::Predictors::qwen3_next:
      return Predictor{"num_nextn_predict_layers", 1, "mtp.layers.0", Split::outputs};
    case model::Predictors::qwen3_5:
      return Predictor{
          "mtp_num_hidden_layers", 0, "mtp.layers.0", Split::outputs, nullptr, "", true};
    case model::Predictors::qwen4_exp:
      return Predictor{"mtp_num_hidden_layers", 1,       "mtp.layers.0",
                       Split::outputs,          nullptr, ".hyper_connection_mixer."};
  }
  return std::nullopt;
}

std::optional<Predictor> find_predictor(const ConfigView& config) {
  return find_predictor(language_architecture(config, architecture_name(config)));
}

int64_t layers_of(const Predictor& row, const ConfigView& config) {
  constexpr Bounds kLayers{0, 64};
  return text_config(config).integer({row.key}, row.usual, kLayers);
}

/// Number of the model's last layer with attention.
int64_t last_attention(const model::ModelSpec& spec) {
  for (size_t i = spec.layers.size(); i-- > 0;) {
    if (spec.layers[i].has_attention()) return static_cast<int64_t>(i);
  }
  fail(ExitCode::checkpoint_unusable, "no layer has attention, and a layer that predicts has");
}

/// Takes out what classes hold on every stage beside their layers, and the rotary table: all of it
/// is the model's own.
void take_out(const DescribedModel& model, model::StageOfMany stage, int64_t times,
              Builder& build) {
  RankWeights outside(build.weights.ranks(), build.weights.element(), build.weights.quantization());
  ModelShape unused;
  Builder apart{build.whole, build.config, build.options, outside, unused, build.dims};
  stage.layers.end = stage.layers.first;
  count_table(model, stage, apart);
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    const auto part = static_cast<Part>(i);
    build.weights.parameters(part, Amount{0} - outside.part_bytes(part) * times);
  }
  build.weights.buffer(Amount{0} - build.weights.buffer_bytes());
}

/// A mixer of residual streams like the one behind the model's own layers, and the norm of hidden
/// states that are streams.
void mix_streams(const model::ModelSpec& spec, std::string_view mixer, Builder& build) {
  for (const model::WeightSpec& weight : spec.weights) {
    if (weight.name.find(mixer) == std::string::npos) continue;
    if (weight.dtype == DType::f32) {
      build.weights.parameters(Part::mlp, Amount{weight.elements()} * kFloat32);
      continue;
    }
    const bool norm = weight.shape.size() == 1;
    if (norm) build.norm(weight.shape[0] - build.dims.hidden);  // build_mtp counts one stream's
    build.weights.plain(norm ? Part::norm : Part::mlp, weight.elements());
  }
}

/// Projections of embedding and hidden states: one of both, or one of each.
void project(const Predictor& row, Builder& build) {
  const int64_t hidden = build.dims.hidden;
  if (!row.projects_each) {
    Linear both{{"mtp", "fc", {}}, 2 * hidden, {hidden}, row.projection};
    both.quantized = row.projection == Split::outputs;
    return build.weights.linear(Part::mlp, both);
  }
  for (const char* name : {"e_proj", "h_proj"})
    build.weights.linear(Part::mlp, Linear{{"mtp", name, {}}, hidden, {hidden}, Split::none});
}

}  // namespace

bool has_mtp(const ConfigView& config) {
  const std::optional<Predictor> row = find_predictor(config);
  return row && layers_of(*row, config) > 0;
}

bool leaves_mtp_whole(const ConfigView& config, const Quantization& quantization) {
  const std::optional<Predictor> row = find_predictor(config);
  if (!row || quantization.method().empty()) return false;
  const std::string path =
      row->path != nullptr
          ? row->path
          : fmt::format("layers.{}", text_config(config).integer({"num_hidden_layers"}, 0));
  const auto plain = [](const quantization::WeightScheme& scheme) {
    return scheme.format == WeightFormat::plain;
  };
  return plain(quantization.linear({path + ".mlp", "down_proj", {}})) &&
         plain(quantization.experts({path + ".mlp", "experts", {}}));
}

ModelShape build_mtp(const ConfigView& config, const ShapeOptions& options, RankWeights& weights) {
  const std::string name = architecture_name(config);
  const std::string language(language_architecture(config, name));
  const Predictor row = find_predictor(language).value();
  nlohmann::json described = wrapped_text(config, name);
  if (row.without != nullptr) described[row.without] = false;
  if (row.one_more)
    described["num_hidden_layers"] = described["num_hidden_layers"].get<int64_t>() + 1;
  const DescribedModel model(*model::describe_language_model(language, described));
  const ConfigView text = text_config(config);
  ModelShape shape;
  shape.architecture = name;
  Builder build{config, text, options, weights, shape, dims_of(model.spec)};
  const int64_t hidden = build.dims.hidden;
  const int64_t last = last_attention(model.spec);
  const model::StageOfMany layer{
      .layers = {last, last + 1}, .first = false, .last = false, .has_head = false};
  set_rules(options, name, weights);
  const int64_t layers = layers_of(row, config);
  for (int64_t i = 0; i < layers; ++i) {
    add_layers(model, layer, build);
    count_table(model, layer, build);
    // Norms of embedding, hidden states and output.
    build.norm(row.mixer.empty() || row.projects_each ? 3 * hidden : 2 * hidden);
    project(row, build);
  }
  if (!row.mixer.empty()) mix_streams(model.spec, row.mixer, build);
  const int64_t streams = model.spec.vllm.predicted_streams;
  shape.draft = {.hidden = Amount{hidden} * streams,
                 .handed = Amount{streams > 1 ? hidden : 0} * streams,
                 .embeds_images = row.embeds_images};
  take_out(model, layer, layers, build);
  if (row.shares_choice) shape.choice = {};
  return shape;
}

}  // namespace plimsoll::vllm
