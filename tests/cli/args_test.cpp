// `plan --format args`: pasted back, the flags give the plan that printed them.
#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>
#include <regex>
#include <set>

#include "cli/launch_flags.h"
#include "cli/program.h"
#include "plan/pooled_configs.h"

using namespace plimsoll;
using test::kConfigs;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

struct Row {
  std::string flags, gpu = "h100", model = "llama-3.1-8b.json";
};

const std::string kSees = "qwen2.5-vl-3b.json";

// A row for each flag of a launch that both engines take, or vLLM alone.
const std::vector<Row> kBoth = {
    {"--max-model-len 8k"},
    {"--max-num-seqs 77"},
    {"--max-num-seqs auto --max-model-len 4096"},
    {"--max-num-batched-tokens 1024"},
    {"--no-enable-chunked-prefill"},
    {"--no-enable-prefix-caching"},
    {"--gpu-memory-utilization 0.7712345"},
    {"--kv-cache-memory 2GiB --max-model-len 4096"},
    {"--num-gpu-blocks-override 9000"},
    {"--block-size 32"},
    {"--dtype float16"},
    {"--quantization fp8"},
    {"--kv-cache-dtype fp8"},
    {"-tp 2"},
    {"-pp 2"},
    {"-dp 2"},
    {"--enforce-eager"},
    {"--cudagraph-capture-sizes 1,2,4"},
    {"--cuda-graph-sizes 16"},
    {"--max-cudagraph-capture-size 16"},
    {"-O 1"},
    {"--optimization-level 1"},
    {"-O '{\"cudagraph_mode\":\"NONE\"}'"},
    {"-O '{\"cudagraph_capture_sizes\": [1, 2]}'"},
    {"--limit-mm-per-prompt image=2,video=0", "h100", kSees},
    {"--limit-mm-per-prompt '{\"image\": {\"count\": 1, \"width\": 512, \"height\": 512}}'", "h100",
     kSees},
    {"--mm-processor-kwargs '{\"max_pixels\": 589824}'", "h100", kSees},
    {"--mm-processor-kwargs.max_pixels 589824", "h100", kSees},
    {"--language-model-only", "h100", kSees},
    {"--mm-processor-cache-gb 2", "h100", kSees}};
const std::vector<Row> kVllm = {
    // Our own engine's pool under "auto" is that of the model's full length.
    {"--max-model-len auto", "a10"},
    {"--cpu-offload-gb 2"},
    {"--cpu-offload-gb 512M"},
    {"--mamba-ssm-cache-dtype float32"},
    {"--mamba-cache-mode align"},
    {"--mamba-block-size 64"},
    {"--disable-hybrid-kv-cache-manager"},
    {"--allow-deprecated-quantization"},
    {"--no-async-scheduling"},
    {"--performance-mode throughput"},
    {"--enable-lora --max-loras 2 --max-lora-rank 32"},
    {"--speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 3, "
     "\"prompt_lookup_max\": 4}'"},
    {"--hf-overrides '{\"num_hidden_layers\": 20}'"},
    {"--rope-scaling '{\"rope_type\":\"yarn\",\"factor\":2.0,\"original_max_position_embeddings\":"
     "131072}' --max-model-len 200000"},
    {"--rope-theta 1000000"},
    {"--disable-custom-all-reduce -tp 2"},
    {"--decode-context-parallel-size 2 -tp 16"},
    {"--enable-batch-sharded-sampling -tp 2"},
    {"--enable-sleep-mode"},
    {"--runner pooling"},
    {"--convert classify"},
    {"--task embed"},
    {"--task classify"},
    {"--task generate"},
    {"--convert embed --override-pooler-config '{\"pooling_type\": \"CLS\"}'"},
    {"--runner pooling --pooler-config '{\"pooling_type\": \"MEAN\"}'"},
    {"--attention-backend FLASHINFER"},
    {"--skip-mm-profiling", "h100", kSees}};
const std::vector<Row> kOwn = {{"--gpu-memory 40GiB"},       {"--reserved-memory 9GiB"},
                               {"--deterministic"},          {"--quantized-activations off"},
                               {"--cpu-kvcache-space 3GiB"}, {"--threads 2"},
                               {"--cpu-isa avx2"},           {"--device cuda"}};

Json plan_of(const Outcome& outcome) {
  REQUIRE(!outcome.out.empty());
  Json plan = parse_json<Json>(outcome.out);
  // Arguments replace findings: the flags name the values that were found.
  if (plan.contains("auto_max_model_len")) plan["max_model_len"] = plan["auto_max_model_len"];
  // Flags fix the size of vLLM's cache, which is estimated without them.
  for (const char* beside :
       {"notes", "advice", "solved", "auto_max_model_len", "assume", "bounds", "cold_boot"})
    plan.erase(beside);
  return plan;
}

}  // namespace

TEST_CASE("--engram-config of --format args, pasted back, gives the same plan") {
  const Scratch scratch;
  const std::string start = "plimsoll plan " +
                            scratch.write("config.json", plan::qwen_flash().dump()) +
                            " --gpu h200 --engine vllm ";
  const Json asked =
      plan_of(shell(scratch, start + "--engram-config '{\"cpu_offload\": false}' --format json"));
  scratch.write(
      "args",
      shell(scratch, start + "--engram-config '{\"cpu_offload\": false}' --format args").out);
  CHECK(plan_of(shell(scratch, start + "$(cat args) --format json")) == asked);
  CHECK(plan_of(shell(scratch, start + "--format json")) != asked);
}

TEST_CASE("flags of --format args, pasted back, give the same plan") {
  const Scratch scratch;
  const auto check = [&](const Row& row, const std::string& engine) {
    INFO(engine << " " << row.flags);
    const std::string start = "plimsoll plan --gpu " + row.gpu + " --engine " + engine + " ";
    const std::string model = kConfigs + row.model + " ";
    const Json asked = plan_of(shell(scratch, start + model + row.flags + " --format json"));
    const Outcome args = shell(scratch, start + model + row.flags + " --format args");
    INFO(args.out << args.err);
    REQUIRE(args.status == 0);
    scratch.write("args", args.out);
    CHECK(plan_of(shell(scratch, start + model + "$(cat args) --format json")) == asked);
    if (engine != "vllm") return;
    CHECK(plan_of(shell(scratch, start + "--format json --from \"vllm serve " + model +
                                     "$(cat args)\"")) == asked);
  };
  for (const Row& row : kBoth) {
    check(row, "vllm");
    check(row, "plimsoll");
  }
  for (const Row& row : kVllm) check(row, "vllm");
  for (const Row& row : kOwn) check(row, "plimsoll");
}

TEST_CASE("sizes of --format args are in the unit that vLLM reads there") {
  struct Row {
    const char *flag, *size, *printed;
  };
  const Scratch scratch;
  for (const Row& row :
       {Row{"--cpu-offload-gb", "10", "10"},  // GiB
        Row{"--cpu-offload-gb", "10GiB", "10"}, Row{"--cpu-offload-gb", "512MiB", "0.5"},
        Row{"--cpu-offload-gb", "10GB", "9.313225746154785"},  // 10^10 / 2^30
        Row{"--mm-processor-cache-gb", "2", "2"},
        Row{"--kv-cache-memory-bytes", "20GiB", "21474836480"},
        Row{"--kv-cache-memory-bytes", "20GB", "20000000000"}}) {
    const std::string flags = std::string(row.flag) + " " + row.size;
    INFO(flags);
    for (const char* format : {" --format args", " --format serve"}) {
      const Outcome printed = shell(scratch, "plimsoll plan " + kConfigs + kSees +
                                                 " --engine vllm --gpu h100 " + flags + format);
      CHECK(printed.status == 0);
      const std::string line = " " + printed.out.substr(0, printed.out.find('\n')) + " ";
      CHECK_THAT(line, Catch::Contains(" " + std::string(row.flag) + " " + row.printed + " "));
    }
  }
}

TEST_CASE("flags of --format args are the release's") {
  const Scratch scratch;
  const auto printed = [&](const std::string& flags) {
    return shell(scratch, "plimsoll plan --gpu h100 --engine vllm --format args " + kConfigs +
                              "llama-3.1-8b.json " + flags)
        .out;
  };
  using Catch::Contains;
  const std::string overrides = "--hf-overrides '{\"num_hidden_layers\": 16}'";
  CHECK_THAT(printed(overrides), Contains(" --hf-overrides.num_hidden_layers 16"));
  CHECK_THAT(printed("--vllm-version 0.8.5 " + overrides),
             Contains(" --hf-overrides '{\"num_hidden_layers\":16}'"));
  CHECK_THAT(printed("--rope-theta 5"), Contains(" --hf-overrides.rope_theta 5"));
  CHECK_THAT(printed("--vllm-version 0.11.0 --rope-theta 5"), Contains(" --rope-theta 5"));
  CHECK_THAT(printed("-O 1"), Contains(" --optimization-level 1"));
  CHECK_THAT(printed("--vllm-version 0.11.0 -O 1"), Contains(" --compilation-config 1"));
  CHECK_THAT(printed("--vllm-version 0.8.5 --cudagraph-capture-sizes 1,2"),
             Contains(" --compilation-config '{\"cudagraph_capture_sizes\":[1,2]}'"));
  for (const char* absent :
       {"--attention-backend FLASHINFER", "--language-model-only", "--performance-mode balanced"}) {
    const std::string flags = std::string("--vllm-version 0.11.0 ") + absent;
    CHECK_THAT(printed(flags), !Contains(std::string(absent).substr(0, 12)));
    if (std::string(absent).starts_with("--perf")) continue;
    CHECK_THAT(shell(scratch, "plimsoll plan --gpu h100 --engine vllm " + kConfigs +
                                  "llama-3.1-8b.json " + flags)
                   .out,
               Contains("vLLM 0.11.0 refuses the flag, which is heeded here"));
  }
}

TEST_CASE("keys of --compilation-config that a release lacks are noted, and left out of its line") {
  const Scratch scratch;
  const auto told = [&](const std::string& version, const std::string& keys,
                        const std::string& format = "") {
    const std::string printed = shell(scratch,
                                      "plimsoll plan --gpu h100 --engine vllm "
                                      "--vllm-version " +
                                          version + format + " --compilation-config '" + keys +
                                          "' " + kConfigs + "llama-3.1-8b.json")
                                    .out;
    return std::regex_replace(printed, std::regex("\\n *"), " ");  // lines are wrapped
  };
  using Catch::Contains;
  const std::string piecewise = R"({"cudagraph_mode": "PIECEWISE", "use_inductor": true})";
  CHECK_THAT(told("0.33.0", piecewise),
             Contains("vLLM 0.33.0 refuses the key use_inductor of --compilation-config; vLLM has "
                      "it from 0.6.5 to 0.11.2") &&
                 !Contains("key cudagraph_mode"));
  CHECK_THAT(told("0.10.0", piecewise),
             Contains("vLLM 0.10.0 ignores the key cudagraph_mode of --compilation-config; vLLM "
                      "has it from 0.10.1 on") &&
                 !Contains("key use_inductor"));
  CHECK_THAT(told("0.33.0", R"({"cudagraph_modus": "FULL"})"),
             Contains("the key cudagraph_modus of --compilation-config; no release has it"));
  const std::string line = told("0.33.0", piecewise, " --format args");
  CHECK_THAT(line, Contains("--compilation-config.cudagraph_mode PIECEWISE"));
  CHECK_THAT(line, !Contains("use_inductor"));
}

TEST_CASE("every flag of a launch has a row above") {
  CLI::App command;
  launch::LaunchRequest flags;
  cli::declare_launch_flags(command, flags);
  std::string rows;
  for (const std::vector<Row>* some : {&kBoth, &kVllm, &kOwn})
    for (const Row& row : *some) rows += row.flags + " ";
  for (const CLI::Option* option : command.get_options()) {
    bool found = option->check_lname("help") || option->check_lname("usage") ||
                 option->check_lname("enable-expert-parallel") ||  // a dense model refuses it
                 option->check_lname("engram-config");             // its case has a model for it
    for (const char* planned : {"flashinfer-sampler", "interconnect", "assume"})
      found = found || option->check_lname(planned);  // facts for the plan; no engine has the flag
    for (const auto& [name, known] : {std::pair{"tensor-parallel-size", "-tp"},
                                      {"pipeline-parallel-size", "-pp"},
                                      {"data-parallel-size", "-dp"}})
      found = found || (option->check_lname(name) && rows.find(known) != std::string::npos);
    for (const std::string& name : option->get_lnames())
      found = found || rows.find("--" + name) != std::string::npos;
    for (const std::string& name : option->get_snames())
      found = found || rows.find("-" + name + " ") != std::string::npos;
    INFO(option->get_name());
    CHECK(found);
  }
}

TEST_CASE("--format serve is the whole line, which --from takes") {
  const Scratch scratch;
  scratch.write("a model.json", read_text_file(kConfigs + "llama-3.1-8b.json"));
  const std::string plan = "plimsoll plan 'a model.json' --gpu 4090 --max-model-len 16k ";
  const std::string flags = shell(scratch, plan + "--engine vllm --format args").out;
  const Outcome line = shell(scratch, plan + "--engine vllm --format serve");
  CHECK(line.out == "vllm serve 'a model.json' " + flags);
  scratch.write("line", line.out);
  CHECK(shell(scratch, "plimsoll plan --gpu 4090 --from line --format args").out == flags);
  CHECK_THAT(shell(scratch, plan + "--format serve").out,
             Catch::StartsWith("plimsoll run 'a model.json' --max-model-len 16000"));
}

TEST_CASE("of a launch that does not fit --format args and serve print nothing") {
  const Scratch scratch;
  const Outcome whole = shell(scratch, "plimsoll plan " + kConfigs +
                                           "llama-2-7b.json --engine vllm --gpu t4 --format serve");
  CHECK(whole.status == 6);
  CHECK(whole.out.empty());
  const Outcome args = shell(scratch, "plimsoll plan " + kConfigs +
                                          "llama-2-7b.json --engine vllm --gpu t4 --format args");
  CHECK(args.status == 6);
  CHECK(args.out.empty());
  CHECK_FALSE(args.err.empty());
}

TEST_CASE("a flag given twice counts as given last, a switch too") {
  const Scratch scratch;
  for (const char* flags :
       {"--seed 1 --seed 2", "--temperature 0 --temperature 1", "--stop a --stop b", "-n 1 -n 2",
        "-o a -o b", "--tokenizer x --tokenizer y", "-m x", "--top-p 1 --top-p 0.5"}) {
    INFO(flags);
    const Outcome plan = shell(scratch, std::string("plimsoll plan ") + flags + " -m $MODEL");
    CHECK(plan.err.empty());
    CHECK(plan.status == 0);
  }
  const auto blocks = [&](const std::string& flags) {
    return shell(scratch, "plimsoll plan $MODEL --format args " + flags).out;
  };
  CHECK(blocks("--no-enable-prefix-caching --enable-prefix-caching") ==
        blocks("--enable-prefix-caching"));
  CHECK(blocks("--enable-prefix-caching --no-enable-prefix-caching") ==
        blocks("--no-enable-prefix-caching"));
  CHECK(blocks("--enable-prefix-caching") != blocks("--no-enable-prefix-caching"));
}
