// Which of vLLM's backends reads a cache of latents (MLA), and what its pages are, by release and
// card (vllm/platforms/cuda.py: _get_backend_priorities; vllm/v1/attention/backends/mla).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hardware/capability.h"
#include "model/vllm/version.h"

namespace plimsoll::vllm {

/// What the elements of a cache are, as backends tell types apart.
enum class CacheType : uint8_t {
  whole,   // the model's own type
  fp8,     // --kv-cache-dtype fp8
  e4m3,    // fp8_e4m3, and what a checkpoint's scheme of 8 bits becomes
  packed,  // fp8_ds_mla: 8 bits and their scales beside 16 bits for the positions
  other,
};

/// The type that --kv-cache-dtype asks for; `stored_fp8`: the checkpoint states a scheme of 8 bits
/// for "auto".
CacheType cache_type(const std::string& dtype, bool stored_fp8);

struct LatentBackend {
  std::string_view name;  // as vLLM logs it
  int64_t block = 16;     // tokens, without --block-size
  int64_t multiple = 16;  // of which --block-size must be one
  bool packed = false;    // its pages are fp8_ds_mla's
  int64_t rows = 1;       // tokens of which packed blocks have a whole number
  bool gathers = false;   // prefill reads queries and cache from the shared workspace
  int64_t workspace = 0;  // bytes that its metadata builder keeps, beside indices of a step
  bool splits = false;    // decodes in parts, whose outputs stand in the shared workspace
  bool expands = false;   // sparse, but short prefills gather their context as dense attention does
  bool masks = false;     // these prefills mask what is not chosen, for heads of some sizes
};

/// Bytes of a token of a layer in fp8_ds_mla.
inline constexpr int64_t kPackedLatent = 656;

struct LatentCache {
  model::VllmVersion version;
  hardware::Architecture card = hardware::Architecture::hopper;
  CacheType type = CacheType::whole;
  bool positions = true;  // latents have a part with RoPE
};

/// The backend that the release chooses; `sparse`: an indexer chooses the keys. Throws Error(usage)
/// where it has none.
LatentBackend latent_backend(const LatentCache& cache, bool sparse);

}  // namespace plimsoll::vllm
