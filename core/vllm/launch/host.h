// Memory of the host that a launch of vLLM takes beside the cards'.
#pragma once

#include <vector>

#include "vllm/engine_args.h"
#include "vllm/figures.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// What the host's memory hangs on beside the arguments.
struct HostTerms {
  int64_t max_num_seqs = 0;
  int64_t max_model_len = 0;
  int64_t offloaded_bytes = 0;  // of a rank's weights
};

/// What is known of the host's memory, on all ranks together: weights that are offloaded, tables of
/// tokens, bitmasks, processed inputs. The processes' own memory (Python, torch, compilers) is not
/// part of it.
std::vector<PlanPart> host_parts(const EngineArgs& args, const HostTerms& terms,
                                 const ModelShape& shape);

/// True where embeddings of n-grams lie in the host's memory (vllm/config/engram.py).
bool keeps_ngrams_on_host(const EngineArgs& args);

/// Processes of the launch: server, engines, and where there are several cards a worker for each.
int64_t host_processes(const EngineArgs& args);

}  // namespace plimsoll::vllm
