// `plan FOLDER` looks at the headers of the weights, for both engines: what `run` would not load is
// no launch that fits.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "cli/planned.h"
#include "shard/model_folder.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;
namespace fs = std::filesystem;

namespace {

const fs::path kGoldenFolder = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden";
const std::string kOwnPlan = "plimsoll plan model --gpu h100";
const std::string kVllmPlan = kOwnPlan + " --engine vllm";
const std::string kRunIds = "plimsoll run model -i ids.jsonl --skip-tokenizer-init --format ids -q";

Json golden_file(const std::string& name) {
  return parse_json<Json>(read_text_file(kGoldenFolder / name));
}

void write_ids(const Scratch& scratch) {
  scratch.write("ids.jsonl", R"({"prompt_token_ids":[1,2,3,4],"max_tokens":4,"temperature":0})");
}

/// All three commands end with the status; refusals say `words`.
void check_alike(const Scratch& scratch, int status, const std::string& words = "") {
  write_ids(scratch);
  for (const std::string& command : {kOwnPlan, kVllmPlan, kRunIds}) {
    const auto outcome = shell(scratch, command);
    INFO(command << ": " << outcome.err);
    CHECK(outcome.status == status);
    CHECK(outcome.err.find(words) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("tensors that are missing, narrower or pointers are refused by plan and run alike") {
  const Json config = golden_file("models/llama/config.json");
  const Json recipe = golden_file("models/llama/recipe.json");
  const auto position_of = [&](const std::string& name) {
    for (size_t i = 0; i < recipe["tensors"].size(); ++i)
      if (recipe["tensors"][i]["name"] == name) return i;
    throw std::runtime_error(name);
  };
  const std::string name = "model.layers.1.mlp.gate_proj.weight";
  {
    const Scratch scratch;
    shard::write_model(scratch, config, recipe);
    check_alike(scratch, 0);
  }
  {
    const Scratch scratch;
    Json lacking = recipe;
    lacking["tensors"].erase(position_of(name));
    shard::write_model(scratch, config, lacking);
    check_alike(scratch, 5, "lacks tensor \"" + name + "\"");
    // The config alone is planned.
    CHECK(shell(scratch, "plimsoll plan model/config.json --gpu h100").status == 0);
  }
  {
    const Scratch scratch;
    Json narrower = recipe;
    narrower["tensors"][position_of(name)]["shape"][0] = 32;
    shard::write_model(scratch, config, narrower);
    check_alike(scratch, 5, "has shape [32, ");
  }
  {
    const Scratch scratch;
    shard::write_model(scratch, config, recipe);
    scratch.write("model/model.safetensors",
                  "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    check_alike(scratch, 5, "git lfs pull");
  }
}

TEST_CASE("weights of an architecture that nobody knows are loaded in the launch's type") {
  Json config = golden_file("models/llama/config.json");
  config["architectures"] = {"WombatForCausalLM"};
  config["model_type"] = "wombat";
  Json recipe = golden_file("models/llama/recipe.json");
  const auto parameters = [&](const char* stored, const std::string& flags) {
    const Scratch scratch;
    for (Json& tensor : recipe["tensors"]) tensor["dtype"] = stored;
    shard::write_model(scratch, config, recipe);
    const auto outcome = shell(scratch, kVllmPlan + " --format json" + flags);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return parse_json<Json>(outcome.out)["parameter_bytes"].get<int64_t>();
  };
  const int64_t half = parameters("BF16", "");
  for (const char* stored : {"F16", "F32"}) {
    INFO(stored);
    CHECK(parameters(stored, "") == half);
    CHECK(parameters(stored, " --dtype float32") == 2 * half);
  }
}

TEST_CASE("an index may name tensors that nobody needs, and its word on files does not count") {
  const Scratch scratch;
  Json config = golden_file("models/llama/config.json");
  config["tie_word_embeddings"] = true;
  Json recipe = golden_file("models/llama/recipe.json");
  Json index;
  Json kept = Json::array();
  for (const Json& tensor : recipe["tensors"]) {
    if (tensor["name"] != "lm_head.weight") kept.push_back(tensor);
    index["weight_map"][tensor["name"].get<std::string>()] = "model.safetensors";
  }
  index["weight_map"]["lm_head.weight"] = "model.safetensors";
  index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = "model.safetensors";
  recipe["tensors"] = kept;
  shard::write_model(scratch, config, recipe);
  scratch.write("model/model.safetensors.index.json", index.dump());
  check_alike(scratch, 0);
  CHECK(shell(scratch, "plimsoll shard model -o shards -q").status == 0);
  config["tie_word_embeddings"] = false;
  scratch.write("model/config.json", config.dump());
  check_alike(scratch, 5, "the index says that it is in model.safetensors");
}

TEST_CASE("a quantization_config over plain weights is left over: the files' bytes are counted") {
  const Scratch scratch;
  Json config = golden_file("models/llama/config.json");
  const Json recipe = golden_file("models/llama/recipe.json");
  shard::write_model(scratch, config, recipe);
  const auto bytes = [&](const char* engine) {
    const std::string flags = std::string(" --gpu h100 --engine ") + engine;
    return test::plan_of(scratch, scratch.path("model") + flags)["weights_bytes"].get<int64_t>();
  };
  const int64_t own = bytes("plimsoll");
  const int64_t vllm = bytes("vllm");
  config["quantization_config"] = {{"load_in_4bit", true}, {"quant_method", "bitsandbytes"}};
  scratch.write("model/config.json", config.dump());
  CHECK(bytes("plimsoll") == own);
  CHECK(bytes("vllm") == vllm);
  CHECK(shell(scratch, kVllmPlan + " --format json").out.find("remove quantization_config") !=
        std::string::npos);
}

TEST_CASE("a tower that is not wanted is not needed") {
  for (const char* name : {"gemma3", "idefics3", "internvl2", "llava", "qwen2_5_vl", "qwen2_vl"}) {
    INFO(name);
    const Scratch scratch;
    write_ids(scratch);
    const std::string folder = std::string("multimodal_run/") + name;
    const Json config = golden_file(folder + "/config.json");
    Json recipe = golden_file(folder + "/recipe.json");
    shard::write_model(scratch, config, recipe);
    const std::string text_alone = kRunIds + " --language-model-only";
    const std::string answers = shell(scratch, text_alone).out;
    CHECK(answers.find("token_ids") != std::string::npos);
    Json text = Json::array();
    for (const Json& tensor : recipe["tensors"]) {
      const auto tensor_name = tensor["name"].get<std::string>();
      bool of_tower = false;
      for (const char* part : {"vision", "visual", "mlp1", "projector", "connector"})
        of_tower |= tensor_name.find(part) != std::string::npos;
      if (!of_tower) text.push_back(tensor);
    }
    CHECK(text.size() < recipe["tensors"].size());
    recipe["tensors"] = text;
    fs::remove_all(scratch.path("model"));
    shard::write_model(scratch, config, recipe);
    const auto alone = shell(scratch, text_alone);
    INFO(alone.err);
    CHECK(alone.out == answers);
    CHECK(shell(scratch, kOwnPlan + " --language-model-only").status == 0);
    CHECK(shell(scratch, kVllmPlan + " --language-model-only").status == 0);
    check_alike(scratch, 5, "--language-model-only");
  }
}

TEST_CASE("a Git LFS pointer is refused by the file's name, whichever file it stands for") {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  for (const char* file : {"config.json", "chat_template.jinja", "generation_config.json",
                           "tokenizer_config.json", "tokenizer.json", "model.safetensors"}) {
    const Scratch scratch;
    fs::copy(test::kModel, scratch.path("model"));
    scratch.write("model/" + std::string(file), pointer);
    const auto refused = shell(scratch, R"(echo '{"messages":[{"role":"user","content":"hi"}]}' | )"
                                        "plimsoll run model -i -");
    INFO(refused.err);
    CHECK(refused.status == 5);
    CHECK(refused.err.find(std::string(file) + ": ") != std::string::npos);
    CHECK(refused.err.find("git lfs pull") != std::string::npos);
  }
  const Scratch scratch;
  scratch.write("given.jinja", pointer);
  CHECK(shell(scratch, "echo | plimsoll run $MODEL -i - --chat-template given.jinja").status != 0);
}

TEST_CASE("plan says what a file of weights is, as run does") {
  const Scratch scratch;
  scratch.write("x.gguf", "GGUF and more");
  for (const char* command : {"plan", "run"}) {
    const auto refused = shell(scratch, std::string("plimsoll ") + command + " x.gguf -i -");
    INFO(command << refused.err);
    CHECK(refused.status == 5);
    CHECK(refused.err.find("x.gguf: GGUF version ") != std::string::npos);
  }
}
