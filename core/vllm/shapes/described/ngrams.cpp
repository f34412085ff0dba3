// Embeddings of n-grams: a rank's part of a layer's table, where it lies, what is looked up from it
// beforehand, and the state of the convolution behind it (vllm/models/qwen4_exp).
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

/// Bytes of elements of an embedding, by `ple_embedding_dtype`, else by the checkpoint's
/// quantization, which in fp8 may name the embedding or its pieces as plain
/// (vllm/models/qwen4_exp/common/ngram_embedding.py: from_quant_config).
Amount embedding_bytes(Amount elements, const std::string& module, const Builder& build) {
  constexpr int64_t kGroup = 16;  // of NVFP4, with a scale of a byte
  const std::string type = build.config.text({"ple_embedding_dtype"}, "");
  const Quantization& quantization = build.weights.quantization();
  const auto format = [&](const ModuleName& name) { return quantization.linear(name).format; };
  const quantization::WeightFormat own = format({module, "ngram_embedding", {}});
  const bool mixed = quantization.method().starts_with("modelopt");
  if (type == "nvfp4" || (mixed && own == quantization::WeightFormat::nvfp4)) {
    return elements / 2 + elements / kGroup;
  }
  const bool stored =
      quantization.method() == "fp8" && !quantization.is_online() &&
      format({module + ".ngram_embedding", "shard_0", {}}) != quantization::WeightFormat::plain;
  const bool fp8 = (stored || mixed) && own == quantization::WeightFormat::fp8;
  return elements * (type == "float8_e4m3fn" || fp8 ? 1 : build.options.element);
}

}  // namespace

void add_ngrams(const model::ModelSpec& spec, const model::NgramSpec& ngrams, int64_t layer,
                Builder& build) {
  const ShapeOptions& options = build.options;
  if (options.pipeline_parallel > 1) {
    fail(ExitCode::usage,
         "N-gram PLE embedding requires pipeline_parallel_size=1 because non-first pipeline ranks "
         "do not receive the raw input_ids it needs. Leave --pipeline-parallel-size out.");
  }
  constexpr int64_t kNumber = 8;
  build.weights.buffer(Amount{ngrams.numbers} * kNumber);
  add_ngram_state(spec, ngrams, build);
  const Amount rows = ceil_div(build.weights.share(ngrams.rows, "the rows of a table of n-grams"),
                               options.ngram_replicas);
  const std::string module = fmt::format("layers.{}.ple.ple_embedding", layer);
  const Amount bytes = embedding_bytes(rows * ngrams.width, module, build);
  if (!options.ngrams_on_host) return build.weights.parameters(Part::embedding, bytes);
  build.shape.host_table_bytes += bytes;
  // Rows for the tokens of all replicas that divide the table; those of NVFP4 in the model's dtype.
  const Amount stored = embedding_bytes(ngrams.inputs, module, build);
  const bool fp4 = stored < Amount{ngrams.inputs};
  build.shape.looked_up_bytes +=
      (fp4 ? Amount{ngrams.inputs} * options.element : stored) * options.ngram_replicas;
}

}  // namespace plimsoll::vllm
