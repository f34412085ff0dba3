// `plan` of engines other than vLLM and ours, as a user calls it.
#include <catch2/catch.hpp>
#include <map>

#include "cli/program.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::test;
using Catch::Contains;

namespace {

const std::string kLlama = kConfigs + "llama-3.1-8b.json";

Json planned_json(const Scratch& scratch, const std::string& flags, int status = 0) {
  const Outcome outcome = shell(scratch, "plimsoll plan " + kLlama + " --format json " + flags);
  INFO(outcome.err);
  REQUIRE(outcome.status == status);
  return parse_json<Json>(outcome.out);
}

}  // namespace

TEST_CASE("an engine's own flags stand beside plan's") {
  const Scratch scratch;
  const Json plan = planned_json(scratch,
                                 "--engine sglang --gpu h100 --mem-fraction-static 0.85 --tp-size "
                                 "1 --free-memory before=78.45,after=63.11");
  CHECK(plan["fits"] == true);
  CHECK(plan["engine"]["name"] == "sglang");
  CHECK(plan["engine"]["resolved"]["mem_fraction_static"] == 0.85);
  CHECK(plan["engine"]["sizing"]["max_total_num_tokens"] == 420597);
  CHECK(plan["kv_tokens"] == 420597);
}

TEST_CASE("plan's flags have the engine's names where they differ") {
  const Scratch scratch;
  const Json plan = planned_json(scratch, "--engine sglang --gpu h100 --max-model-len 8192 -tp 2");
  CHECK(plan["engine"]["resolved"]["context_length"] == 8192);
  CHECK(plan["gpus"] == 2);
  const Json other = planned_json(scratch, "--engine lmdeploy --gpu h100 --max-num-seqs 16");
  CHECK(other["engine"]["resolved"]["max_batch_size"] == 16);
}

TEST_CASE("refusals have the engine's words, a stage and an exit status") {
  const Scratch scratch;
  const Json arguments =
      planned_json(scratch, "--engine sglang --gpu h100 --context-length 999999", 2);
  CHECK(arguments["engine"]["stage"] == "arguments");
  CHECK_THAT(arguments["engine"]["refused"].get<std::string>(),
             Contains("User-specified context_length (999999) is greater"));
  const Json memory = planned_json(
      scratch, "--engine lmdeploy --backend pytorch --gpu 4090 --free-memory after=2.0", 6);
  CHECK(memory["engine"]["stage"] == "memory");
  CHECK(memory["verdict"] == "does not fit");
  CHECK(memory["advice"].size() > 0);
}

TEST_CASE("free memory that nobody states is predicted, with bounds") {
  const Scratch scratch;
  const Json plan = planned_json(scratch, "--engine sglang --gpu h100");
  CHECK(plan["bounds"]["kv_tokens"]["low"] < plan["bounds"]["kv_tokens"]["high"]);
  CHECK_THAT(shell(scratch, "plimsoll plan " + kLlama + " --engine sglang --gpu h100").out,
             Contains("free memory is predicted") && Contains("KV cache"));
  for (const char* text : {"after", "after=", "before=3", "after=-1", "after=x", "after=1.2.3"}) {
    INFO(text);
    const Outcome outcome = shell(
        scratch, "plimsoll plan " + kLlama + " --engine sglang --gpu h100 --free-memory " + text);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains("--free-memory: expected"));
  }
}

TEST_CASE("free memory is stated as each engine goes by it") {
  const Scratch scratch;
  struct Row {
    const char *engine, *free;
    int status;
  };
  for (const Row& row : {Row{"sglang", "before=78,after=62", 0}, Row{"sglang", "after=62", 2},
                         Row{"lmdeploy", "after=62", 0}, Row{"transformers", "after=62", 0},
                         Row{"lmdeploy", "before=78,after=62", 0}}) {
    INFO(row.engine << " " << row.free);
    const Outcome outcome = shell(scratch, "plimsoll plan " + kLlama + " --engine " + row.engine +
                                               " --gpu h100 --free-memory " + row.free);
    CHECK(outcome.status == row.status);
    if (row.status != 0) CHECK_THAT(outcome.err, Contains("give before=SIZE too"));
  }
}

TEST_CASE("a pasted line chooses its engine, and an image its release") {
  const Scratch scratch;
  const auto from = [&](const std::string& line, const std::string& flags) {
    const Outcome outcome =
        shell(scratch, "plimsoll plan --from '" + line + "' --gpu h100 --format json " + flags);
    INFO(outcome.err);
    REQUIRE((outcome.status == 0 || outcome.status == 6));
    return parse_json<Json>(outcome.out);
  };
  const Json sglang = from(
      "docker run --gpus all lmsysorg/sglang:v0.5.4-cu128 python3 -m "
      "sglang.launch_server --model-path " +
          kLlama + " --tp 2 --host 0.0.0.0",
      "");
  CHECK(sglang["engine"]["name"] == "sglang");
  CHECK(sglang["engine_version"] == "0.5.4");
  CHECK(sglang["gpus"] == 2);
  CHECK(from("sglang serve --model-path " + kLlama + " --kv_cache_dtype fp8_e4m3",
             "")["engine"]["resolved"]["kv_cache_dtype"] == "fp8_e4m3");
  CHECK(from("lmdeploy serve api_server " + kLlama + " --cache-max-entry-count 0.5",
             "")["engine"]["resolved"]["cache_max_entry_count"] == 0.5);
  CHECK(from("docker run openmmlab/lmdeploy:v0.18.0 lmdeploy serve api_server " + kLlama,
             "")["engine"]["name"] == "lmdeploy");
  CHECK(from("trtllm-serve " + kLlama + " --max_batch_size 64",
             "")["engine"]["resolved"]["max_batch_size"] == 64);
  // A flag beside --from has the last word.
  CHECK(from("sglang serve --model-path " + kLlama + " --page-size 16",
             "--page-size 32")["engine"]["resolved"]["page_size"] == 32);
}

TEST_CASE("llama.cpp's plan of a GGUF file goes by its own flags and each card") {
  const Scratch scratch;
  const std::string file = scratch.path("model.gguf");
  testing::write_gguf_header(read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                            "/tests/data/engines/headers/llama31_8b.Q4_K_M.json"),
                             file);
  const auto plan = [&](const std::string& flags) {
    return shell(scratch, "plimsoll plan " + flags + " --format json");
  };
  const std::string asked = file + " --engine llama.cpp --gpu 4060,3060 ";
  const Outcome two = plan(asked + "-c 32768 --free-memory after=3900MiB:5900MiB");
  INFO(two.err);
  REQUIRE(two.status == 0);
  const Json engine = parse_json<Json>(two.out)["engine"];
  CHECK(engine["name"] == "llamacpp");
  CHECK(engine["resolved"]["n_ctx"] == 32768);
  CHECK(engine["sizing"]["fit"]["tensor_split"].size() == 2);
  CHECK(engine["sizing"]["buffers"].contains("CUDA1"));
  const Outcome large = plan(file + " --engine llamacpp --gpu 3060 -c 131072 -fit off");
  CHECK(large.status == 6);
  CHECK_THAT(large.out, Contains("out of memory"));
  CHECK(plan(file + " --engine llamacpp --gpu 4090 -ctk q9").status == 2);
  // Values that are searched: the launch fits with them, and with the next ones it has no room.
  const std::string small = file + " --engine llamacpp --gpu 3060 -c 131072 -fit off ";
  const auto status = [&](const std::string& flags) { return plan(small + flags).status; };
  std::map<std::string, std::string> flags;
  const Json advised = parse_json<Json>(large.out);
  for (const Json& suggestion : advised["advice"]) {
    const std::string flag = suggestion["flag"];
    flags[flag.substr(0, flag.find(' '))] = flag;
  }
  for (const char* name : {"--ctx-size", "--n-gpu-layers"}) {
    INFO(flags[name]);
    const int value = std::stoi(flags[name].substr(flags[name].find(' ')));
    CHECK(value > 0);
    CHECK(status(flags[name]) == 0);
    const Outcome more = plan(small + name + " " + std::to_string(value + (value < 100 ? 1 : 256)));
    CHECK((more.status == 6 || parse_json<Json>(more.out)["verdict"] == "may fit"));
  }
  const Outcome pasted =
      plan("--from 'docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m " + file +
           " -ngl 20 -c 4096' --gpu 4090");
  CHECK(parse_json<Json>(pasted.out)["engine"]["resolved"]["n_gpu_layers"] == 20);
  CHECK_THAT(shell(scratch, "plimsoll plan " + file + " --engine llamacpp --format log").out,
             Contains("CPU_REPACK model buffer size"));
  // A card of a stated size may have any name.
  const Outcome old = plan(file + " --engine llamacpp --gpu \"GTX 1650\" --gpu-total-memory 4GiB");
  CHECK(parse_json<Json>(old.out)["gpu"] == "GTX 1650");
  CHECK_THAT(plan(file + " --engine llamacpp --gpu smallest").err, Contains("cards by name"));
  CHECK_THAT(plan(file + " --engine llamacpp --free-memory after=4").err, Contains("which card"));
  CHECK_THAT(plan(file + " --engine llamacpp --engine-args {}").err, Contains("flags alone"));
  const Outcome folder = plan(kLlama + " --engine llamacpp");
  CHECK(folder.status == 2);
  CHECK_THAT(folder.err, Contains("convert_hf_to_gguf.py"));
  CHECK_THAT(plan(file + " --engine llamacpp --gguf-type Q4_K_M").err, Contains("is a GGUF file"));
}

TEST_CASE("llama.cpp's plan of a config goes by the mixture of its GGUF file") {
  const Scratch scratch;
  const auto weights = [&](const std::string& type) {
    const Json plan =
        planned_json(scratch, "--engine llamacpp --gpu 4090 -c 4096 --gguf-type " + type);
    CHECK(plan["architecture"] == "llama");
    return plan["engine"]["sizing"]["buffers"]["CUDA0"][0].get<int64_t>();
  };
  CHECK(weights("Q4_K_M") < weights("Q8_0"));
  CHECK(weights("q4_k_m") == weights("Q4_K"));
  const std::string plan = "plimsoll plan " + kLlama + " --gpu 4090 --gguf-type ";
  CHECK_THAT(shell(scratch, plan + "Q4_K_M --engine llamacpp -c 4096").out,
             Contains("planned as the GGUF file that llama-quantize makes") &&
                 Contains("Q4_K_M without an importance matrix: 4.58 GiB of tensors"));
  CHECK_THAT(shell(scratch, plan + "Q2_K_S --engine llamacpp -c 4096").out,
             Contains("Q2_K_S with an importance matrix, which that type needs: "));
  CHECK_THAT(shell(scratch, plan + "Q4_K_M --engine sglang").err,
             Contains("add --engine llamacpp, or leave it out"));
  CHECK_THAT(shell(scratch, plan + "Q9 --engine llamacpp").err, Contains("Q9: not known; one of"));
  CHECK_THAT(shell(scratch, plan + "Q8_0 --engine all").out, Contains("llamacpp"));
}

TEST_CASE("one engine and one release are planned") {
  const Scratch scratch;
  const std::string plan = "plimsoll plan " + kLlama + " --gpu h100 --vllm-version 0.12.0 ";
  CHECK_THAT(shell(scratch, plan + "--engine sglang").err,
             Contains("--engine sglang is another engine"));
  CHECK_THAT(shell(scratch, plan + "--engine vllm --engine-version 0.11.0").err,
             Contains("--engine-version says 0.11.0"));
  CHECK(shell(scratch, plan + "--engine vllm --engine-version 0.12").status == 0);
  CHECK_THAT(shell(scratch, plan + "--from 'sglang serve --model-path m'").err,
             Contains("--engine sglang is another engine"));
}

TEST_CASE("the lines to paste and to expect are the engine's") {
  const Scratch scratch;
  const std::string plan = "plimsoll plan " + kLlama + " --gpu h100 --engine ";
  CHECK(shell(scratch, plan + "sglang --page-size 16 --format args").out == "--page-size 16\n");
  CHECK_THAT(shell(scratch, plan + "sglang --page-size 16 --format serve").out,
             Catch::StartsWith("sglang serve --model-path "));
  CHECK_THAT(shell(scratch, plan + "sglang --format log").out,
             Contains("KV Cache is allocated. dtype: torch.bfloat16, #tokens: "));
  const auto logged = [&](const std::string& flags) {
    return shell(scratch, plan + "vllm --max-model-len 8192 --format log " + flags).out;
  };
  CHECK_THAT(logged(""), Contains("GPU KV cache size: ") &&
                             Contains(" tokens, Maximum concurrency for 8,192 tokens per request"));
  CHECK_THAT(logged("--vllm-version 0.27.0"), Contains(" tokens\nMaximum concurrency for 8,192 "));
  CHECK_THAT(logged("--vllm-version 0.9.1"), Catch::StartsWith("GPU KV cache size: "));
  CHECK_THAT(logged("--vllm-version 0.7.3"),
             Catch::StartsWith("# cuda blocks: ") && Contains("concurrency for 8192 tokens"));
  CHECK_THAT(logged("--vllm-version 0.6.3"), Catch::StartsWith("# GPU blocks: "));
  CHECK_THAT(logged("--max-model-len 131072 --gpu-memory-utilization 0.25"),
             Catch::StartsWith("Available KV cache memory: ") && !Contains("Maximum concurrency"));
  CHECK_THAT(shell(scratch, plan + "plimsoll --max-model-len 8192 --format log").err,
             Contains("plimsoll logs no memory"));
}

TEST_CASE("one table has every engine") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch, "plimsoll plan " + kLlama + " --engine all --gpu h100 --max-model-len 8192");
  CHECK(outcome.status == 0);
  for (const char* name :
       {"plimsoll", "vllm", "sglang", "lmdeploy", "llamacpp", "tensorrt-llm", "transformers"})
    CHECK_THAT(outcome.out, Contains(std::string("\n  ") + name + " "));
  const Json json = planned_json(scratch, "--engine all --gpu h100 --max-model-len 8192");
  CHECK(json["plans"].size() == 7);
  const Outcome line =
      shell(scratch, "plimsoll plan " + kLlama + " --engine all --gpu h100 --format serve");
  CHECK(line.status == 2);
  CHECK_THAT(line.err, Contains("--engine all: prints a table"));
}

TEST_CASE("our flags mean the same to every engine") {
  const Scratch scratch;
  // Sizes in our spelling, as numbers; a name of a type that an engine spells otherwise.
  const Json all = planned_json(scratch,
                                "--engine all --gpu 2xh100 --max-model-len 8k --max-num-seqs 1K "
                                "--kv-cache-dtype fp8");
  int refused = 0;
  for (const Json& plan : all["plans"]) {
    INFO(plan.dump());
    if (plan.value("reason", "").find("llama.cpp loads GGUF files") != std::string::npos) continue;
    if (plan.value("reason", "").find("invalid quant_policy for TurboMind") != std::string::npos) {
      ++refused;  // LMDeploy's, which has no such cache
      continue;
    }
    CHECK(plan["max_model_len"] == 8000);
    CHECK(plan["gpus"] == 2);
    CHECK(plan["fits"] == true);
  }
  CHECK(refused == 1);
  const Json undivided = planned_json(scratch, "--engine all --gpu 2xh100 -tp 1");
  CHECK(undivided["plans"].size() == 7);
  for (const Json& plan : undivided["plans"]) {
    INFO(plan.dump());
    if (plan.value("reason", "").find("llama.cpp loads GGUF files") != std::string::npos) continue;
    CHECK(plan["gpus"] == 1);
    CHECK(plan["notes"].dump().find("the launch uses 1 of 2 GPUs") != std::string::npos);
  }
  const auto tokens = [&](const std::string& flags) {
    return planned_json(scratch, "--gpu h100 --engine " + flags)["kv_tokens"].get<int64_t>();
  };
  CHECK(tokens("sglang --max-model-len 8k") == tokens("sglang --context-length 8000"));
  CHECK(tokens("sglang --enforce-eager --max-model-len 8k") ==
        tokens("sglang --disable-cuda-graph --context-length 8000"));
  CHECK(tokens("lmdeploy --backend pytorch --kv-cache-dtype fp8") ==
        tokens("lmdeploy --backend pytorch --quant-policy fp8"));
  CHECK(tokens("lmdeploy --gpus 2") == tokens("lmdeploy --tp 2"));
  CHECK(tokens("lmdeploy --gpus 2 --dp 1") == tokens("lmdeploy --tp 1"));
  const std::string plan = "plimsoll plan " + kLlama + " --gpu h100 --engine ";
  CHECK_THAT(shell(scratch, plan + "sglang --max-model-len auto").err,
             Contains("--max-model-len auto: sglang's plan takes a number"));
  CHECK_THAT(shell(scratch, plan + "all --enforce-eager").out,
             Contains("lmdeploy: planned without --enforce-eager"));
  // Weights that are quantized while they are loaded are counted so, or said to be not.
  CHECK(planned_json(scratch, "--gpu h100 --engine sglang --quantization fp8")["weights_bytes"] ==
        planned_json(scratch, "--gpu h100 --engine vllm --quantization fp8")["weights_bytes"]);
  CHECK_THAT(shell(scratch, plan + "sglang --quantization awq").out,
             Contains("--quantization awq: weights are counted as the checkpoint stores them"));
}

TEST_CASE("two engines' plans differ by parts that are named") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch, "plimsoll plan " + kLlama +
                         " --engine sglang --gpu h100 --format json > a; plimsoll "
                         "plan " +
                         kLlama +
                         " --engine lmdeploy --gpu h100 --format json > b; plimsoll plan "
                         "--diff a b");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out,
             Contains("sglang -> lmdeploy") && Contains("kv cache") && Contains("kv_tokens"));
}
