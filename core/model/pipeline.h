// Division of layers over pipeline stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::model {

/// Parses the text of vLLM's VLLM_PP_LAYER_PARTITION ("3,4,3"): layers of each stage. Throws
/// Error(usage).
std::vector<int64_t> parse_partition(const std::string& text);

/// The layer after each stage's last one, as vLLM's get_pp_indices finds it: in equal parts, with
/// remaining layers going to the stages before the last; or by `partition`, unless it is empty.
/// Throws Error(usage) where the partition does not fit the model.
std::vector<int64_t> stage_ends(int64_t layers, int64_t stages,
                                const std::vector<int64_t>& partition);

/// Layers [first, end) of a stage.
struct StageLayers {
  int64_t first = 0;
  int64_t end = 0;
};

/// Layers of one of `stages` stages, as stage_ends divides them.
StageLayers layers_of_stage(int64_t layers, int64_t stage, int64_t stages,
                            const std::vector<int64_t>& partition);

}  // namespace plimsoll::model
