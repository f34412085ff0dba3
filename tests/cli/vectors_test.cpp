// Launches for vLLM that answer with vectors: what the command line and files beside the config
// ask.
#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/planned.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;
namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig =
    R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 151669,
    "max_position_embeddings": 32768, "tie_word_embeddings": false})";
constexpr const char* kModules =
    R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";

Json plan(const Scratch& scratch, const std::string& flags) {
  return test::plan_of(scratch, "model --engine vllm --gpu h100 " + flags);
}

std::string modules_at(const std::string& path) {
  Json modules = parse_json<Json>(kModules);
  modules[1]["path"] = path;
  return modules.dump();
}

}  // namespace

TEST_CASE("modules.json beside a config asks for vectors, as --runner pooling does") {
  const Scratch scratch;
  fs::create_directories(scratch.path("model/1_Pooling"));
  scratch.write("model/config.json", kConfig);
  const Json text = plan(scratch, "");
  const Json asked =
      plan(scratch, "--runner pooling --pooler-config '{\"pooling_type\": \"MEAN\"}'");
  CHECK(asked["kv_cache_bytes"] > text["kv_cache_bytes"]);
  CHECK(text["max_num_batched_tokens"] == 8192);
  CHECK(asked["max_num_batched_tokens"] == 32768);  // whole prompts, for the mean of their tokens

  scratch.write("model/modules.json", kModules);
  CHECK(plan(scratch, "")["max_num_batched_tokens"] == 8192);  // the last token's vector
  scratch.write("model/1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  const Json found = plan(scratch, "");
  CHECK(found["kv_cache_bytes"] == asked["kv_cache_bytes"]);
  CHECK(found["max_num_batched_tokens"] == 32768);
  CHECK(plan(scratch, "--pooler-config '{\"pooling_type\": \"LAST\"}'")["max_num_batched_tokens"] ==
        8192);
  CHECK(plan(scratch, "--runner generate")["kv_cache_bytes"] == text["kv_cache_bytes"]);

  // Nothing outside the model's folder is read.
  scratch.write("config.json", R"({"pooling_mode_mean_tokens": true})");
  for (const std::string& path :
       {std::string(".."), scratch.path(""), std::string("x/../.."), std::string("nowhere")}) {
    INFO(path);
    scratch.write("model/modules.json", modules_at(path));
    CHECK(plan(scratch, "")["max_num_batched_tokens"] == 8192);
  }
  for (const char* other : {"[]", "{}", "3", R"([{"type": 3}])", R"([{"path": "1_Pooling"}])",
                            R"([{"type": "sentence_transformers.models.Normalize"}])"}) {
    INFO(other);
    scratch.write("model/modules.json", other);
    CHECK(plan(scratch, "")["kv_cache_bytes"] == text["kv_cache_bytes"]);
  }
  scratch.write("model/modules.json", "[");
  const test::Outcome broken = shell(scratch, "plimsoll plan model --engine vllm --gpu h100 2>&1");
  CHECK(broken.status == 5);
  CHECK_THAT(broken.out, Catch::Contains("modules.json"));
}

TEST_CASE("flags of older releases say the same, and --format args prints them") {
  const Scratch scratch;
  fs::create_directories(scratch.path("model"));
  scratch.write("model/config.json", kConfig);
  const auto args = [&](const std::string& flags) {
    return shell(scratch, "plimsoll plan model --gpu h100 --format args " + flags).out;
  };
  CHECK(plan(scratch, "--vllm-version 0.12.0 --task embed")["kv_cache_bytes"] ==
        plan(scratch, "--vllm-version 0.12.0 --runner pooling")["kv_cache_bytes"]);
  CHECK_THAT(args("--vllm-version 0.12.0 --task embed"), Catch::Contains("--task embed"));
  const std::string older =
      "--vllm-version 0.11.0 --runner pooling --override-pooler-config '{\"pooling_type\": "
      "\"CLS\"}'";
  CHECK(plan(scratch, older)["max_num_batched_tokens"] == 32768);
  CHECK_THAT(args(older), Catch::Contains("--override-pooler-config.pooling_type CLS"));
}

TEST_CASE("flags of vectors are refused where they say nothing, and noted for other engines") {
  const Scratch scratch;
  fs::create_directories(scratch.path("model"));
  scratch.write("model/config.json", kConfig);
  const auto said = [&](const std::string& flags) {
    return shell(scratch, "plimsoll plan model --gpu h100 " + flags + " 2>&1").out;
  };
  CHECK_THAT(said("--engine vllm --runner vectors"), Catch::Contains("--runner"));
  CHECK_THAT(said("--engine vllm --pooler-config '{\"pooling_type\": \"MIDDLE\"}'"),
             Catch::Contains("--pooler-config") && Catch::Contains("MIDDLE"));
  CHECK_THAT(said("--engine vllm --pooler-config '{\"pooling_type\": 3}'"),
             Catch::Contains("pooling_type"));
  CHECK_THAT(said("--engine vllm --pooler-config 3"), Catch::Contains("a JSON object"));
  CHECK_THAT(said("--engine vllm --runner pooling --convert none"),
             Catch::Contains("does not support `--runner pooling`"));
  CHECK_THAT(said("--vllm-version 0.33.0 --task embed"),
             Catch::Contains("vLLM has it from 0.6.4 to 0.12.0"));
  CHECK_THAT(said("--vllm-version 0.9.2 --runner pooling"),
             Catch::Contains("vLLM has it from 0.10.0"));
}
