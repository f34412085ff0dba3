// Pasted texts that say more than one command line: cards of a task of SkyPilot, of which there may
// be several choices, variables that tell no number of them, functions of a shell, argparse.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "cli/plan/options.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;

TEST_CASE("of several choices of accelerators the first that has any is planned") {
  struct Row {
    const char* resources;
    int64_t gpus;
  };
  for (const Row& row : {
           Row{"  any_of:\n  - accelerators: L4:2\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: A100:8\n  - accelerators: L4:2\n", 8},
           Row{"  any_of:\n  - cloud: aws\n  - accelerators: L4:2\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: L4\n  - accelerators: A100:8\n", 1},
           Row{"  any_of:\n  - accelerators: {L4: 2, A100: 4}\n  - accelerators: A100:8\n", 2},
           Row{"  any_of:\n  - accelerators: [L4:2, A100:4]\n  - accelerators: A100:8\n", 2},
           Row{"  ordered:\n  - accelerators: H100:4\n  - accelerators: L4:8\n", 4},
           Row{"  ordered:\n  - {}\n  - accelerators: H100:4\n  - accelerators: L4:8\n", 4},
           Row{"  accelerators: [A10G:4, L4:8]\n", 4},
       }) {
    INFO(row.resources);
    PlanOptions options;
    expand_pasted_line({"plan", "--from",
                        std::string("resources:\n") + row.resources +
                            "run: vllm serve m -tp $SKYPILOT_NUM_GPUS_PER_NODE"},
                       options);
    CHECK(options.gpus_pasted == row.gpus);
    CHECK(options.launch.args.tensor_parallel == row.gpus);
  }
}

TEST_CASE("a variable that shows or hides all cards tells no number of them") {
  for (const char* variable :
       {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=none",
        "CUDA_VISIBLE_DEVICES=-1", "CUDA_VISIBLE_DEVICES="}) {
    INFO(variable);
    PlanOptions options;
    expand_pasted_line({"plan", "--from", std::string(variable) + " vllm serve m"}, options);
    CHECK_FALSE(options.gpus_pasted);
  }
}

TEST_CASE("arguments of a Python program stand for their defaults") {
  const std::string program =
      "import argparse\nfrom vllm import LLM\n\ndef main():\n"
      "    p = argparse.ArgumentParser()\n"
      "    p.add_argument('-m', '--model', type=str, default=\"org/a\", help='x, (y)')\n"
      "    p.add_argument('--max-len', dest='length', type=int, default=2 * 1024)\n"
      "    p.add_argument('--tp', type=int, default=2)\n"
      "    p.add_argument('--eager', action='store_true')\n"
      "    p.add_argument('--no-cache', action='store_false', dest='cache')\n"
      "    p.add_argument('--seqs', type=int, required=True)\n";
  const std::string call =
      "    llm = LLM(model=args.model, max_model_len=args.length, tensor_parallel_size=args.tp,\n"
      "              enforce_eager=args.eager, enable_prefix_caching=args.cache,\n"
      "              max_num_seqs=args.seqs)\n";
  for (const char* parse :
       {"    args = p.parse_args()\n", "    args, rest = p.parse_known_args()\n",
        "    return p.parse_args()\nargs = main()\n"}) {
    INFO(parse);
    PlanOptions options;
    expand_pasted_line({"plan", "--from", program + parse + call}, options);
    CHECK(options.model == "org/a");
    CHECK(options.launch.args.max_model_len == 2048);
    CHECK(options.launch.args.tensor_parallel == 2);
    CHECK_FALSE(options.launch.args.enforce_eager);
    CHECK(options.launch.args.prefix_caching == true);
    CHECK(options.launch.args.max_num_seqs == 0);
    CHECK(std::ranges::count(options.left_out, "max_num_seqs (not a literal)") == 1);
  }
}

TEST_CASE("a shell's function is the launch that a call makes of it") {
  struct Row {
    std::string text;
    std::string model;
    int64_t tensor, length;
  };
  const std::string plain = "serve() {\n  vllm serve \"$1\" -tp $2 --max-model-len ${3:-777}\n}\n";
  const Row rows[] = {
      {plain + "serve org/a 2\n", "org/a", 2, 777},
      {plain + "echo ready\nserve org/a 4 100 &\nwait", "org/a", 4, 100},
      {"function serve {\n  local m=$1 tp=\"$2\"\n  vllm serve $m -tp $tp\n}\nserve org/a 2",
       "org/a", 2, 0},
      {"start () { exec vllm serve \"$@\"; }\nstart org/a -tp 2 --max-model-len 99", "org/a", 2,
       99},
      {"a() { vllm serve $1 -tp $2; }\nb() { a $2 $1; }\nfor m in 2 4; do b $m org/a; done",
       "org/a", 2, 0},
      {"a() { a $1; vllm serve org/a -tp $1; }\na 2", "org/a", 2, 0},
      {"a() { echo \"}\"; # }\n  vllm serve $1 -tp 2; }\na org/a", "org/a", 2, 0},
      {"b() { vllm serve $1 -tp ${2:-4}; }\na() { b $1; }\na org/a 8", "org/a", 4, 0},
      {"run() { \"$@\"; }\nrun echo x\nrun vllm serve org/a -tp 2", "org/a", 2, 0},
      {"a() { local tp=$1; shift; vllm serve \"$@\" -tp $tp; }\na 2 org/a", "org/a", 2, 0},
      {"a() { vllm serve org/a -tp 2 \"$@\"; }\na", "org/a", 2, 0},
      {"a() { C=\"vllm serve $*\"; $C; }\na org/a -tp 2", "org/a", 2, 0},
      {"a() { vllm serve org/$1b -tp 2; }\na a --x", "org/ab", 2, 0},
      {"set_env() {\n  export TP=4\n}\nset_env\nvllm serve org/a -tp $TP", "org/a", 4, 0},
      // What is not called, or cannot be followed, is read as it stands.
      {"f() { g; }\ng() { f; }\nf\nvllm serve org/a -tp 2", "org/a", 2, 0},
      {"serve() {\n  vllm serve org/a -tp ${2:-2}\n}\n", "org/a", 2, 0},
      {"unused() { vllm serve org/b -tp 8; }\nvllm serve org/a -tp 2", "org/a", 2, 0},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    PlanOptions options;
    expand_pasted_line({"plan", "--from", row.text}, options);
    CHECK(options.model == row.model);
    CHECK(options.launch.args.tensor_parallel == row.tensor);
    CHECK(options.launch.args.max_model_len == row.length);
  }
}

TEST_CASE("a line of ps is the command of its process") {
  for (const char* before : {"admin   491934   1 4 09:32 ?   00:00:14 ",
                             "root 7 99.0 1.2 123456 7890 pts/0 Sl+ Nov02 1-02:33:44 ",
                             "root      12 99 1.2 123456 7890 ?  Sl 09:32 2:07 "}) {
    INFO(before);
    PlanOptions options;
    expand_pasted_line({"plan", "--from",
                        "UID PID PPID C STIME TTY TIME CMD\n" + std::string(before) +
                            "/opt/v/bin/python /opt/v/bin/vllm serve org/m --max-model-len 4096 "
                            "--hf-overrides {\"text_config\": {\"a\": 1}, \"b\": [2, 3]} -tp 2\n"},
                       options);
    CHECK(options.model == "org/m");
    CHECK(options.launch.args.max_model_len == 4096);
    CHECK(options.launch.args.tensor_parallel == 2);
    REQUIRE(options.launch.args.overrides != nullptr);
    CHECK(*options.launch.args.overrides ==
          nlohmann::json::parse(R"({"text_config":{"a":1},"b":[2,3]})"));
  }
}

TEST_CASE("ports and sizes do not make a line one of ps") {
  for (const char* line : {"timeout 3600 docker run -p 8000:8000 vllm/vllm-openai:v0.9.2 --model m",
                           "root 77 0.0 00:00:03 docker run -p 8000:8000 vllm/vllm-openai:v0.9.2 "
                           "--model m"}) {
    INFO(line);
    PlanOptions options;
    expand_pasted_line({"plan", "--from", line}, options);
    CHECK(options.launch.args.version == vllm::VllmVersion{0, 9, 2});
  }
  PlanOptions options;
  expand_pasted_line({"plan", "--from",
                      "root 7 0:01 vllm serve m --speculative-config={\"method\": \"ngram\", "
                      "\"num_speculative_tokens\": 3} --max-num-seqs 5"},
                     options);
  CHECK(options.launch.args.draft_tokens == 3);
  CHECK(options.launch.args.max_num_seqs == 5);
  CHECK(options.left_out.empty());
}

TEST_CASE("pasted flags that choose the engine alone") {
  PlanOptions options;
  expand_pasted_line({"plan", "--from",
                      "vllm serve m --num-scheduler-steps 8 --scheduling-policy priority "
                      "--disable-async-output-proc --seed 1"},
                     options);
  const std::map<std::string, std::string>& beside = options.launch.args.beside;
  CHECK(beside.at("--num-scheduler-steps") == "8");
  CHECK(beside.at("--scheduling-policy") == "priority");
  CHECK(beside.contains("--disable-async-output-proc"));
  CHECK_FALSE(beside.contains("--seed"));
  CHECK(options.left_out.empty());
}

TEST_CASE("words of a hostile line of ps are read in one pass") {
  for (const char* open : {"{", "[", "x"}) {
    PlanOptions options;
    std::string line =
        std::string("root 7 0:01 vllm serve m --max-num-seqs 3 --hf-overrides ") + open;
    for (int i = 0; i < 400000; ++i) line += " y";
    CHECK_THROWS_AS(expand_pasted_line({"plan", "--from", line}, options), Error);
  }
}

TEST_CASE("VLLM_USE_V1 counts in a pasted line and in the environment") {
  const test::Scratch scratch;
  const std::string model = test::kConfigs + "llama-3.1-8b.json";
  const auto graphs = [&](const std::string& line) {
    const test::Outcome outcome = test::shell(scratch, line + " --gpu h100 --format json");
    INFO(outcome.err);
    return parse_json<Json>(outcome.out).at("cuda_graphs").get<int>();
  };
  const std::string flags = " --vllm-version 0.9.2";
  for (const auto& [variable, count] : {std::pair{"VLLM_USE_V1=0 ", 35}, {"VLLM_USE_V1=1 ", 67}}) {
    CHECK(graphs(variable + ("plimsoll plan " + model) + flags) == count);
    CHECK(graphs("plimsoll plan --from '" + (variable + ("vllm serve " + model)) + "'" + flags) ==
          count);
  }
  for (const std::string& shards :
       {"plimsoll plan " + model + " --load-format sharded_state",
        "plimsoll plan --from 'vllm serve " + model + " --load-format sharded_state'"}) {
    CHECK(graphs(shards + flags) == 35);
  }
}

TEST_CASE("a log says which sampler and which engine its launch ran") {
  const auto told = [](const std::string& line) {
    const std::string log =
        "INFO API server version 0.9.2\nINFO non-default args: {'model': 'm'}\n";
    PlanOptions options;
    expand_pasted_line({"plan", "--from", log + line + "\n"}, options);
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      const std::string text = value == nullptr ? "" : value;
      ::unsetenv(name);
      return text;
    };
    return variable("VLLM_USE_FLASHINFER_SAMPLER") + "/" + variable("VLLM_USE_V1");
  };
  CHECK(told("") == "/");
  CHECK(told("FlashInfer is not available. Falling back to the PyTorch-native") == "0/");
  CHECK(told("INFO Using FlashInfer for top-p & top-k sampling.") == "1/");
  CHECK(told("WARNING FlashInfer is available, but it is not enabled. Falling back to the") ==
        "0/");
  CHECK(told("WARNING Compute Capability < 8.0 is not supported by the V1 Engine. Falling back to "
             "V0.") == "/0");
  CHECK(told("INFO Initializing a V1 LLM engine (v0.9.2) with config: model='m'") == "/");
}

TEST_CASE("variables of Slurm count the cards of one node, or of all") {
  struct Row {
    const char* batch;
    const char* word;
    int64_t ranks;
  };
  for (const Row& row :
       {Row{"-N 2 --gpus=8", "$SLURM_GPUS_ON_NODE", 4}, Row{"-N 2 --gpus=8", "$SLURM_GPUS", 8},
        Row{"-N 2 --gpus-per-node=4", "$SLURM_GPUS_ON_NODE", 4},
        Row{"-N 2 --gpus-per-node=4", "$SLURM_GPUS_PER_NODE", 4},
        Row{"--gres=gpu:2", "$SLURM_GPUS_ON_NODE", 2}}) {
    INFO(row.batch << " " << row.word);
    PlanOptions options;
    expand_pasted_line(
        {"plan", "--from", fmt::format("#SBATCH {}\nvllm serve m -tp {}", row.batch, row.word)},
        options);
    CHECK(options.launch.args.tensor_parallel == row.ranks);
  }
}
