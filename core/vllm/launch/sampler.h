// What drawing tokens takes while vLLM profiles, by runner and release.
#pragma once

#include "base/amount.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/figures.h"

namespace plimsoll::vllm {

/// The sizes of the step that vLLM profiles.
struct Step {
  Amount tokens;
  Amount rows;  // that are sampled
  Amount hidden;
  Amount vocabulary;
  Amount intermediate;
  int64_t element;  // bytes of the model's dtype
  bool int8_activations;
};

/// The first runner's (v1/worker/gpu_model_runner.py: _dummy_sampler_run, with top-k and top-p).
PlanPart first_runner_sampler(const EngineArgs& args, const Step& step, const hardware::Gpu* gpu);

/// The second runner's (v1/worker/gpu/model_runner.py: _dummy_sampler_run). From 0.33 on it has a
/// second pass with all sampling parameters on.
PlanPart second_runner_sampler(const EngineArgs& args, const Step& step, const hardware::Gpu* gpu);

/// What the second runner's sampler keeps on the card: counts of each token for each sequence
/// (v1/worker/gpu/sample/penalties.py) and tables of single tokens (logit_bias.py, bad_words.py).
Amount sampler_state(const Step& step, int64_t max_num_seqs);

}  // namespace plimsoll::vllm
