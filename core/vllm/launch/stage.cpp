#include "vllm/launch/stage.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kQuantizesByLayer{0, 17, 0};  // before: the whole model, then each layer

/// The most that the rank's parameters take on the card while they are loaded: beside those of a
/// quantized checkpoint one module that is brought into the kernel's order; of those that are
/// quantized online a layer, or in older releases all, in the model's own type.
Amount loading_peak(const ConfigView& config, const ShapeOptions& options,
                    const Quantization& quantization, const RankWeights& weights) {
  const Amount own = weights.parameter_bytes();
  if (quantization.method().empty()) return own;
  if (!quantization.is_online()) return own + weights.largest_matrix_bytes();
  const Quantization none;
  RankWeights whole(options.tensor_parallel, options.element, none);
  const ModelShape shape = build_shape(config, options, whole);
  const Amount layers = whole.parameter_bytes() - whole.part_bytes(Part::embedding) -
                        whole.part_bytes(Part::lm_head) - whole.part_bytes(Part::vision);
  if (options.version >= kQuantizesByLayer)
    return own + ceil_div(layers, std::max<int64_t>(shape.stage_layers, 1));
  return whole.parameter_bytes() + weights.largest_matrix_bytes();
}

Stage build_stage(const ConfigView& config, const ShapeOptions& options,
                  const Quantization& quantization) {
  RankWeights weights(options.tensor_parallel, options.element, quantization);
  Stage stage;
  stage.shape = build_shape(config, options, weights);
  stage.parameters = weights.parameter_bytes();
  stage.loading = loading_peak(config, options, quantization, weights);
  stage.adapters = weights.lora_bytes();
  stage.buffers = weights.buffer_bytes();
  stage.slack = weights.slack_bytes();
  stage.embeddings = weights.part_bytes(Part::embedding);
  for (const Part part : {Part::embedding, Part::vision, Part::lm_head})
    stage.apart += weights.part_bytes(part);
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    const Amount bytes = weights.part_bytes(static_cast<Part>(i));
    if (bytes == Amount{0}) continue;
    stage.parts.push_back(
        {fmt::format("weights: {}", kPartNames[i]), bytes.value(),
         fmt::format("this rank's share at tensor parallel size {}", options.tensor_parallel),
         "config.json"});
  }
  stage.parts.push_back({"weights: buffers", stage.buffers.value(),
                         "rotary tables and scales, whole on every rank", "config.json"});
  return stage;
}

}  // namespace

std::vector<Stage> build_stages(const ConfigView& config, ShapeOptions options,
                                const Quantization& quantization) {
  std::vector<Stage> stages;
  for (int64_t rank = 0; rank < options.pipeline_parallel; ++rank) {
    options.pipeline_rank = rank;
    stages.push_back(build_stage(config, options, quantization));
    stages.back().first = rank == 0;
    stages.back().last = rank + 1 == options.pipeline_parallel;
  }
  return stages;
}

ModelShape whole_shape(const std::vector<Stage>& stages) {
  ModelShape whole = stages.front().shape;
  for (size_t i = 1; i < stages.size(); ++i) {
    const ModelShape& shape = stages[i].shape;
    whole.kv_layers.insert(whole.kv_layers.end(), shape.kv_layers.begin(), shape.kv_layers.end());
    if (shape.kernel > whole.kernel) whole.latent = shape.latent;
    whole.kernel = std::max(whole.kernel, shape.kernel);
    whole.attention_token_bytes =
        std::max(whole.attention_token_bytes, shape.attention_token_bytes);
    whole.mixture |= shape.mixture;
    whole.recurrent |= shape.recurrent;
    whole.flashinfer &= shape.flashinfer;
    whole.packs_pages |= shape.packs_pages;
    whole.block_multiple = std::max(whole.block_multiple, shape.block_multiple);
    whole.host_table_bytes += shape.host_table_bytes;
  }
  return whole;
}

void weigh_by_headers(Stage& stage, const EngineArgs& args, int64_t element) {
  if (!stage.shape.estimated || !args.tensors) return;
  const int64_t ranks = args.tensor_parallel * args.pipeline_parallel;
  const Amount bytes = Amount{args.tensors->float_elements} * element + args.tensors->other_bytes;
  stage.parameters = ceil_div(bytes, ranks);
  stage.apart = std::min(stage.apart, stage.parameters);
  stage.parts = {
      {"weights: by the checkpoint's headers", stage.parameters.value(),
       fmt::format("({} elements x {} B + {} B) / {} ranks", args.tensors->float_elements, element,
                   args.tensors->other_bytes, ranks),
       "headers of the safetensors files"},
      {"weights: buffers", stage.buffers.value(), "as a Llama-like decoder", "config.json"}};
  stage.shape.note += "; weights are taken from the checkpoint's headers";
}

}  // namespace plimsoll::vllm
