// What a launch answers with: text that it generates, or vectors and classes of what it reads
// (vLLM's --runner and --convert, before them --task).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/config_view.h"
#include "base/json.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct Runner {
  bool pools = false;                     // answers with vectors or classes
  Converts converts = Converts::nothing;  // a class that generates
};

/// The runner, by flags, by the files of sentence-transformers beside the config, and by the
/// model's class (vllm/config/model.py). Throws Error(usage), in vLLM's words, where the class has
/// no such runner.
Runner runner_of(const ConfigView& config, const EngineArgs& args);

/// What releases from 0.13 on have in place of a --task: {{"--runner", "pooling"}}.
std::vector<std::pair<std::string, std::string>> flags_of_task(const std::string& task);

/// Of which tokens a vector is made by sentence-transformers' file, its pooling module's
/// config.json (vllm/transformers_utils/config.py: parse_pooling_type): "LAST"; empty: it does not
/// say.
std::string stated_pooling(const Json& pooling);

/// False where prompts are read whole and their beginnings are not cached unless a flag asks for
/// it: models whose vector is made of all tokens, or attends both ways.
bool pools_in_parts(const ConfigView& config, const EngineArgs& args);

}  // namespace plimsoll::vllm
