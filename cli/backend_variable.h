// The variable by which vLLM chose kernels of attention before it had a flag for it.
#pragma once

namespace plimsoll::cli {

/// Read by vLLM up to 0.14 alone: of later releases plan names it as left out.
inline constexpr const char* kBackendVariable = "VLLM_ATTENTION_BACKEND";

}  // namespace plimsoll::cli
