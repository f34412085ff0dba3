// The context that the model itself allows.
#pragma once

#include <cstdint>
#include <string>

#include "base/config_view.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// The context that the model itself allows, in tokens, before any memory is counted.
struct ModelLength {
  int64_t usual = 0;    // without --max-model-len
  int64_t most = 0;     // the bound by the release
  int64_t reach = 0;    // reach of the stretched positions; from 0.30 on YaRN's may exceed `most`
  bool stated = false;  // false: the config has no length at all, and any is taken
  std::string key;      // of the config: where the bound is from
};
ModelLength model_length(const ConfigView& config, const VllmVersion& version);

/// Throws Error(usage), in vLLM's words, for a length that the positions do not reach.
void check_length(const ModelLength& length, int64_t asked, const ConfigView& config,
                  const VllmVersion& version);

/// Note on positions that the release does not stretch by itself; empty: nothing to note.
std::string length_note(const ModelLength& length, int64_t planned, const VllmVersion& version);

}  // namespace plimsoll::vllm
