// Facts that vLLM knows of a config by its `model_type`, and how it resolves `--dtype auto`.
#pragma once

#include <string>
#include <string_view>

#include "model/vllm/version.h"

namespace plimsoll::model {

/// Range of releases: from `since` on, before `until`.
struct Releases {
  VllmVersion since;
  VllmVersion until{1, 0, 0};
  [[nodiscard]] bool hold(const VllmVersion& version) const {
    return version >= since && version < until;
  }
};

struct VllmType {
  std::string_view model_type;
  /// Releases that refuse float16 because its activations overflow.
  Releases without_float16{{1, 0, 0}};
  bool was_bfloat16 = false;  // float32 checkpoints became bfloat16 when others became float16
  bool stretched = false;     // its length is stated with RoPE's scaling applied
  bool unmapped = false;      // transformers has no config class for it
  bool own_prefill = false;   // its gated delta layers never run FlashInfer's prefill
};

/// The row of a type; one without any of these facts for a type that is not known.
const VllmType& vllm_type(std::string_view model_type);

/// Release from which `auto` looks for a dtype that card and model support; before, a dtype that
/// the card lacks was refused.
inline constexpr VllmVersion kDtypeFallsBack{0, 9, 1};

/// The dtype that `--dtype auto` resolves to for a checkpoint of `stated` (vllm/config/model.py:
/// _resolve_auto_dtype): "bfloat16", "float16" or "float32", or in releases before kDtypeFallsBack
/// `stated` itself. `pooling`: the model answers with vectors.
std::string auto_dtype(const std::string& stated, std::string_view model_type,
                       const VllmVersion& version, bool card_has_bfloat16, bool pooling);

}  // namespace plimsoll::model
