// Memory of the host that a launch of vLLM takes beside the cards'.
#pragma once

#include <vector>

#include "vllm/figures.h"
#include "vllm/launch/terms.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// What is known of the host's memory, on all ranks together: weights that are offloaded, tables of
/// tokens, bitmasks, processed inputs. The processes' own memory (Python, torch, compilers) is not
/// part of it.
std::vector<PlanPart> host_parts(const EngineArgs& args, const Terms& terms,
                                 const ModelShape& shape, int64_t offloaded_bytes);

/// Processes of the launch: server, engines, and where there are several cards a worker for each.
int64_t host_processes(const EngineArgs& args);

}  // namespace plimsoll::vllm
