// What vLLM asks of a config by its `model_type`, and what it makes of `--dtype auto`.
#pragma once

#include <string>
#include <string_view>

#include "model/vllm/version.h"

namespace plimsoll::model {

/// Releases from `since` on, and before `until`.
struct Releases {
  VllmVersion since;
  VllmVersion until{1, 0, 0};
  [[nodiscard]] bool hold(const VllmVersion& version) const {
    return version >= since && version < until;
  }
};

struct VllmType {
  std::string_view model_type;
  Releases without_float16{{1, 0, 0}};  // its activations overflow float16, and vLLM says so
  bool was_bfloat16 = false;  // float32 checkpoints were computed in it when others became float16
  bool stretched = false;     // its length is stated with RoPE's scaling applied
  bool unmapped = false;      // transformers has no class of configs for it
};

/// A row without any of it for a type of which nothing is known.
const VllmType& vllm_type(std::string_view model_type);

/// From here on `auto` looks for a dtype that card and model take; before, what the card lacks was
/// refused.
inline constexpr VllmVersion kDtypeFallsBack{0, 9, 1};

/// What `--dtype auto` makes of a checkpoint of `stated` (vllm/config/model.py:
/// _resolve_auto_dtype): "bfloat16", "float16" or "float32", or in releases before kDtypeFallsBack
/// whatever is stated. `pooling`: the model answers with vectors.
std::string auto_dtype(const std::string& stated, std::string_view model_type,
                       const VllmVersion& version, bool card_has_bfloat16, bool pooling);

}  // namespace plimsoll::model
