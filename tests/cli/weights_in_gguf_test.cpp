// GGUF files as MODEL: planned, run, refused.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "cli/planned.h"
#include "cli/program.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::test;
namespace fs = std::filesystem;

namespace {

const fs::path kGgufGolden = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden/gguf";

/// Writes the model of a recipe as NAME.gguf.
void write_gguf(const Scratch& scratch, const std::string& recipe, const std::string& name) {
  scratch.write(name + ".gguf",
                testing::gguf_bytes(read_json_file(kGgufGolden / "run" / recipe / "recipe.json")));
}

const std::string kGgufRun =
    " --skip-tokenizer-init --dtype float32 --max-tokens 24 --temperature 0 --ignore-eos ";

}  // namespace

TEST_CASE("a GGUF file is run, whole, split and by its folder, with the same answers") {
  const Scratch scratch;
  write_gguf(scratch, "llama_q4_k", "m");
  const Json golden = read_json_file(kGgufGolden / "run/llama_q4_k/golden.json");
  const Json& expected = golden.at("cases").at(0);
  scratch.write("in.jsonl",
                Json{{"prompt_token_ids", expected.at("prompt_token_ids")}}.dump() + "\n");
  const Outcome whole = shell(scratch, "plimsoll run m.gguf" + kGgufRun + "< in.jsonl");
  INFO(whole.err);
  REQUIRE(whole.status == 0);
  const Json line = json_lines(whole.out).at(0);
  CHECK(line.at("choices").at(0).at("token_ids") == expected.at("greedy_token_ids"));
  const Outcome folder =
      shell(scratch, "mkdir f && cp m.gguf f/x.gguf && plimsoll run f" + kGgufRun + "< in.jsonl");
  CHECK(folder.status == 0);
  CHECK(json_lines(folder.out).at(0).at("choices") == line.at("choices"));
}

TEST_CASE("an answer of a GGUF model without add_space_prefix keeps its space") {
  const Scratch scratch;
  constexpr int kNormal = 1, kControl = 3;
  constexpr int64_t kStart = 1, kWord = 300;
  Json tokens = Json::array(), types = Json::array();
  for (int64_t id = 0; id < 512; ++id) {
    tokens.push_back(id == kStart ? "<s>" : id == kWord ? "\u2581you" : "t" + std::to_string(id));
    types.push_back(id == kStart ? kControl : kNormal);
  }
  // The prompt is a control token alone, so the word begins the text.
  scratch.write(
      "in", Json{{"prompt_token_ids", {kStart}}, {"max_tokens", 2}, {"allowed_token_ids", {kWord}}}
                .dump());
  const auto answer = [&](const Json& prefixed) {
    Json recipe = read_json_file(kGgufGolden / "run/llama_q5_0/recipe.json");
    for (Json& pair : recipe["kv"])
      if (pair.at(0) == "tokenizer.ggml.model") pair[2] = "llama";
    recipe["kv"].push_back({"tokenizer.ggml.tokens", "[string]", tokens});
    recipe["kv"].push_back({"tokenizer.ggml.token_type", "[i32]", types});
    recipe["kv"].push_back({"tokenizer.ggml.bos_token_id", "u32", kStart});
    if (!prefixed.is_null())
      recipe["kv"].push_back({"tokenizer.ggml.add_space_prefix", "bool", prefixed});
    scratch.write("m.gguf", testing::gguf_bytes(recipe));
    const Outcome ran = shell(scratch, "plimsoll run m.gguf -q -i in");
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    return json_lines(ran.out).at(0).at("choices").at(0).at("text").get<std::string>();
  };
  CHECK(answer(false) == " you you");
  CHECK(answer(true) == "you you");
  CHECK(answer(nullptr) == "you you");
}

TEST_CASE("a GGUF file's plan is its launch, to the byte") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt_token_ids\":[1,2,3]}\n");
  const std::string limits = " --max-model-len 256 --max-num-seqs 4 ";
  for (const char* recipe : {"llama_q4_k", "llama_q5_0", "mixtral", "qwen35", "deepseek3"}) {
    write_gguf(scratch, recipe, "m");
    for (const char* flags : {"", "--quantized-activations on", "--dtype float32 --threads 1"}) {
      INFO(recipe << ' ' << flags);
      const Json plan = plan_of(scratch, "m.gguf" + limits + flags);
      const Outcome ran =
          shell(scratch, "plimsoll run m.gguf -i in -o out --overwrite" + limits + flags +
                             " --skip-tokenizer-init --max-tokens 2 --report r");
      INFO(ran.err);
      REQUIRE(ran.status == 0);
      const Json memory = parse_json(scratch.read("r"))["memory"];
      CHECK(sum_of_parts(plan) == memory["planned_bytes"].get<int64_t>());
      for (const Json& part : memory["parts"])
        CHECK(part["measured_bytes"] == part["planned_bytes"]);
    }
  }
}

TEST_CASE("ranks give a GGUF file's answers of one rank") {
  const Scratch scratch;
  scratch.write("in.jsonl",
                "{\"prompt_token_ids\":[1,400,3]}\n{\"prompt_token_ids\":[511,256,255,254]}\n");
  for (const char* recipe : {"llama_q5_0", "llama_nvfp4"}) {
    INFO(recipe);
    write_gguf(scratch, recipe, "m");
    const Outcome one = shell(scratch, "plimsoll run m.gguf" + kGgufRun + "< in.jsonl");
    const Outcome two = shell(scratch, "plimsoll run m.gguf -tp 2" + kGgufRun + "< in.jsonl");
    INFO(two.err);
    REQUIRE(one.status == 0);
    CHECK(two.out == one.out);
  }
  for (const char* recipe : {"converted_kimi_linear", "converted_qwen3_5_moe"}) {
    INFO(recipe);
    write_gguf(scratch, recipe, "m");
    const Outcome two = shell(scratch, "plimsoll run m.gguf -tp 2" + kGgufRun + "< in.jsonl");
    CHECK(two.status == 2);
    CHECK_THAT(two.err, Catch::Contains("GGUF files, which ranks do not share yet"));
  }
}

TEST_CASE("plan --explain weights tells the types of a GGUF file's tensors") {
  const Scratch scratch;
  write_gguf(scratch, "mixtral", "m");
  const Outcome plan = shell(scratch, "plimsoll plan m.gguf --device cpu --explain weights");
  INFO(plan.err);
  CHECK(plan.status == 0);
  CHECK_THAT(plan.out, Catch::Contains("; blocks as in the file: Q4_K "));
  CHECK_THAT(plan.out, Catch::Contains(" tensors, Q6_K "));
}

TEST_CASE("a card holds at most a fiftieth more than a GGUF file's tensors") {
  const Scratch scratch;
  const std::string file = scratch.path("m.gguf");
  for (const auto& header :
       fs::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/headers")) {
    INFO(header.path());
    testing::write_gguf_header(read_json_file(header.path()), file);
    const Outcome plan = shell(scratch, "plimsoll plan m.gguf --gpu H200 --format json");
    INFO(plan.err);
    REQUIRE((plan.status == 0 || plan.status == 6));  // 6: it does not fit
    const auto bytes = parse_json(plan.out).at("weights_bytes").get<double>();
    const auto stored = static_cast<double>(fs::file_size(file));  // next to nothing but tensors
    CHECK(bytes <= 1.02 * stored);
    CHECK(bytes >= 0.99 * stored);
  }
}

TEST_CASE("plain matrices of a GGUF file that a card does not multiply are refused by name") {
  const Scratch scratch;
  const auto plan_with = [&](const char* recipe, const char* tensor, const char* type,
                             const std::string& flags) {
    Json changed = read_json_file(kGgufGolden / "run" / recipe / "recipe.json");
    for (Json& entry : changed.at("tensors")) {
      if (entry.at("name") != tensor) continue;
      entry["type"] = type;
      entry.erase("d");
      entry["mean"] = 0;
      entry["amplitude"] = 0.1;
    }
    scratch.write("x.gguf", testing::gguf_bytes(changed));
    return shell(scratch, "plimsoll plan x.gguf " + flags);
  };
  const Outcome half = plan_with("llama_q4_k", "blk.0.attn_q.weight", "F16", "--gpu H100");
  CHECK(half.status == 2);
  CHECK_THAT(half.err, Catch::Contains("blk.0.attn_q.weight of the GGUF file is F16, with which "
                                       "the CUDA backend has no product in bfloat16: --dtype "
                                       "float16 or --device cpu"));
  for (const char* runs : {"--gpu H100 --dtype float16", "--device cpu"}) {
    INFO(runs);
    CHECK(plan_with("llama_q4_k", "blk.0.attn_q.weight", "F16", runs).status == 0);
  }
  CHECK(plan_with("llama_q4_k", "token_embd.weight", "F16", "--gpu H100").status == 0);
  const Outcome experts = plan_with("mixtral", "blk.1.ffn_down_exps.weight", "F32", "--gpu H100");
  CHECK(experts.status == 2);
  CHECK_THAT(experts.err, Catch::Contains("where they are packed alone: give no card"));
  const Outcome slow = plan_with("llama_q4_k", "blk.0.attn_q.weight", "F32", "--gpu H100");
  CHECK(slow.status == 0);
  CHECK_THAT(slow.out + slow.err,
             Catch::Contains("F32 matrices of the GGUF file (1): their products"));
}

TEST_CASE("what is not done with GGUF files is refused by name, with the way out") {
  const Scratch scratch;
  write_gguf(scratch, "llama_q4_k", "m");
  const Outcome vllm = shell(scratch, "plimsoll plan m.gguf --engine vllm --gpu H100");
  CHECK(vllm.status == 2);
  CHECK_THAT(vllm.err, Catch::Contains("vLLM's core no longer loads GGUF files"));
  CHECK_THAT(vllm.err, Catch::Contains("vllm-gguf-plugin"));
  const Outcome shard = shell(scratch, "plimsoll shard m.gguf -o out -tp 2");
  CHECK(shard.status == 5);
  CHECK_THAT(shard.err, Catch::Contains("a GGUF file is not sharded"));
  const Outcome quantized = shell(scratch, "plimsoll plan m.gguf --quantization fp8");
  CHECK(quantized.status == 2);
  CHECK_THAT(quantized.err, Catch::Contains("quantized already"));
  for (const char* command : {"run m.gguf", "run f", "run m.gguf --dry-run"}) {
    for (const char* form : {"dummy", "sharded_state"}) {
      INFO(command << ' ' << form);
      const Outcome outcome =
          shell(scratch, std::string("mkdir -p f; cp m.gguf f; plimsoll ") + command +
                             " -q -i /dev/null -o out --load-format " + form);
      CHECK(outcome.status == 2);
      CHECK_THAT(outcome.err, Catch::Contains("--load-format: the GGUF file"));
    }
  }
  scratch.write("bad.gguf", "GGUF");
  const Outcome bad = shell(scratch, "plimsoll plan bad.gguf; plimsoll run bad.gguf < /dev/null");
  CHECK(bad.status == 5);
  CHECK_THAT(bad.err, Catch::Contains("bad.gguf: ends inside the header (byte 4)"));
}

TEST_CASE("a model of Ollama's store is found by its manifest") {
  const Scratch scratch;
  write_gguf(scratch, "llama_q4_k", "m");
  const std::string store = "export OLLAMA_MODELS=$PWD/store; ";
  shell(scratch,
        "mkdir -p store/manifests/registry.ollama.ai/library/tiny store/blobs && cp m.gguf "
        "store/blobs/sha256-ab12");
  scratch.write("store/manifests/registry.ollama.ai/library/tiny/latest",
                R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"x"},)"
                R"({"mediaType":"application/vnd.ollama.image.model","digest":"sha256:ab12"}]})");
  const Outcome found = shell(scratch, store + "plimsoll plan ollama:tiny");
  INFO(found.err);
  CHECK(found.status == 0);
  const Outcome missing = shell(scratch, store + "plimsoll plan ollama:other:1b");
  CHECK(missing.status == 5);
  CHECK_THAT(missing.err, Catch::Contains("ollama pull other:1b"));
  CHECK(shell(scratch, store + "plimsoll plan ollama:../x").status == 5);
  scratch.write("store/manifests/registry.ollama.ai/library/tiny/bad",
                R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":5}]})");
  const Outcome bad = shell(scratch, store + "plimsoll plan ollama:tiny:bad");
  CHECK(bad.status == 5);
  CHECK_THAT(bad.err, Catch::Contains("tiny/bad: \"digest\" is 5"));
}

TEST_CASE("a model of LM Studio's store is found below HOME, or where its pointer leads") {
  const Scratch scratch;
  write_gguf(scratch, "llama_q4_k", "m");
  const auto status = [&](const std::string& before) {
    return shell(scratch, before + "HOME=$PWD/home plimsoll plan lmstudio:one/tiny").status;
  };
  CHECK(status("mkdir -p home elsewhere/models/one/tiny; ") == 5);
  CHECK(status("mkdir -p home/.cache/lm-studio/models/one/tiny; "
               "cp m.gguf home/.cache/lm-studio/models/one/tiny/; ") == 0);
  CHECK(status("mkdir -p home/.lmstudio/models/one; ") == 5);  // newer, and empty
  CHECK(status("mv home/.cache/lm-studio/models/one/tiny home/.lmstudio/models/one/; ") == 0);
  CHECK(status("echo $PWD/elsewhere > home/.lmstudio-home-pointer; ") == 5);
  CHECK(status("cp m.gguf elsewhere/models/one/tiny/; ") == 0);
}
