// What latent attention (MLA), compressed attention (DeepSeek-V4) and their indexers take beside
// weights and cache: what they reserve, and what vLLM's profile allocates in their place.
#pragma once

#include <string>

#include "base/amount.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// Bytes of some tensors, and the sum as text: "8192 x 16 x 576 x 2 B (queries)".
struct TensorSum {
  Amount bytes;
  std::string formula;

  /// Adds a tensor of `count` rows of `elements` of `size` bytes; vLLM's workspace aligns each to
  /// 256 bytes.
  void add(Amount count, Amount elements, int64_t size, const char* what);
};

struct AttentionRoom {
  /// Largest request, up to the profile's end, of the workspace that all layers share and experts
  /// too (vllm/v1/worker/workspace.py: get_simultaneous). It is kept.
  TensorSum shared;
  /// Request that is made with the KV cache, behind the profile.
  TensorSum late;
  /// What a backend keeps for itself from the profile on.
  TensorSum own;
  /// Peak of the profiled step while attention runs: its inputs and outputs, and what stands for
  /// the context that it would read. 0: nothing does.
  TensorSum step;
};

/// Rows of context that prefill asks for: those of eight of the longest requests or four blocks of
/// each request, and at most 64K (mla_attention.py, sparse_mla_attention.py:
/// determine_chunked_prefill_workspace_size).
Amount wanted_rows(Amount sequences, Amount length, int64_t block);

/// Rows of context that dense MLA's prefill gathers and expands at once.
Amount context_rows(const EngineArgs& args, const EngineLimits& limits, int64_t max_model_len,
                    const ModelShape& shape);

/// `max_model_len`: tokens of the longest request. `element`: bytes of the model's dtype.
AttentionRoom attention_room(const EngineArgs& args, const EngineLimits& limits,
                             int64_t max_model_len, int64_t element, const ModelShape& shape,
                             const hardware::Gpu* gpu);

}  // namespace plimsoll::vllm
