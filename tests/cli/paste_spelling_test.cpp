// Spellings in which a launch is pasted: from web pages, terminals, scripts, Python programs and
// manifests. Each means the plain line "vllm serve m -tp 2 --max-model-len 4096".
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/plan/options.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

using NameList = std::vector<std::string>;

PlanOptions planned_from(const std::string& text) {
  PlanOptions options;
  expand_pasted_line({"plan", "--from", text}, options);
  return options;
}

void check_plain(const std::string& text) {
  INFO(text);
  const PlanOptions options = planned_from(text);
  CHECK(options.model == "m");
  CHECK(options.launch.args.max_model_len == 4096);
  CHECK(options.launch.args.tensor_parallel == 2);
  CHECK(options.left_out.empty());
  CHECK(options.engine == "vllm");
}

std::string release_of(const std::string& text) {
  return vllm::version_text(planned_from(text).launch.args.version);
}

}  // namespace

TEST_CASE("a line copied from a page or a terminal is the line that was typed") {
  const std::string serve = "vllm serve m -tp 2 --max-model-len 4096";
  for (const std::string& text :
       NameList{"PS C:\\Users\\me> " + serve,
                "C:\\Users\\me>" + serve,
                "> " + serve,
                "> vllm serve m -tp 2 \\\n>   --max-model-len 4096",
                "\u279C  ~ " + serve,
                "\u276F " + serve,
                "(venv) user@host:~$ " + serve,
                "```bash\n" + serve + "\n```",
                "`" + serve + "`",
                "\"" + serve + "\"",
                "\uFEFF" + serve,
                "\u200B" + serve,
                std::string("vllm serve m \u2014tensor-parallel-size 2 \u2014max-model-len 4096"),
                std::string("vllm serve m \u2013tp 2 \u2013-max-model-len 4096"),
                std::string("vllm serve m \u2013tp=2 \u2013max-model-len 4096"),
                std::string("vllm serve m \u2212tp 2 \u2212\u2212max-model-len 4096"),
                std::string("vllm serve \u201Cm\u201D -tp 2 --max-model-len \u20184096\u2019"),
                std::string(
                    "vllm serve &quot;m&quot; -tp 2 --max-model-len &#39;4096&#39; &gt; log &amp;"),
                std::string("vllm serve m \\\n  -tp 2 \\ # two cards\n  --max-model-len 4096"),
                std::string("vllm serve m --tensor-parallel 2 --max-model 4096")}) {
    check_plain(text);
  }
  CHECK(planned_from("vllm serve m --served-model-name \"it\u2019s\"").model == "m");
  CHECK(planned_from("vllm serve m --enable-lo").left_out ==
        NameList{"--enable-lo (did you mean --enable-lora?)"});  // of several
}

TEST_CASE("variables of a script stand for words as in a shell") {
  for (const char* text :
       {"vllm serve m -tp ${TP:=2} --max-model-len ${LENGTH-4096}",
        "A=2; vllm serve m -tp ${B:-${A:-4}} --max-model-len 4096 ${EAGER:+--enforce-eager}",
        "ARGS=\"-tp 2 --max-model-len 4096\"\nvllm serve m $ARGS",
        "ARGS=\"-tp 2\"\nARGS+=\" --max-model-len 4096\"\nvllm serve m $ARGS",
        "ARGS=(\n  -tp 2  # cards\n  --max-model-len 4096\n)\nvllm serve m \"${ARGS[@]}\"",
        "ARGS=(-tp 2)\nARGS+=(--max-model-len 4096)\nvllm serve m ${ARGS[*]}",
        "EMPTY=\nvllm serve m $EMPTY -tp 2 --max-model-len 4096",
        "TP=\nLEN=\nvllm serve m -tp ${TP:-2} --max-model-len ${LEN:=4096}",
        "for i in 1; do vllm serve m -tp 2 --max-model-len 4096; done",
        "for len in 4096 8192; do vllm serve m -tp 2 --max-model-len $len; done",
        "P=(x$)\nC=(a#)\nvllm serve m -tp 2 --max-model-len 4096",
        "if true; then vllm serve m -tp 2 --max-model-len 4096; fi",
        "eval \"vllm serve m -tp 2 --max-model-len 4096\"",
        "wsl -d Ubuntu -- vllm serve m -tp 2 --max-model-len 4096",
        "ssh -i key user@host \"vllm serve m -tp 2 --max-model-len 4096\"",
        "sbatch --gres=gpu:2 --wrap='vllm serve m -tp 2 --max-model-len 4096'",
        "accelerate launch -m vllm.entrypoints.openai.api_server --model m -tp 2 --max-model-len "
        "4096",
        "[program:vllm]\ncommand=/opt/bin/vllm serve m -tp 2 --max-model-len 4096\nautostart=true",
        "srun --gres=gpu:2 -o out.log --export ALL vllm serve m -tp 2 --max-model-len 4096"}) {
    check_plain(text);
  }
  CHECK(planned_from("EAGER=1; vllm serve m ${EAGER:+--enforce-eager}").launch.args.enforce_eager);
  CHECK_FALSE(
      planned_from("EAGER=; vllm serve m ${EAGER:+--enforce-eager}").launch.args.enforce_eager);
  CHECK(planned_from("EAGER=; vllm serve m ${EAGER+--enforce-eager}").launch.args.enforce_eager);
  for (const char* unset : {"-tp $COUNT", "--max-model-len ${COUNT}", "--max-num-seqs ${COUNT:?no}",
                            "--gpu-memory-utilization $COUNT"}) {
    INFO(unset);
    PlanOptions options;
    CHECK_THROWS_WITH(
        expand_pasted_line({"plan", "--from", std::string("vllm serve m ") + unset}, options),
        Contains("COUNT"));
  }
}

TEST_CASE("a Python program that starts vLLM says its line") {
  for (const char* text :
       {"import subprocess\nsubprocess.run([\"vllm\", \"serve\", \"m\", \"-tp\", \"2\", "
        "\"--max-model-len\", \"4096\"])",
        "subprocess.Popen([\n    \"vllm\", \"serve\", \"m\",\n    \"-tp\", \"2\",  # cards\n    "
        "\"--max-model-len\", str(4096),\n])",
        "M = 'm'\nsubprocess.run([sys.executable, '-m', 'vllm.entrypoints.openai.api_server', "
        "'--model', M, '-tp', '2', '--max-model-len', '4096'])",
        "subprocess.run(\"vllm serve m -tp 2 --max-model-len 4096\", shell=True)",
        "subprocess.run('vllm serve m -tp 2 --max-model-len 4096'.split())",
        "import os\nos.system('vllm serve m -tp 2 --max-model-len 4096 &')",
        "[\"vllm\",\"serve\",\"m\",\"-tp\",\"2\",\"--max-model-len\",\"4096\"]",
        ">>> from vllm import LLM\n>>> llm = LLM(model=\"m\", tensor_parallel_size=2,\n...         "
        "  "
        "max_model_len=4096)",
        "options = dict(tensor_parallel_size=2, max_model_len=4096)\nllm = LLM('m', **options)",
        "options = {\n    'model': 'm',\n    'tensor_parallel_size': 2,  # cards\n    "
        "'max_model_len': 4 * 2**10,\n}\nllm = LLM(**options)",
        "n = 1024\nLLM('m', tensor_parallel_size=2, max_model_len=n * 2 * 2, seed=-2**3)",
        "model = 'm'\n\n# cards\ncards = 2\nlength = (\n    4096\n)\nLLM(model, "
        "tensor_parallel_size=cards, max_model_len=length)",
        "c = LLMConfig(model_loading_config=dict(model_id='x', model_source='m'), "
        "accelerator_type='H100', engine_kwargs={'tensor_parallel_size': 2, 'max_model_len': "
        "4096})"}) {
    check_plain(text);
  }
  CHECK(planned_from("llm = LLM('m', **given())").left_out ==
        NameList{"**given() (not a literal)"});
  CHECK(planned_from("LLM('m', max_model_len=2 * null, swap_space=2**99, seed=4 * len(x))")
            .left_out == NameList{"max_model_len (not a literal)", "swap_space (not a literal)",
                                  "seed (not a literal)"});
  const PlanOptions objects = planned_from(
      "LLM('m', dtype=torch.float16, compilation_config=vllm.config.CompilationConfig("
      "cudagraph_capture_sizes=[1, 2]), max_model_len=Path('x'))");
  CHECK(objects.launch.args.dtype == "float16");
  CHECK(objects.launch.args.capture_sizes == std::vector<int64_t>{1, 2});
  CHECK(objects.left_out == NameList{"max_model_len (not a literal)"});
  const PlanOptions members = planned_from(
      "LLM('m', max_num_seqs=Foo(), dtype=torch.float8_e4m3fn, compilation_config="
      "CompilationConfig(mode=0, cudagraph_mode=CUDAGraphMode.NONE))");
  CHECK(members.launch.args.graphs.mode == "NONE");
  CHECK(members.launch.args.graphs.compile == 0);
  CHECK(members.left_out == NameList{"max_num_seqs (not a literal)", "dtype (not a literal)"});
}

TEST_CASE("a script within a manifest runs in the manifest's image") {
  const PlanOptions script = planned_from(
      "spec:\n  containers:\n  - image: vllm/vllm-openai:v0.12.0\n    command: [sh, -c]\n    "
      "args:\n    - |\n      vllm serve m -tp 2 \\\n        --max-model-len 4096\n    resources: "
      "{limits: {nvidia.com/mig-3g.40gb: 1}}\n");
  CHECK(vllm::version_text(script.launch.args.version) == "0.12.0");
  CHECK(script.launch.args.max_model_len == 4096);
  REQUIRE(script.left_out.size() == 1);
  CHECK_THAT(script.left_out[0], Contains("nvidia.com/mig-3g.40gb"));
  const PlanOptions merged = planned_from(
      "x-common: &c\n  image: vllm/vllm-openai:v0.12.0\nservices:\n  v:\n    <<: *c\n    command: "
      "[--model, m]\n");
  CHECK(vllm::version_text(merged.launch.args.version) == "0.12.0");
  const PlanOptions both = planned_from(
      "x-a: &a\n  image: vllm/vllm-openai:v0.12.0\nx-b: &b\n  image: vllm/vllm-openai:v0.11.0\n"
      "  command: [--model, m]\nservices:\n  v:\n    <<: [*a, *b]\n    ports: [8000]\n");
  CHECK(both.model == "m");
  for (const char* text :
       {"docker run vllm/vllm-openai:v0.12.0@sha256:abc --model m",
        "docker run registry:5000/vllm/vllm-openai:v0.12.0 --model m",
        "docker run registry:5000/vllm/vllm-openai:v0.12.0@sha256:abc --model m",
        "srun --container-image=vllm/vllm-openai:v0.12.0 --gpus 2 vllm serve m",
        "srun --container-image docker://vllm#vllm-openai:v0.12.0 vllm serve m",
        "apptainer run --nv docker://vllm/vllm-openai:v0.12.0 vllm serve m",
        "# requirements.txt\nvllm==0.12.0\ntorch==2.9.0\n\nvllm serve m",
        "echo \"vllm==0.12.0\" > requirements.txt\npip install -r requirements.txt\nvllm serve m",
        "conda create -n v python=3.12 vllm=0.12.0 -y\nconda activate v\nvllm serve m",
        "pixi add vllm=0.12.0\npixi run vllm serve m", "uv add vllm==0.12.0\nuv run vllm serve m",
        "git clone https://github.com/vllm-project/vllm && cd vllm && git checkout v0.12.0\n"
        "vllm serve m",
        "git clone -b v0.12.0 https://github.com/vllm-project/vllm.git\nvllm serve m"}) {
    INFO(text);
    CHECK(release_of(text) == "0.12.0");
  }
  const PlanOptions untagged =
      planned_from("docker run registry:5000/vllm/vllm-openai --model m");  // a port is no tag
  CHECK(untagged.launch.args.version == PlanOptions().launch.args.version);
  CHECK_THAT(untagged.release_note, Contains("does not say its release"));
}

TEST_CASE("a file mounted into a container is read where the host has it") {
  const Scratch scratch;
  const std::string file =
      scratch.write("c.yaml", "max-model-len: 4096\ntensor-parallel-size: 2\n");
  const std::string folder = file.substr(0, file.rfind('/'));
  for (const std::string& text :
       NameList{"docker run -v " + folder + ":/cfg vllm/vllm-openai --model m --config /cfg/c.yaml",
                "docker run --volume=" + file +
                    ":/c.yaml:ro vllm/vllm-openai --model m --config=/c.yaml",
                "docker run --mount type=bind,source=" + folder +
                    ",target=/cfg vllm/vllm-openai --model m --config /cfg/c.yaml",
                "services:\n  v:\n    image: vllm/vllm-openai\n    volumes: ['" + folder +
                    ":/cfg']\n    command: [--model, m, --config, /cfg/c.yaml]\n"}) {
    check_plain(text);
  }
  CHECK(planned_from("docker run -v " + folder + ":/models vllm/vllm-openai --model /models/c.yaml")
            .model == file);
  CHECK(planned_from("docker run -v " + folder + ":/models vllm/vllm-openai --model /models/absent")
            .model == "/models/absent");
}

TEST_CASE("flags alone may be pasted, and a config.json alone is no model of a line") {
  const Scratch scratch;
  const std::string model = test::kConfigs + "llama-3.1-8b.json";
  const std::string plan = "plimsoll plan --gpu h100 --format serve --from ";
  const Outcome flags = shell(scratch, plan + "'--model " + model + " --max_model_len 4096'");
  CHECK(flags.status == 0);
  CHECK_THAT(flags.out, Contains("--max-model-len 4096"));
  CHECK_THAT(flags.err, Contains("is a config.json alone"));
}

TEST_CASE("a pasted text that would take minutes or all memory is refused") {
  const auto repeat = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const auto refusal = [](const std::string& text) {
    try {
      planned_from(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal("vllm serve m " + repeat("x ", 4100)), Contains("more than 4096 words"));
  CHECK_THAT(refusal("A=(" + repeat("x ", 17000) + ")"), Contains("more than 16384 words"));
  CHECK_THAT(refusal("LLM('m'," + repeat("**{'model': 'a'},", 4100) + ")"),
             Contains("more than 4096 words"));
  CHECK_THAT(refusal("apiVersion: 1\n" + repeat("---\na: 1\n", 1001)),
             Contains("more than 1000 YAML documents"));
  CHECK_THAT(refusal(repeat("A=(", 20000)), Contains("more than 16384 words"));
  const std::string doubled = "a = ['x', 'y']\n" + repeat("a = [a, a]\n", 30);
  CHECK_THAT(refusal("import subprocess\n" + doubled + "subprocess.run(a)"),
             Contains("more than 1 MiB of values"));
  const std::string joined =
      repeat("os.environ['A'] = f\"{os.getenv('A')}{os.getenv('A')}\"\n", 30);
  CHECK_THAT(refusal("import os\nos.environ['A'] = 'x'\n" + joined + "LLM('m')"),
             Contains("more than 1 MiB of values"));
  for (const std::string list : {"[a, a, a, a]", "{'x': a, 'y': a}", "dict(x=a, y=a, z=a)"}) {
    INFO(list);
    const std::string lines = "a = ['x', 'y']\n" + repeat("a = " + list + "\n", 30);
    CHECK_THAT(refusal(lines + "LLM('m', **a)"), Contains("more than 1 MiB of values"));
  }
}

TEST_CASE("a text without a launch is refused by what it is") {
  const Scratch scratch;
  scratch.write("blank.sh", "\n \n");
  scratch.write("boot.log", "INFO 07-20 Model loading took 15.27 GiB memory and 4.18 seconds\n");
  struct Row {
    const char* arguments;
    const char* said;
  };
  const Row rows[] = {
      {"--from ''", "--from: is empty"},
      {"--from blank.sh", "--from blank.sh: is empty"},
      {"--from none.yaml", "--from none.yaml: no such file"},
      {"--from 'vllm serve m' --from 'vllm serve n'", "--from: is given twice"},
      {"--from boot.log", "the log does not say its launch"},
      {"--from 'from transformers import AutoModel\nAutoModel.from_pretrained(\"m\")'",
       "--engine transformers"},
      {"--from 'vllm serve m -tp $TP'", "set the variable before the line"}};
  for (const Row& row : rows) {
    INFO(row.arguments);
    const Outcome refused = shell(scratch, std::string("plimsoll plan ") + row.arguments);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Contains(row.said));
  }
}

TEST_CASE("a script or a manifest that the text writes and starts is read") {
  const std::string serve = "vllm serve m -tp 2 --max-model-len 4096";
  check_plain("cat > run.sh <<'EOF'\n#!/bin/bash\n" + serve + "\nEOF\nchmod +x run.sh\n./run.sh");
  check_plain(
      "cat <<EOF > compose.yaml\nservices:\n  a:\n    image: vllm/vllm-openai:v0.9.2\n"
      "    command: --model m --tensor-parallel-size 2 --max-model-len 4096\nEOF\n"
      "docker compose up -d");
  CHECK_THROWS_WITH(planned_from("cat > a.txt <<EOF\nhello\nEOF\n./run.sh"),
                    Contains("no launch of vLLM was found behind \"cat\""));
}

TEST_CASE("a launch on the nodes of a group is not limited to the GPUs of one container") {
  const std::string container =
      "containers: [{name: a, image: 'vllm/vllm-openai:v0.9.2', args: [--model, m, "
      "--tensor-parallel-size, '2'], resources: {limits: {nvidia.com/gpu: 1}}}]";
  CHECK(planned_from("apiVersion: v1\nspec: {" + container + "}").gpus_pasted == 1);
  CHECK_FALSE(planned_from("apiVersion: v1\nspec: {leaderWorkerTemplate: {size: 2, leaderTemplate: "
                           "{spec: {" +
                           container + "}}}}")
                  .gpus_pasted);
  const std::string docker = "docker run --gpus 8 lmsysorg/sglang:v0.5.0 ";
  const std::string sglang = docker + "python3 -m sglang.launch_server --model-path m --tp 16";
  CHECK(planned_from(sglang).gpus_pasted == 8);
  CHECK(planned_from(sglang + " --nnodes=1").gpus_pasted == 8);
  CHECK_FALSE(planned_from(sglang + " --nnodes 2 --node-rank 0").gpus_pasted);
  CHECK(planned_from("vllm serve m --nnodes 2 --node-rank 0 --master-addr x").left_out.empty());
  for (const char* flags : {"--nnodes 2 --node-rank 0", "-n 2 -r 0", "-n=2 -r=1",
                            "-dpl 1 -dpr 1 -dpb mp", "-dpa x -dpp 5", "-dpn 1", "-dph", "-dpm",
                            "--data-parallel-external-lb", "--data-parallel-rank=1"}) {
    INFO(flags);
    const PlanOptions planned = planned_from(
        fmt::format("docker run --gpus 1 vllm/vllm-openai:v0.11.0 --model m -tp 2 {}", flags));
    CHECK_FALSE(planned.gpus_pasted);
    CHECK(planned.left_out.empty());
  }
  CHECK(planned_from("docker run --gpus 1 vllm/vllm-openai:v0.11.0 --model m -n 1").gpus_pasted ==
        1);
}

TEST_CASE("a container has the variables of the ConfigMaps beside it") {
  const std::string maps =
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: base}\n"
      "data: {MODEL: org/m, LENGTH: '4096', CUDA_VISIBLE_DEVICES: '0,1'}\n---\n"
      "kind: ConfigMap\nmetadata: {name: more}\ndata: {LENGTH: '2048', SEQS: '7'}\n";
  const auto pod = [](const std::string& names, const std::string& args) {
    return "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: vllm/vllm-openai, " + names +
           ", args: [" + args + "]}]}\n";
  };
  const std::string one = "envFrom: [{configMapRef: {name: base}}]";
  const std::string args = "--model=$(MODEL), --max-model-len=$(LENGTH)";
  for (const std::string& text :
       {maps + "---\n" + pod(one, args), pod(one, args) + "---\n" + maps}) {
    const PlanOptions options = planned_from(text);
    CHECK(options.model == "org/m");
    CHECK(options.launch.args.max_model_len == 4096);
    CHECK(options.gpus_pasted == 2);
    CHECK(options.left_out.empty());
  }
  const auto length = [&](const std::string& names) {
    return planned_from(maps + "---\n" + pod(names, args)).launch.args.max_model_len;
  };
  const std::string two = "envFrom: [{configMapRef: {name: base}}, {configMapRef: {name: more}}]";
  CHECK(length(two) == 2048);
  CHECK(length(two + ", env: [{name: LENGTH, value: '1024'}]") == 1024);
  CHECK(length("env: [{name: MODEL, value: m}, {name: LENGTH, valueFrom: {configMapKeyRef: "
               "{name: more, key: LENGTH}}}]") == 2048);
  const PlanOptions prefixed =
      planned_from(maps + "---\n" +
                   pod("envFrom: [{prefix: A_, configMapRef: {name: more}}]",
                       "--model=m, --max-num-seqs=$(A_SEQS)"));
  CHECK(prefixed.launch.args.max_num_seqs == 7);
  // What no ConfigMap here has is said; secrets are no flags.
  const PlanOptions without = planned_from(
      pod("envFrom: [{configMapRef: {name: far}}, {secretRef: {name: s}}], env: [{name: N, "
          "valueFrom: {configMapKeyRef: {name: far, key: k}}}, {name: HF_TOKEN, valueFrom: "
          "{secretKeyRef: {name: s, key: t}}}]",
          "--model=m"));
  CHECK(without.left_out == std::vector<std::string>{"envFrom far", "env N (of a ConfigMap)"});
}

TEST_CASE("a flag that takes no value in any release of vLLM may stand before the model") {
  for (const char* flag :
       {"--disable-mm-preprocessor-cache", "--enable-prompt-adapter", "--eplb-log-balancedness",
        "--enable-bf16x3-router-gemm", "--mm-encoder-only", "--numa-bind", "--swa-bounded-replay",
        "-dpm", "--data-parallel-multi-port-external-lb", "--enable-hc-sp", "--monokernel",
        "--kv-cache-metrics", "--enable-elastic-ep", "--return-sampling-mask"}) {
    INFO(flag);
    const PlanOptions planned =
        planned_from(fmt::format("vllm serve {} m --max-model-len 4k", flag));
    CHECK(planned.model == "m");
  }
}

TEST_CASE("a level of optimization is read in its short spelling") {
  for (const char* level : {"-O3", "-O 3", "-O=3"}) {
    INFO(level);
    CHECK(planned_from(std::string("vllm serve m ") + level).left_out.empty());
  }
}

TEST_CASE("a flag beside --from stands for a value that the text does not state") {
  PlanOptions options;
  const std::vector<std::string> rest =
      expand_pasted_line({"plan", "--from", "vllm serve m -tp \"$TP\" --max-model-len 4096",
                          "--tensor-parallel-size=2"},
                         options);
  CHECK(rest == std::vector<std::string>{"plan", "--tensor-parallel-size=2"});
  CHECK(options.launch.args.max_model_len == 4096);
  CHECK(options.left_out.empty());
}
