// Memory of one stage of a launch, named as vLLM logs it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/amount.h"

namespace plimsoll::vllm {

/// A named number of the ledger, with where it comes from.
struct PlanPart {
  std::string name;
  int64_t bytes = 0;
  std::string formula;  // with its numbers
  std::string source;   // config key, catalogue, version of the engine
  bool inside_budget = true;
  /// How far the logs of its kind lay below and above the middle, in bytes; 0: it is exact.
  int64_t less = 0;
  int64_t more = 0;
  bool either = false;  // the middle or an edge holds, as something is installed or not
};

/// Bytes of all parts together.
inline Amount bytes_of(std::span<const PlanPart> parts) {
  Amount sum;
  for (const PlanPart& part : parts) sum += part.bytes;
  return sum;
}

/// Something about the machine that decides memory and that no config.json tells.
struct MachineFact {
  std::string name;
  std::string value;
  std::string source;  // why it is taken for so
  std::string flag;    // that states it
};

/// A figure's least, likeliest and most.
struct Edges {
  int64_t low = 0;
  int64_t middle = 0;
  int64_t high = 0;
};

/// Memory of one stage of a pipeline, on each of its ranks.
struct StageFigures {
  int64_t stage = 0;
  int64_t first_layer = 0;
  int64_t layers = 0;
  int64_t parameter_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t after_loading_bytes = 0;  // copies that are made once the weights are there
  int64_t adapter_bytes = 0;        // slots of LoRA adapters
  int64_t segment_bytes = 0;        // that torch's allocator gives beside the parameters
  int64_t weights_bytes = 0;        // all of these together
  int64_t layer_bytes = 0;          // parameters of the decoder's layers, which may be offloaded
  int64_t offloaded_bytes = 0;      // of the layers, by --cpu-offload-gb
  int64_t loading_peak_bytes = 0;   // most that stands on the card while the weights are loaded
  int64_t activation_peak_bytes = 0;
  /// Figure of the first boot: the compiler's trial runs are measured too. 0: this release has
  /// none.
  int64_t cold_peak_bytes = 0;
  int64_t persistent_bytes = 0;  // of torch, made after the weights: sampler state, input buffers
  int64_t non_torch_bytes = 0;
  int64_t cuda_graph_bytes = 0;
  int64_t kv_cache_bytes = 0;
  int64_t num_gpu_blocks = 0;  // blocks in its room; all stages use as many as the tightest has
  std::vector<PlanPart> parts;
};

}  // namespace plimsoll::vllm
