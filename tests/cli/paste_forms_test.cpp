// Forms of pasted launches that stand in few pages: flags of containers, programs that start
// others, values of manifests and of Python calls, files that the host has.
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/plan/options.h"
#include "cli/plan/paste/pasted_launch.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::Scratch;

namespace {

using FormNames = std::vector<std::string>;

PlanOptions planned_form(const std::string& text) {
  PlanOptions options;
  expand_pasted_line({"plan", "--from", text}, options);
  return options;
}

/// Checks that the text launches m with a context of 4096, and leaves nothing out.
PlanOptions check_form(const std::string& text) {
  INFO(text);
  const PlanOptions options = planned_form(text);
  CHECK(options.engine == "vllm");
  CHECK(options.model == "m");
  CHECK(options.launch.args.max_model_len == 4096);
  CHECK(options.left_out.empty());
  return options;
}

/// The arguments of `plan` that a launch of another engine stands for.
std::string words_from(const std::string& text, PlanOptions& options) {
  const auto words = expand_pasted_line({"plan", "--from", text}, options);
  return fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
}

const std::string kServe = "vllm serve m --max-model-len 4096";
const std::string kModelFlags = " --model m --max-model-len 4096";

}  // namespace

TEST_CASE("programs that start others stand before a launch with their own flags") {
  for (const char* starter : {"timeout 3600",
                              "timeout -k 5 3600",
                              "timeout -s KILL 3600",
                              "taskset -c 0-3",
                              "taskset 0xff",
                              "numactl -N 0 -m 0",
                              "numactl -C 0-7",
                              "ionice -c 2 -n 7",
                              "nice -n 5",
                              "stdbuf -o L -e L",
                              "sudo -u me -g us",
                              "doas -u me",
                              "env -u A -C /x",
                              "time",
                              "setsid",
                              "exec",
                              "tini --",
                              "dumb-init --",
                              "unbuffer",
                              "systemd-run --unit a",
                              "uvx --python 3.12",
                              "poetry run",
                              "pdm run",
                              "hatch run",
                              "micromamba run -n v",
                              "ray symmetric-run --address a:1 --min-nodes 2 --",
                              "salloc -N 1 -t 1:00",
                              "wsl.exe -d U --user me"})
    check_form(std::string(starter) + " " + kServe);
  for (const std::string& shell :
       {"sh -c '" + kServe + "'", "bash --login -c '" + kServe + "'", "dash -ec '" + kServe + "'"})
    check_form(shell);
}

TEST_CASE("flags of docker run take a value or none, in one word or in two") {
  for (const char* flags :
       {"--init", "-P", "--privileged --read-only", "-tid", "--rm --detach --tty --interactive",
        "--network host --shm-size=8g", "-p 80:80 -p81:81", "--name v --quiet", "-v=a:/b",
        "--pull always --sig-proxy", "--no-healthcheck --publish-all -u 1000:1000"})
    check_form(fmt::format("docker run {} vllm/vllm-openai:v0.12.0{}", flags, kModelFlags));
  const PlanOptions options = planned_form(
      "docker run --env-file e.env --env-file=f.env vllm/vllm-openai:v0.12.0" + kModelFlags);
  CHECK(options.left_out == FormNames{"--env-file e.env", "--env-file f.env"});
}

TEST_CASE("the cards that a launch sees are the fewest that its text names") {
  struct Row {
    std::string text;
    std::optional<int64_t> gpus;
  };
  const std::string compose = "services:\n  v:\n    image: vllm/vllm-openai\n    command: m\n";
  for (const Row& row : {
           Row{"docker run --gpus count=2 vllm/vllm-openai m", 2},
           Row{"docker run --gpus 4 -e CUDA_VISIBLE_DEVICES=0,1 vllm/vllm-openai m", 2},
           Row{"docker run --gpus 1 -e CUDA_VISIBLE_DEVICES=0,1 vllm/vllm-openai m", 1},
           Row{"docker run -e NVIDIA_VISIBLE_DEVICES=0,2,3 vllm/vllm-openai m", 3},
           Row{"docker run --gpus 0 vllm/vllm-openai m", {}},
           Row{"docker run --gpus x vllm/vllm-openai m", {}},
           Row{"podman run --device=nvidia.com/gpu=3 vllm/vllm-openai m", 1},
           Row{"podman run --device /dev/fuse vllm/vllm-openai m", {}},
           Row{compose + "    gpus: 2\n", 2},
           Row{compose + "    gpus: all\n", {}},
           Row{compose + "    gpus: [{count: 3}]\n", 3},
           Row{compose + "    resources: {requests: {nvidia.com/gpu: 5}}\n", 5},
           Row{"servingEngineSpec:\n  modelSpec:\n  - modelURL: m\n    requestGPU: 4\n", 4},
           Row{"salloc --gpus=3 vllm serve m", 3},
           Row{"srun -G 2 -N 4 vllm serve m", 2},
       }) {
    INFO(row.text);
    CHECK(planned_form(row.text).gpus_pasted == row.gpus);
  }
  // Of a Ray cluster a container's cards are a part of the launch's.
  const std::string spec =
      "spec: {containers: [{image: vllm/vllm-openai, args: [--model, m], resources: {limits: "
      "{nvidia.com/gpu: 1}}}]}";
  CHECK_FALSE(planned_form("apiVersion: v1\nspec: {workerGroupSpecs: [{template: {" + spec + "}}]}")
                  .gpus_pasted);
}

TEST_CASE("a launch's usage is that of its program") {
  const auto usage = [](const std::string& text) { return check_form(text).launch.args.usage; };
  CHECK(usage("python -m vllm.entrypoints.openai.run_batch -i a -o b" + kModelFlags) ==
        vllm::Usage::batch);
  CHECK(usage("python -m vllm.entrypoints.cli.main run-batch -i a" + kModelFlags) ==
        vllm::Usage::batch);
  CHECK(usage("python /src/vllm/entrypoints/openai/api_server.py" + kModelFlags) ==
        vllm::Usage::server);
  for (const char* bench :
       {"vllm bench latency", "vllm bench throughput", "python benchmarks/benchmark_throughput.py",
        "python3 benchmark_latency.py"})
    CHECK(usage(bench + kModelFlags) == vllm::Usage::offline);
  const std::string ray =
      "c = LLMConfig(model_loading_config={'model_id': 'm'}, engine_kwargs={'max_model_len': "
      "4096})";
  CHECK(usage(ray) == vllm::Usage::server);
  const std::string args = "non-default args: {'max_model_len': 4096, 'model': 'm'}";
  CHECK(usage("INFO " + args) == vllm::Usage::offline);
  CHECK(usage("(APIServer pid=1) INFO " + args) == vllm::Usage::server);
  CHECK(usage("INFO API server version 0.12.0\n" + args) == vllm::Usage::server);
  CHECK(usage("non-default args: {'max_model_len': 4096, 'model_tag': 'm'}") ==
        vllm::Usage::server);
  CHECK(planned_form("LLMConfig(model_loading_config=f(), engine_kwargs=g())").left_out ==
        FormNames{"model_loading_config (not a literal)", "engine_kwargs (not a literal)"});
}

TEST_CASE("an image's month is a release of vLLM, and images have FlashInfer") {
  for (const auto& [tag, release] :
       {std::pair{"25.10", "0.10.2"}, std::pair{"25.11", "0.11.0"}, std::pair{"25.12", "0.11.1"},
        std::pair{"26.01", "0.13.0"}, std::pair{"26.03", "0.17.1"}, std::pair{"26.05", "0.20.1"},
        std::pair{"26.08", "0.27.1"}, std::pair{"26.10", "0.31.0"}}) {
    INFO(tag);
    const PlanOptions options =
        check_form(fmt::format("docker run nvcr.io/nvidia/vllm:{}-py3 {}", tag, kServe));
    CHECK(vllm::version_text(options.launch.args.version) == release);
    CHECK(options.release_note.empty());
    CHECK(options.launch.args.flashinfer_installed == true);
  }
  CHECK(planned_form("docker run vllm/vllm-openai:v0.12.0 m").launch.args.flashinfer_installed ==
        true);
  CHECK(planned_form(kServe).launch.args.flashinfer_installed ==
        PlanOptions().launch.args.flashinfer_installed);
  CHECK(vllm::version_text(planned_form("%pip install vllm==0.12.0\nfrom vllm import LLM\nLLM('m')")
                               .launch.args.version) == "0.12.0");
}

TEST_CASE("mounts are read in every spelling, and where this folder is the host's") {
  const Scratch scratch;
  const std::string file = scratch.write("c.yaml", "max-model-len: 4096\n");
  const std::string folder = file.substr(0, file.rfind('/'));
  const std::string image = " vllm/vllm-openai --model m --config /cfg/c.yaml";
  for (const std::string& mount :
       {"-v " + folder + ":/cfg/", "-v " + folder + ":/cfg:ro,z",
        "--mount type=bind,src=" + folder + ",dst=/cfg",
        "--mount type=bind,source=" + folder + ",destination=/cfg,readonly"})
    check_form("docker run " + mount + image);
  check_form("services:\n  v:\n    image: vllm/vllm-openai\n    volumes: [{type: bind, source: " +
             folder + ", target: /cfg}]\n    command: --model m --config /cfg/c.yaml\n");
  CHECK(planned_form("docker run -v a:/cfg" + image).left_out ==
        FormNames{"--config /cfg/c.yaml (not on this machine)"});
  scratch.write("seqs.yaml", "max-num-seqs: 7\n");
  for (const char* word : {"$PWD", "${PWD}", "$(pwd)"}) {
    INFO(word);
    scratch.write("line.sh", fmt::format("docker run -v {}:/cfg vllm/vllm-openai:v0.12.0 --model m "
                                         "--config /cfg/seqs.yaml",
                                         word));
    const test::Outcome outcome =
        test::shell(scratch, "plimsoll plan $MODEL --from line.sh --gpu h100 --format args");
    CHECK_THAT(outcome.out, Contains("--max-num-seqs 7 "));
  }
}

TEST_CASE("settings of manifests and of config files keep their kinds") {
  const PlanOptions options = planned_form(
      "model: m\nmax-model-len: 4096\nenable-lora: True\nenforce-eager: False\nseed: null\n"
      "hf-overrides: {a: '1', b: 2, c: true, d: [x, 1.5], e: null, f: True, g: 1e3, h: ''}\n");
  CHECK(options.launch.args.lora);
  CHECK_FALSE(options.launch.args.enforce_eager);
  REQUIRE(options.launch.args.overrides != nullptr);
  CHECK(*options.launch.args.overrides ==
        parse_json<Json>(R"({"a":"1","b":2,"c":true,"d":["x",1.5],"e":null,"f":true,"g":1e3,)"
                         R"("h":""})"));
  check_form(
      "servingEngineSpec:\n  modelSpec:\n  - modelURL: m\n    vllmConfig:\n      extraArgs: "
      "[--max-model-len, '4096']\n");
  check_form(
      "kind: InferenceService\nspec:\n  predictor:\n    model:\n      modelFormat: {name: "
      "huggingface}\n      args: [--model-id=m, --max-model-len=4096]");
  check_form(
      "echo 'max-model-len: 4096' > c.yaml\necho 'tensor-parallel-size: 2' >> c.yaml\n"
      "vllm serve m --config c.yaml");
  CHECK(planned_form("echo 'max-model-len: 4096' > c.yaml\necho 'tensor-parallel-size: 2' >> "
                     "c.yaml\nvllm serve m --config c.yaml")
            .launch.args.tensor_parallel == 2);
  CHECK(planned_form("services:\n  v:\n    image: vllm/vllm-openai\n    env_file: .env\n"
                     "    command: --model m\n")
            .left_out == FormNames{"env_file"});
  // A variable that names itself stays as it is.
  const std::string loop =
      "apiVersion: v1\nspec: {containers: [{image: vllm/vllm-openai, env: [{name: A, value: "
      "$(A)}], args: [--model=m, '--max-model-len=4096', '--served-model-name=$(A)']}]}\n";
  check_form(loop);
  CHECK(planned_form("vllm serve m --max-model-len 4096 --config").model == "m");
}

TEST_CASE("shift leaves out as many words as it says") {
  check_form("f() { shift 2; vllm serve \"$@\"; }\nf a b m --max-model-len 4096");
  check_form("f() { shift; shift; vllm serve \"$@\"; }\nf a b m --max-model-len 4096");
}

TEST_CASE("names that are no files are not said to be absent") {
  CHECK(planned_form("vllm serve m --generation-config vllm --tokenizer auto").left_out.empty());
  CHECK(planned_form("vllm serve m --tokenizer org/t").left_out ==
        FormNames{"--tokenizer org/t (not on this machine)"});
  PlanOptions options;
  CHECK(expand_pasted_line({"plan", "--from=" + kServe, "--advise"}, options) ==
        FormNames{"plan", "--advise"});
  CHECK(options.model == "m");
  CHECK_THROWS_WITH(expand_pasted_line({"plan", "--from"}, options),
                    Contains("a command line is missing"));
}

TEST_CASE("marks and spaces of pages stand for those that were typed") {
  for (const char* text : {"vllm\u202Fserve\u00A0m --max-model-len\u20094096",
                           "vllm&nbsp;serve\u3000m --max-model-len 4096",
                           "bash -c &apos;vllm serve m --max-model-len &#34;4096&#34;&apos;",
                           "bash -c &#x27;vllm serve m --max-model-len &quot;4096&quot;&#x27;",
                           "vllm serve \u201Em\u201D --max-model-len \u201A4096\u2019",
                           "```\nvllm serve m --max-model-len 4096\n```",
                           "\u279C  src git:(main) vllm serve m "
                           "--max-model-len 4096",
                           "In [1]: !vllm serve m --max-model-len 4096"})
    check_form(text);
}

TEST_CASE("arguments of llama-cpp-python are flags of llama.cpp") {
  for (const auto& [argument, words] :
       {std::pair{"n_ctx=1", "--ctx-size 1"}, std::pair{"n_batch=2", "--batch-size 2"},
        std::pair{"n_ubatch=3", "--ubatch-size 3"}, std::pair{"main_gpu=4", "--main-gpu 4"},
        std::pair{"n_seq_max=5", "--parallel 5"}}) {
    PlanOptions options;
    CHECK_THAT(words_from(fmt::format("llama_cpp.Llama('m', {})", argument), options),
               Catch::EndsWith(fmt::format(" --model m {}", words)));
    CHECK(options.left_out.empty());
  }
}

TEST_CASE("an image of llama.cpp runs the program of its tag and of its first word") {
  struct Row {
    const char *line, *words;
  };
  for (const Row& row :
       {Row{"server -m m -c 1", "-m m -c 1"}, Row{"light-cuda -m m -c 1", "--parallel 1 -m m -c 1"},
        Row{"full -r -m m -c 1", "--parallel 1 -m m -c 1"},
        Row{"full --run -m m -c 1", "--parallel 1 -m m -c 1"},
        Row{"full -s -m m -c 1", "-m m -c 1"}, Row{"full-cuda --server -m m -c 1", "-m m -c 1"}}) {
    INFO(row.line);
    PlanOptions options;
    CHECK(words_from(fmt::format("docker run ghcr.io/ggml-org/llama.cpp:{}", row.line), options) ==
          row.words);
    CHECK(options.engine == "llamacpp");
    CHECK_THAT(options.release_note, Contains("does not say its release"));
  }
  for (const char* flag : {"-b", "--bench"})
    CHECK_THROWS_WITH(
        planned_form(fmt::format("docker run ghcr.io/ggml-org/llama.cpp:full {} -m m", flag)),
        Contains("llama-bench starts a launch"));
  for (const char* set : {"1", "true", "ON", "enabled"}) {
    PlanOptions options;
    CHECK(words_from(fmt::format("LLAMA_ARG_SWA_FULL={} llama-server -m m", set), options) ==
          "--swa-full -m m");
  }
  PlanOptions options;
  CHECK(words_from("LLAMA_ARG_SWA_FULL=0 llama-server -m m", options) == "-m m");
}

TEST_CASE("a line of ps has times of sixty minutes and seconds") {
  const std::string line = "root 7 0:{} /opt/bin/vllm serve m --hf-overrides {{\"a\": [1, 2]}}";
  CHECK(planned_form(fmt::format(fmt::runtime(line), "59")).launch.args.overrides != nullptr);
  CHECK_THROWS_AS(planned_form(fmt::format(fmt::runtime(line), "61")), Error);
}
