// How layers are divided over pipeline stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::model {

/// The text of vLLM's VLLM_PP_LAYER_PARTITION ("3,4,3"): layers of each stage. Throws Error(usage).
std::vector<int64_t> parse_partition(const std::string& text);

/// The layer after each stage's last one, as vLLM's get_pp_indices finds it: in equal parts, what
/// is left over going to the stages before the last; or as `partition` says, which may be empty.
/// Throws Error(usage) where the partition does not fit the model.
std::vector<int64_t> stage_ends(int64_t layers, int64_t stages,
                                const std::vector<int64_t>& partition);

/// Layers `first` to `end` - 1.
struct StageLayers {
  int64_t first = 0;
  int64_t end = 0;
};

/// Those of one of `stages` stages, as stage_ends divides them.
StageLayers layers_of_stage(int64_t layers, int64_t stage, int64_t stages,
                            const std::vector<int64_t>& partition);

/// Whether vLLM divides models of the architecture: its classes that lack the `SupportsPP`
/// interface (vLLM 0.32.0's model_executor/models) it runs in one stage alone.
bool has_stages(std::string_view architecture);

/// Whether vLLM's class ties the head of every stage, and so fails on those that have none.
bool ties_every_stage(std::string_view architecture);

/// Whether vLLM 0.32 loads the stages that a class has, for a model whose head is its embedding
/// (`tied`) or not: one does not skip what others hold, some tie what a stage lacks.
bool loads_stages(std::string_view architecture, bool tied);

}  // namespace plimsoll::model
