// Counts a stage's rank of vLLM for a model that core/model describes: its weight table, and what
// stands beside the table. Internal to this folder.
#pragma once

#include <vector>

#include "model/model_spec.h"
#include "model/stage_weights.h"
#include "vllm/shapes/builder.h"
#include "vllm/shapes/described/roles.h"

namespace plimsoll::vllm {

/// A description and where its weights belong.
struct DescribedModel {
  explicit DescribedModel(model::ModelSpec described);
  DescribedModel(const DescribedModel&) = delete;
  DescribedModel& operator=(const DescribedModel&) = delete;

  const model::ModelSpec spec;
  const model::StageWeights places;
  const Roles roles;
  const std::vector<ModuleName> modules;  // by weight
};

TextDims dims_of(const model::ModelSpec& spec);

/// Whether the release runs the model in its backend over transformers' modules.
bool runs_transformers(const model::ModelSpec& spec, const Builder& build);

/// Counts the stage's weights, part by part.
void count_table(const DescribedModel& model, const model::StageOfMany& stage, Builder& build);

/// Pads the experts' sizes as vLLM's kernel for mxfp4 requires, where it runs them.
void pad_experts(Builder& build, RankWeights::Experts& experts);

/// Counts what kernels for nvfp4 add to experts without a gate once they are loaded.
void tile_experts(Builder& build, const RankWeights::Experts& experts);

/// The caches of an attention with AttentionSpec::compression.
void add_compressed_caches(const model::AttentionSpec& attention, Builder& build);

/// Embeddings of a layer's n-grams, of which a rank has a part, and add_ngram_state.
void add_ngrams(const model::ModelSpec& spec, const model::NgramSpec& ngrams, int64_t layer,
                Builder& build);

/// The state of the convolution of a layer's n-grams, which every rank has whole.
void add_ngram_state(const model::ModelSpec& spec, const model::NgramSpec& ngrams, Builder& build);

/// The state of one layer's mixer. With attention side by side its projection has factors.
void add_state(const model::ModelSpec& spec, const model::RecurrentSpec& mixer,
               bool beside_attention, Builder& build);

/// Adds the caches of the stage's layers, buffers, and the sizes that the activation model needs.
void add_layers(const DescribedModel& model, const model::StageOfMany& stage, Builder& build);

}  // namespace plimsoll::vllm
