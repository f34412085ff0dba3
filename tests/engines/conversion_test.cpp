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
#include "engines/llamacpp/conversion/mixtures.h"
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

/// The conversion of a config of tests/data with keys of its own.
Model converted_with(const std::string& config, const Json& changes, const char* mixture) {
  const std::string path = (kConversionData / (config + ".json")).string();
  Json json = read_json_file(path);
  json.update(changes);
  return converted(json, path, mixture);
}

const std::string kMixtral = "engines/configs/mistralai__Mixtral-8x7B-v0.1";

std::string type_of(const Model& model, const std::string& name) {
  for (const auto& tensor : model.tensors())
    if (tensor.name == name) return std::string(tensor.type->name);
  return "none";
}

/// Types of matrices of the same name in each layer.
std::vector<std::string> layer_types(const char* mixture,
                                     const engines::llamacpp::QuantizedModel& model,
                                     const char* name) {
  std::vector<checkpoint::gguf::Tensor> tensors(static_cast<size_t>(model.layers));
  for (size_t l = 0; l < tensors.size(); ++l) {
    tensors[l].name = fmt::format("blk.{}.{}.weight", l, name);
    tensors[l].ne = {4096, 1024};
  }
  quantize(*engines::llamacpp::find_mixture(mixture), model, tensors);
  std::vector<std::string> types;
  for (const auto& tensor : tensors) types.emplace_back(tensor.type->name);
  return types;
}

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
    CHECK(a.feed_forward == b.feed_forward);
    CHECK(a.experts == b.experts);
    CHECK(a.experts_used == b.experts_used);
    REQUIRE(a.count() == b.count());
    for (size_t l = 0; l < a.layers.size(); ++l) {
      INFO(l);
      CHECK(a.layers[l].heads == b.layers[l].heads);
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
  CHECK_THROWS_WITH(converted(read_json_file(config), config, "iq2_xs"),
                    Catch::Contains("--gguf-type iq2_xs: not planned; one of F32, F16"));
  CHECK_THROWS_WITH(
      converted_with("golden/more_models/nemotron_h_latent/config", Json::object(), "F16"),
      Catch::Contains("moe_latent_size") && Catch::Contains("plan a GGUF file of it"));
}

TEST_CASE("a config whose tensors or layers would be empty is refused") {
  CHECK_THROWS_WITH(converted_with(kMixtral, {{"intermediate_size", nullptr}}, "Q4_K_M"),
                    Catch::Contains("Mixtral-8x7B-v0.1.json: tensor blk.0.ffn_down_exps"));
  const Json bloom = {{"architectures", {"BloomForCausalLM"}},
                      {"model_type", "bloom"},
                      {"hidden_size", 64},
                      {"n_head", 8},
                      {"n_layer", nullptr},
                      {"vocab_size", 1000}};
  CHECK_THROWS_WITH(
      converted(bloom, "b/config.json", "F16"),
      "b/config.json: \"num_hidden_layers\" is missing; expected a number of layers from "
      "1");
}

TEST_CASE("both tables of tokens have the head's type where the head is tied") {
  const Model model = converted_with("golden/more_models/gemma3n/config",
                                     {{"hidden_size_per_layer_input", 256}}, "Q4_K_M");
  CHECK(type_of(model, "token_embd.weight") == "Q6_K");
  CHECK(type_of(model, "per_layer_token_embd.weight") == "Q6_K");
}

TEST_CASE("IQ3_M keeps more bits in down projections of eight experts") {
  const auto fourth = [](int64_t experts) {
    return layer_types("IQ3_M", {.architecture = "llama", .layers = 32, .experts = experts},
                       "ffn_down_exps")[6];
  };
  CHECK(fourth(8) == "Q4_K");
  CHECK(fourth(16) == "IQ3_S");
}

TEST_CASE("values of the models that llama.cpp calls 70B have 5 bits") {
  struct Row {
    const char* architecture;
    int64_t layers, group;
    const char* type;
  };
  for (const Row& row :
       {Row{"llama", 80, 8, "Q5_K"}, Row{"llama", 80, 1, "Q4_K"}, Row{"qwen2", 80, 8, "Q5_K"},
        Row{"qwen2vl", 80, 8, "Q4_K"}, Row{"deci", 80, 8, "Q5_K"}, Row{"olmo", 80, 1, "Q5_K"},
        Row{"jais2", 68, 8, "Q5_K"}, Row{"jais2", 80, 8, "Q4_K"}}) {
    INFO(row.architecture << " " << row.layers);
    const auto types = layer_types(
        "Q4_K_M", {.architecture = row.architecture, .layers = row.layers, .group = row.group},
        "attn_v");
    CHECK(types[static_cast<size_t>(row.layers / 8)] == row.type);
  }
}

TEST_CASE("values that four heads share have more bits in Q2_K") {
  const auto first = [](int64_t group) {
    return layer_types("Q2_K", {.architecture = "llama", .layers = 32, .group = group},
                       "attn_v")[0];
  };
  CHECK(first(3) == "Q3_K");
  CHECK(first(4) == "Q4_K");
}

TEST_CASE("experts that are MXFP4 stay so, and are not quantized again") {
  const std::string config = "engines/configs/openai__gpt-oss-20b";
  const Model model = converted_with(config, Json::object(), "F16");
  CHECK(type_of(model, "blk.0.ffn_down_exps.weight") == "MXFP4");
  CHECK(type_of(model, "blk.0.ffn_down_exps.bias") == "F32");
  CHECK(type_of(model, "blk.0.attn_q.weight") == "F16");
  CHECK_THROWS_WITH(converted_with(config, Json::object(), "Q4_K_M"),
                    Catch::Contains("--gguf-type Q4_K_M") && Catch::Contains("plan MXFP4_MOE"));
  const Model plain = converted_with(config, {{"quantization_config", nullptr}}, "Q8_0");
  CHECK(type_of(plain, "blk.0.ffn_down_exps.weight") == "Q8_0");
}

TEST_CASE("a quantized checkpoint is converted where the converter makes floats of it") {
  const auto convert = [](const Json& quantization) {
    return converted_with("engines/configs/meta-llama__Meta-Llama-3.1-8B",
                          {{"quantization_config", quantization}}, "Q4_K_M");
  };
  for (const char* method : {"fp8", "gptq"}) CHECK_NOTHROW(convert({{"quant_method", method}}));
  const Json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  CHECK_NOTHROW(convert(modelopt));
  CHECK_NOTHROW(convert({{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}}));
  using Catch::Contains;
  const auto cure = Contains("plan the unquantized model's config, or a GGUF file");
  for (const char* method : {"awq", "bitsandbytes", "mxfp4"})
    CHECK_THROWS_WITH(convert({{"quant_method", method}}), Contains(method) && cure);
  CHECK_THROWS_WITH(convert({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}),
                    Contains("modelopt") && cure);
  CHECK_THROWS_WITH(
      convert({{"quant_method", "compressed-tensors"}, {"format", "nvfp4-pack-quantized"}}),
      Contains("nvfp4-pack-quantized") && cure);
  const Json groups = {{"group_0", Json::object()}, {"group_1", Json::object()}};
  CHECK_THROWS_WITH(convert({{"quant_method", "compressed-tensors"},
                             {"format", "pack-quantized"},
                             {"config_groups", groups}}),
                    Contains("pack-quantized") && cure);
  CHECK_THROWS_WITH(convert({{"bits", 4}}), Contains("no quant_method") && cure);
}

TEST_CASE("a conversion's note on what the file lacks or needs") {
  using namespace engines::llamacpp;
  CHECK(needs_importance_matrix("q2_k_s"));
  CHECK_FALSE(needs_importance_matrix("Q2_K"));
  const std::string path = (kConversionData / "engines/configs/zai-org__GLM-4.5.json").string();
  CHECK(left_out_layers(read_json_file(path), path) == 1);
  CHECK(left_out_layers({{"text_config", {{"mtp_num_hidden_layers", 2}}}}, "c.json") == 2);
  CHECK(left_out_layers({{"num_nextn_predict_layers", nullptr}}, "c.json") == 0);
}

TEST_CASE("numbers of a conversion are its config's") {
  const auto shape = [](const char* config, const Json& changes) {
    return engines::llamacpp::shape_of(converted_with(config, changes, "F16"));
  };
  // Of Gemma 3n's seven layers the last two keep no keys of their own.
  const auto sharing = shape("golden/more_models/gemma3n/config", Json::object());
  REQUIRE(sharing.count() == 7);
  for (size_t l = 0; l < 7; ++l) CHECK(sharing.layers[l].attends() == (l < 5));
  // Gemma 4 has an MLP beside its experts, and its width.
  const char* const gemma4 = "vllm/configs/nvidia__Gemma-4-26B-A4B-NVFP4";
  const Json text = read_json_file((kConversionData / gemma4).string() + ".json")["text_config"];
  const auto mixture = shape(gemma4, {{"quantization_config", nullptr}});
  CHECK(mixture.feed_forward == text["intermediate_size"]);
  CHECK(mixture.expert_feed_forward == text["moe_intermediate_size"]);
  const Json lengths = {{"model_max_length", 1000}, {"max_position_embeddings", 500}};
  Json cohere = {{"architectures", {"CohereForCausalLM"}},
                 {"model_type", "cohere"},
                 {"hidden_size", 64},
                 {"intermediate_size", 64},
                 {"num_attention_heads", 4},
                 {"num_hidden_layers", 2},
                 {"vocab_size", 70}};
  cohere.update(lengths);
  const Model made = converted(cohere, (kConversionData / (kMixtral + ".json")).string(), "F16");
  CHECK(engines::llamacpp::shape_of(made).context == 1000);
  CHECK(shape(kMixtral.c_str(), lengths).context == 500);
}
