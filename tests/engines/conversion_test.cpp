// GGUF headers made of config.json, beside those that llama.cpp's converter and llama-quantize
// wrote.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "batch/scratch.h"
#include "engines/llamacpp/conversion/conversion.h"
#include "engines/llamacpp/shape.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using engines::llamacpp::converted;

namespace {

namespace fs = std::filesystem;
using checkpoint::gguf::Model;

const fs::path kConversionData = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data";

/// Tensors by name as text: "[4096, 1024] Q6_K"; without sizes of 1, and without types where these
/// are not asked for.
std::map<std::string, std::string> listed(const Model& model, bool types) {
  std::map<std::string, std::string> list;
  for (const auto& tensor : model.tensors()) {
    std::vector<int64_t> ne = tensor.ne;
    std::erase(ne, 1);
    std::string name = tensor.name;
    if (name.ends_with(".scale") && name.find("ffn_") == std::string::npos) continue;  // of NVFP4
    // The first files of some architectures lack the ending.
    for (const char* bare : {"ffn_norm", "post_attention_norm", "post_ffw_norm"})
      if (name.ends_with(std::string(".") + bare)) name += ".weight";
    if (name.ends_with(".exp_probs_b")) name += ".bias";
    list[name] = fmt::format("{}{}", ne, types ? " " + std::string(tensor.type->name) : "");
  }
  return list;
}

/// Lines on tensors that differ.
std::string unlike(const std::map<std::string, std::string>& wanted,
                   const std::map<std::string, std::string>& found) {
  std::string text;
  const auto at = [](const auto& list, const std::string& name) {
    const auto place = list.find(name);
    return place == list.end() ? std::string("none") : place->second;
  };
  for (const auto& [name, value] : wanted)
    if (at(found, name) != value)
      text += fmt::format("{}: {}, not {}\n", name, value, at(found, name));
  for (const auto& [name, value] : found)
    if (!wanted.contains(name)) text += fmt::format("{}: not wanted\n", name);
  return text.substr(0, 1000);
}

class WrittenHeaders {
 public:
  Model of(const fs::path& recipe) {
    const fs::path file = scratch_.path(fmt::format("{}.gguf", ++count_));
    testing::write_gguf_header(read_json_file(recipe.string()), file);
    return Model::open(file);
  }

 private:
  test::Scratch scratch_;
  int count_ = 0;
};

Model converted_file(const fs::path& config, const char* mixture) {
  return converted(read_json_file(config.string()), config.string(), mixture);
}

}  // namespace

TEST_CASE("types, names and shapes of a conversion are llama-quantize's") {
  WrittenHeaders headers;
  struct Row {
    const char *header, *config, *mixture;
  };
  for (const Row& row : {
           Row{"falcon_40b.Q4_K_M", "tiiuae__falcon-40b", "Q4_K_M"},
           Row{"gemma3_27b.Q4_K_M", "google__gemma-3-27b-it", "Q4_K_M"},
           Row{"glm45.Q2_K_S", "zai-org__GLM-4.5", "Q2_K_S"},
           Row{"gpt_oss_20b.MXFP4_MOE", "openai__gpt-oss-20b", "mxfp4_moe"},
           Row{"llama31_8b.Q4_K_M", "meta-llama__Meta-Llama-3.1-8B", "Q4_K"},
           Row{"mimo_v2_flash.Q2_K", "XiaomiMiMo__MiMo-V2-Flash", "Q2_K"},
           Row{"mixtral_8x7b.Q4_K_M", "mistralai__Mixtral-8x7B-v0.1", "Q4_K_M"},
           Row{"nemotron3_nano.Q4_K_M", "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Q4_K_M"},
           Row{"qwen35_27b.Q4_K_M", "Qwen__Qwen3.5-27B", "Q4_K_M"},
       }) {
    INFO(row.header);
    const fs::path folder = kConversionData / "engines";
    const Model wanted = headers.of(folder / "headers" / (row.header + std::string(".json")));
    const Model found =
        converted_file(folder / "configs" / (row.config + std::string(".json")), row.mixture);
    CHECK(found.architecture() == wanted.architecture());
    CHECK(unlike(listed(wanted, true), listed(found, true)) == "");
    const auto a = engines::llamacpp::shape_of(wanted), b = engines::llamacpp::shape_of(found);
    CHECK(a.context == b.context);
    CHECK(a.window == b.window);
    CHECK(a.vocabulary == b.vocabulary);
    REQUIRE(a.count() == b.count());
    for (size_t l = 0; l < a.layers.size(); ++l) {
      INFO(l);
      CHECK(a.layers[l].key == b.layers[l].key);
      CHECK(a.layers[l].value == b.layers[l].value);
      CHECK(a.layers[l].windowed == b.layers[l].windowed);
      CHECK(a.layers[l].memory_state == b.layers[l].memory_state);
    }
  }
}

TEST_CASE("names and shapes of converted families are the converter's") {
  WrittenHeaders headers;
  int count = 0;
  const fs::path golden = kConversionData / "golden";
  for (const char* group : {"pairs", "run"}) {
    for (const auto& entry : fs::directory_iterator(golden / "gguf" / group)) {
      const fs::path folder = entry.path();
      std::string name = folder.filename();
      const std::string prefix = "converted_";
      fs::path config = folder / "config.json";
      if (name.starts_with(prefix)) {
        name.erase(0, prefix.size());
        for (const char* other : {"models", "more_models"})
          if (!fs::exists(config)) config = golden / other / name / "config.json";
      }
      if (!fs::exists(config) || !fs::exists(folder / "recipe.json")) continue;
      INFO(name);
      const Model found = converted_file(config, "F16");
      const Model wanted = headers.of(folder / "recipe.json");
      CHECK(found.architecture() == wanted.architecture());
      auto names = listed(found, false);
      // Published checkpoints hold keys of layers that share others', transformers saves none.
      if (name == "gemma3n" || name == "gemma4_ple") {
        const auto shown = listed(wanted, false);
        std::erase_if(names, [&](const auto& row) {
          return row.first.find(".attn_") != std::string::npos && !shown.contains(row.first);
        });
      }
      CHECK(unlike(listed(wanted, false), names) == "");
      ++count;
    }
  }
  CHECK(count >= 20);
}

TEST_CASE("a conversion that is not known is refused by name") {
  const std::string config =
      (kConversionData / "engines/configs/deepseek-ai__DeepSeek-V4-Flash.json").string();
  CHECK_THROWS_WITH(converted(read_json_file(config), config, "Q4_K_M"),
                    Catch::Contains("DeepseekV4ForCausalLM") && Catch::Contains("not known"));
  CHECK_THROWS_WITH(converted(read_json_file(config), config, "Q4_K_XL"),
                    Catch::Contains("--gguf-type Q4_K_XL: not known; one of F32, F16"));
}
