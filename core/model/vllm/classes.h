// What is known of vLLM's classes by the architecture's name, whatever the model's description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/vllm/version.h"

namespace plimsoll::model {

/// A line an architecture (classes.csv): its name, the first and last release with a class for it,
/// "yes" where transformers has a class that releases without one may run, what its stages are, the
/// release since which the second model runner executes it while others still wait, and the largest
/// batch whose graph is captured, where its class says one. tests/against/releases writes the first
/// four from vLLM's registries and keeps the rest.
const char* vllm_classes_text();

/// What becomes of a pipeline's stages (vLLM 0.32.0's model_executor/models).
enum class ClassStages : uint8_t {
  some,             // they launch and load
  none,             // the class lacks the `SupportsPP` interface: one stage alone
  tied_everywhere,  // it ties the head of every stage, and so fails on those that have none
  untied,           // a tied head fails while loading: it ties what a stage lacks
  broken,           // does not load: it does not skip what others hold
};

struct KnownClass {
  VllmVersion first;
  std::optional<VllmVersion> last;  // nothing: the newest has it too
  bool in_transformers = false;
  ClassStages stages = ClassStages::some;
  std::optional<VllmVersion> second_runner;
  int64_t largest_graph = 512;
};

/// Nothing for an architecture of which no release has a class.
std::optional<KnownClass> find_class(std::string_view architecture);

/// What becomes of its stages; `some` for an architecture that is not known.
ClassStages class_stages(std::string_view architecture);

/// The most sequences of a step whose graph is captured, where neither card nor flags say another.
int64_t largest_graph(std::string_view architecture);

/// Whether vLLM 0.32 loads the stages that a class has, for a model whose head is its embedding
/// (`tied`) or not.
bool loads_stages(std::string_view architecture, bool tied);

}  // namespace plimsoll::model
