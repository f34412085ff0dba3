// Architectures that a release of vLLM does not have yet, or not any more.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "hardware/gpu_catalogue.h"
#include "model/vllm/classes.h"
#include "plan/report/report.h"
#include "plan/scene.h"
#include "vllm/launch/served.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

const std::string kNone;

PlanResult planned(const char* architecture, const VllmVersion& version, bool card = true) {
  const hardware::Gpu& gpu = hardware::find_gpu("h100");
  EngineArgs args;
  args.version = version;
  const Json config = with(llama_8b(), {{"architectures", {architecture}}});
  return plan_vllm({config, "config.json"}, args, card ? &gpu : nullptr);
}

}  // namespace

TEST_CASE("classes of releases before 0.4.1 are not known, and none is refused") {
  CHECK(vllm::served_refusal("LlamaForCausalLM", {0, 3, 3}).empty());
  CHECK_FALSE(vllm::served_refusal("Gemma3ForCausalLM", {0, 3, 3}).empty());
}

TEST_CASE("a model that the release does not serve does not launch, whatever fits") {
  const PlanResult past = planned("AquilaForCausalLM", {0, 32, 0});
  CHECK(past.fits == false);
  CHECK(past.refused);
  CHECK(past.parameter_bytes > 0);
  CHECK_THAT(past.reason, Catch::StartsWith("Model architecture AquilaForCausalLM was supported in "
                                            "vLLM until v0.24.0, and is not supported anymore."));
  CHECK_THAT(past.reason, Catch::Contains("--vllm-version 0.24.0"));
  CHECK_THAT(to_text(past, 80), Catch::Contains("\nDOES NOT LAUNCH\n"));
  CHECK_THAT(to_html(past), Catch::Contains("does not launch"));
  for (const int patch : {0, 1}) CHECK(planned("AquilaForCausalLM", {0, 24, patch}).fits == true);
  CHECK(planned("AquilaForCausalLM", {0, 25, 0}).fits == false);
  CHECK(planned("AquilaForCausalLM", {1, 0, 0}).fits == false);

  const PlanResult early = planned("Qwen3ForCausalLM", {0, 7, 1});
  CHECK(early.fits == false);
  CHECK_THAT(early.reason, Catch::Contains("--vllm-version 0.8.4"));
}

TEST_CASE("without a card a model that the release does not serve is noted") {
  const PlanResult past = planned("AquilaForCausalLM", {0, 32, 0}, false);
  CHECK(!past.fits.has_value());
  CHECK(std::ranges::count_if(past.notes, [](const std::string& note) {
          return note.find("until v0.24.0") != std::string::npos;
        }) == 1);
}

TEST_CASE("what transformers has runs where the release has no class, with a note") {
  CHECK(planned("Qwen3ForCausalLM", {0, 8, 3}).fits == true);
  CHECK_THAT(served_note("Qwen3ForCausalLM", {0, 8, 3}), Catch::Contains("0.8.4 is the first"));
  CHECK(served_note("Qwen3ForCausalLM", {0, 8, 2}) == kNone);  // that day's transformers has none
  CHECK_THAT(served_refusal("Qwen3ForCausalLM", {0, 8, 2}), Catch::Contains("0.8.4 is the first"));
  CHECK(served_note("Qwen3ForCausalLM", {0, 8, 4}) == kNone);
  CHECK_THAT(served_note("BambaForCausalLM", {0, 24, 0}), Catch::Contains("0.23.0 was the last"));
  CHECK(served_refusal("BambaForCausalLM", {0, 24, 0}) == kNone);
  CHECK(served_refusal("BambaForCausalLM", {0, 6, 0}) != kNone);
  CHECK(served_note("BambaForCausalLM", {0, 6, 0}) == kNone);
}

TEST_CASE("an architecture that no release has is noted where it generates, and never refused") {
  for (const char* name : {"", "Llama", "MossModel", "architecture", "MossForCausalLM"}) {
    INFO(name);
    CHECK(served_refusal(name, {0, 5, 0}) == kNone);
    const bool generates = std::string(name).ends_with("ForCausalLM");
    CHECK(served_note(name, {0, 32, 0}).starts_with("no release of vLLM") == generates);
  }
}

TEST_CASE("the table of architectures") {
  std::istringstream lines(model::vllm_classes_text());
  std::string line;
  std::getline(lines, line);
  CHECK(line ==
        "architecture,first,last,transformers,stages,second_runner,largest_graph,states,wrapped,"
        "pipeline,adapters,v1");
  int rows = 0;
  std::string before;
  for (; std::getline(lines, line); ++rows) {
    INFO(line);
    std::istringstream fields(line + ",");
    std::string name, first, last, transformers;
    for (std::string* field : {&name, &first, &last, &transformers})
      std::getline(fields, *field, ',');
    CHECK(before < name);
    CHECK((last.empty() || !(parse_version(last) < parse_version(first))));
    CHECK((transformers.empty() || parse_version(transformers) >= VllmVersion{0, 4, 1}));
    CHECK(model::find_class(name).has_value());
    before = name;
  }
  CHECK(rows > 300);
}
