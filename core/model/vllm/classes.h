// Facts about vLLM's classes by the architecture's name, without the model's description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/vllm/types.h"
#include "model/vllm/version.h"

namespace plimsoll::model {

/// Table of vLLM's classes, a line an architecture (classes.csv): its name; the first and last
/// release with a class for it; the first release on whose day transformers had a class that vLLM
/// may run in its place; what works with stages; the release since which the second model runner
/// executes it while others still wait; the largest batch whose graph is captured, where its class
/// says one; "all" where it can keep a recurrent state in every block
/// (`SupportsMambaPrefixCaching`, 0.11.1 to 0.31); the release since which vLLM runs transformers'
/// class in place of its own; the releases whose class has the interfaces `SupportsPP` and
/// `SupportsLoRA` (empty: all, "none", "0.14.0": since that one, "-0.27.0": before that one); and
/// the release since which the second engine (V1) runs it ("0.9.2/0.10.2": where it is asked for
/// since the first, by default since the second; empty: since that engine is there).
/// tests/against/releases writes the first four and the last four from vLLM's sources and keeps
/// the rest.
const char* vllm_classes_text();

/// How a class that has the `SupportsPP` interface works with several pipeline stages (vLLM
/// 0.33.0's model_executor/models).
enum class ClassStages : uint8_t {
  some,             // they launch and load
  tied_everywhere,  // it ties the head of every stage, and so fails on those that have none
  untied,           // a tied head fails while loading: it ties what a stage lacks
  broken,           // does not load: it does not skip what others hold
  no_tensors,       // stages behind the first fail: it makes no `IntermediateTensors` for them
};

struct KnownClass {
  VllmVersion first;
  std::optional<VllmVersion> last;               // none: the newest has it too
  std::optional<VllmVersion> in_transformers{};  // by the release's day
  ClassStages stages = ClassStages::some;
  std::optional<VllmVersion> second_runner;
  int64_t largest_graph = 512;
  bool all_states = false;
  std::optional<VllmVersion> wrapped{};
  Releases pipeline{{0, 0, 0}}, adapters{{0, 0, 0}};  // whose class takes stages, LoRA
  VllmVersion v1_if_asked{0, 0, 0}, v1{0, 0, 0};      // since when the second engine runs it

  /// True for releases that have this class no more. Patches of the last one still have it.
  [[nodiscard]] bool gone(const VllmVersion& version) const;
  /// True where a release has the class without an interface. `having`: pipeline or adapters.
  [[nodiscard]] bool lacks(const Releases& having, const VllmVersion& version) const;
};

/// The class of an architecture; nothing where no release has one.
std::optional<KnownClass> find_class(std::string_view architecture);

/// True where a release's class of an architecture takes one pipeline stage alone.
bool lacks_stages(std::string_view architecture, const VllmVersion& version);

/// How an architecture's class works with stages; `some` for an architecture that is not known.
ClassStages class_stages(std::string_view architecture);

/// Most sequences of a step whose graph is captured, unless card or flags say another number.
int64_t largest_graph(std::string_view architecture);

/// True when vLLM 0.33 loads several stages of an architecture, for a model whose head is its
/// embedding (`tied`) or not.
bool loads_stages(std::string_view architecture, bool tied);

}  // namespace plimsoll::model
