// What decides memory and stands in no config.json: how cards are joined, which libraries are
// installed, what the driver and other processes hold. Each fact has a default by card and release,
// a flag that states it, and the spread of the logs that it was learned from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vllm/engine_args.h"
#include "vllm/figures.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::hardware {
struct Gpu;
}

namespace plimsoll::vllm {

/// The name of the fact whether FlashInfer's kernels draw tokens ("yes", "no").
inline constexpr const char* kSamplerFact = "FlashInfer's sampler";

/// GB10: compute capability 12.1.
bool is_spark(const hardware::Gpu* gpu);

/// Whether the card has the memory bus and libraries of Hopper or of a later data-centre card.
bool at_least_hopper(const hardware::Gpu* gpu);

/// Bytes of cuBLAS's workspace, which torch's allocator holds.
int64_t gemm_workspace(const hardware::Gpu* gpu);

/// Whether cuBLAS's handles and workspace were there before vLLM looked at what is free
/// (gpu_worker.py: init_device multiplies two small matrices first).
bool has_early_cublas(const EngineArgs& args);

/// Whether tokens are drawn by FlashInfer's kernels (v1/sample/ops/topk_topp_sampler.py).
bool samples_with_flashinfer(const EngineArgs& args, const hardware::Gpu* gpu);

/// Whether that hangs on what is installed, which the release does not say.
bool depends_on_install(const EngineArgs& args);

/// The backend that VLLM_ATTENTION_BACKEND states, in releases that read it; else empty.
std::string stated_backend(const std::string& variable, const VllmVersion& version);

/// Whether attention runs in FlashInfer's kernels (platforms/cuda.py: _get_backend_priorities).
bool attends_with_flashinfer(const EngineArgs& args, const hardware::Gpu* gpu,
                             const ModelShape& shape, bool fp8_cache);

/// Whether FlashInfer's kernels plan the decodes of each whole graph in a workspace of its own
/// (v1/attention/backends/flashinfer.py: _decode_wrappers_cudagraph); those of TensorRT-LLM and XQA
/// plan nothing.
bool plans_each_graph(const EngineArgs& args, const hardware::Gpu* gpu);

/// Whether ranks write to each other's memory: vLLM's own all-reduce, and the fused one.
bool joins_ranks_by_nvlink(const EngineArgs& args, const hardware::Gpu* gpu);

/// Memory that neither torch's allocator nor the weights hold, once the engine has started.
/// `recurrent`: layers keep states, whose kernels are loaded besides.
PlanPart non_torch_part(const EngineArgs& args, const hardware::Gpu* gpu, bool recurrent = false);

/// Context and communication set up before the engine looks at what is free.
int64_t context_bytes(const EngineArgs& args, const hardware::Gpu* gpu);

/// The facts taken for granted of this launch's machine.
std::vector<MachineFact> machine_facts(const EngineArgs& args, const hardware::Gpu* gpu,
                                       const ModelShape& shape);

}  // namespace plimsoll::vllm
