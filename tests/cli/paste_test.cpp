// `plan --from`: lines, files and calls as people paste them.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.h"
#include "cli/plan/options.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::kConfigs;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

PlanOptions pasted(const std::string& text) {
  PlanOptions options;
  CHECK(expand_pasted_line({"plan", "--from", text}, options) == std::vector<std::string>{"plan"});
  return options;
}

}  // namespace

TEST_CASE("every form in which people start vLLM gives its model and flags") {
  // Each launches m with a context of 4096.
  for (const char* text :
       {"vllm serve m --max-model-len 4096",
        "vllm serve --max-model-len=4096 --model m",
        "vllm serve m \\\n  --max_model_len 4096 \\\n  --port 8000",
        "$ vllm serve m --max-model-len 4k96",
        "vllm serve m --max-model-len 4096 > log.txt 2>&1 &",
        "cd /srv && source bin/activate; vllm serve m --max-model-len 4096 | tee log",
        "CUDA_VISIBLE_DEVICES=0 nohup vllm serve m --max-model-len 4096 &> log &",
        "env A=b /opt/venv/bin/vllm serve m --max-model-len 4096 # the server",
        "MODEL=m\nLENGTH=4096\nvllm serve \"$MODEL\" --max-model-len ${LENGTH:-2}",
        "python3 -u -m vllm.entrypoints.openai.api_server --model m --max-model-len 4096",
        "bash -lc 'exec vllm serve m --max-model-len 4096'",
        "uv run --with vllm vllm serve m --max-model-len 4096",
        "docker run --runtime nvidia --gpus all -v ~/.c:/root --env \"A=x\" -p 8000:8000 "
        "--ipc=host "
        "vllm/vllm-openai:v0.11.0 --model m --max-model-len 4096",
        "sudo docker run -itd --rm --name=v --gpus=all vllm/vllm-openai:latest m --max-model-len "
        "4096",
        "podman run -e A=b --device nvidia.com/gpu=all docker.io/vllm/vllm-openai --model m "
        "--max-model-len 4096",
        "docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve m --max-model-len 4096'",
        "docker exec -it box vllm serve m --max-model-len 4096",
        "vllm serve m --served-model-name a b --max-model-len 4096",
        "vllm serve m --max-model-len 4_096",
        "conda run --no-capture-output -n vllm vllm serve m --max-model-len 4096",
        "pixi run -e cuda vllm serve m --max-model-len 4096",
        "ray job submit --working-dir . -- vllm serve m --max-model-len 4096",
        "mpirun -np 2 -x A vllm serve m --max-model-len 4096",
        "torchrun --nproc-per-node=2 -m vllm.entrypoints.openai.api_server --model m "
        "--max-model-len 4096",
        "screen -dmS server vllm serve m --max-model-len 4096",
        "tmux new-session -d -s server 'vllm serve m --max-model-len 4096'",
        "nsys profile -o out vllm serve m --max-model-len 4096",
        "apptainer exec --nv -B /data:/data vllm.sif vllm serve m --max-model-len 4096",
        "singularity run --nv vllm.sif python3 -m vllm.entrypoints.openai.api_server --model m "
        "--max-model-len 4096",
        "FROM vllm/vllm-openai:v0.11.0\nRUN pip install x && \\\n  true\n# none\nCMD [\"--model\", "
        "\"m\", "
        "\"--max-model-len\", \"4096\"]",
        "ARG V=x\nFROM --platform=linux/amd64 python:$V AS s\nENV N=4k96 W m\nCMD vllm serve m "
        "--max-model-len $N",
        "FROM a#\nCMD vllm serve m --max-model-len 4096",
        "(APIServer pid=1) INFO 07-02 [utils.py:253] non-default args: {'model_tag': 'm', 'x': "
        "Y(a=1),"
        " 'max_model_len': 4096, 'model': 'm', 'z': {'a': [1]}}\nINFO vllm serve other",
        "non-default args: {'model': 'm', 'x': {'a': <M.V: 3>, 'max_num_seqs': 7, 'b': Y(c={})}, "
        "'max_model_len': 4096}",
        "FROM a\nRUN echo \"cat <<E so\"\nCMD vllm serve m --max-model-len 4096",
        "FROM a\nLABEL usage=\"python <<E here\"\nCMD vllm serve m --max-model-len 4096",
        "FROM a\nRUN python3 -c \"print(1 <<N )\"\nCMD vllm serve m --max-model-len 4096",
        "FROM a\nRUN x <<E\nCMD vllm serve m --max-model-len 4096",
        "FROM a\nENTRYPOINT [\"vllm\", \"serve\"]\nCMD [\"m\", \"--max-model-len=4096\"]",
        "envs:\n  M: m\nresources:\n  accelerators: L40S:2\nsetup: pip install vllm\nrun: |\n  "
        "vllm serve "
        "$M --max-model-len 4096 -tp $SKYPILOT_NUM_GPUS_PER_NODE",
        "#!/bin/bash\n#SBATCH --gres=gpu:2\nsrun --gres gpu:2 --time 1:00 vllm serve m "
        "--max-model-len 4096 "
        "-tp $SLURM_GPUS_ON_NODE",
        "kubectl run server --image=vllm/vllm-openai:v0.11.0 -- --model m --max-model-len 4096",
        "kubectl exec -it server -- vllm serve m --max-model-len 4096",
        "[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0\nExecStart=/opt/venv/bin/vllm serve m "
        "--max-model-len 4096\nRestart=always",
        "vllm run-batch -i in -o out --model m --max-model-len 4096",
        "vllm serve --enable-sleep-mode m --max-model-len 4096 --unheard 3",
        "llm = LLM(model=\"m\", max_model_len=4_096, seed=None)",
        "name = 'm'\nllm = vllm.LLM(\n    name,  # here\n    max_model_len=4096,\n)",
        "services:\n  v:\n    image: vllm/vllm-openai:v0.11.0\n    command: --model m "
        "--max-model-len 4096",
        "services:\n  v:\n    image: vllm/vllm-openai\n    command:\n      - --model=m\n      - "
        "--max-model-len\n      - 4096",
        "spec:\n  containers:\n  - image: vllm/vllm-openai:v0.11.0\n    args: [--model, m, "
        "'--max-model-len', '4096']",
        "services:\n  v:\n    image: vllm/vllm-openai:${TAG:-v0.11.0}\n    command: [--model, "
        "'${MODEL:-m}', --max-model-len, '4096']",
        "spec:\n  containers:\n  - image: vllm/vllm-openai\n    env: [{name: LENGTH, value: "
        "'4096'}]\n"
        "    args: [--model=m, --max-model-len=$(LENGTH)]",
        "spec:\n  containers:\n  - image: x\n    command: [sh, -c]\n    args: ['vllm serve m "
        "--max-model-len $(LENGTH)']\n    env: [{name: LENGTH, value: '4096'}]",
        "kind: InferenceService\nspec:\n  predictor:\n    model:\n      modelFormat: {name: vLLM}\n"
        "      args: [--model=m, --max-model-len=4096]",
        "spec:\n  predictor:\n    model:\n      modelFormat: {name: huggingface}\n      args: "
        "[--model_name=x, --model_id=m, --max-model-len=4096]",
        "servingEngineSpec:\n  modelSpec:\n  - name: x\n    repository: vllm/vllm-openai\n    tag: "
        "v0.11.0\n    modelURL: m\n    vllmConfig: {maxModelLen: 4096, enablePrefixCaching: true}",
        "applications:\n- args:\n    llm_configs:\n    - model_loading_config: {model_id: x, "
        "model_source: m}\n      engine_kwargs: {max_model_len: 4096}",
        "model: m\nmax_model_len: 4096\nport: 8000\nenforce-eager: false",
        "spec:\n  containers:\n  - image: x\n    command: [sh, -c]\n    args:\n    - >\n      vllm "
        "serve m\n      --max-model-len 4096"}) {
    INFO(text);
    std::string given = text;
    if (const size_t at = given.find("4k96"); at != std::string::npos) given.replace(at, 4, "4096");
    const PlanOptions options = pasted(given);
    CHECK(options.model == "m");
    CHECK(options.launch.args.max_model_len == 4096);
    CHECK(options.engine == "vllm");
  }
}

TEST_CASE("a pasted launch says its release, its GPUs, its usage and its variables") {
  const auto image = [](const std::string& tag) {
    const PlanOptions options = pasted("docker run vllm/vllm-openai" + tag + " --model m");
    return std::pair{vllm::version_text(options.launch.args.version),
                     size_t{options.release_note.empty() ? 0U : 1U}};
  };
  const std::string newest = vllm::version_text({});
  CHECK(image(":v0.11.0") == std::pair{std::string("0.11.0"), size_t{0}});
  CHECK(image(":v0.10.1.1") == std::pair{std::string("0.10.1"), size_t{0}});
  CHECK(image(":latest") == std::pair{newest, size_t{1}});
  CHECK(image("") == std::pair{newest, size_t{1}});
  CHECK(image(":v0.1.dev5") == std::pair{newest, size_t{1}});
  const auto of_nvidia = [](const std::string& tag) {
    const PlanOptions options = pasted("docker run nvcr.io/nvidia/vllm:" + tag + " vllm serve m");
    return vllm::version_text(options.launch.args.version) + "; " + options.release_note;
  };
  CHECK(of_nvidia("25.11-py3") == "0.11.0; ");
  CHECK_THAT(of_nvidia("25.09-py3"), Contains("0.10.2; ") && Contains("that of 25.10"));
  CHECK_THAT(of_nvidia("26.02-py3"), Contains("0.13.0; ") && Contains("that of 26.01"));
  CHECK_THAT(of_nvidia("27.01-py3"), Contains("0.31.0; ") && Contains("that of 26.10"));
  CHECK(of_nvidia("latest").starts_with(newest));
  for (const std::string text :
       {"pip install -U 'vllm==0.12.0' --torch-backend=auto && vllm serve m",
        "uvx vllm@0.12.0 serve m",
        "uvx --from vllm[flashinfer]==0.12.0 vllm serve m",
        "uv run --with=vllm==0.12.0 vllm serve m",
        "pipx run --spec vllm~=0.12.0 vllm serve m",
        "uv tool run vllm@0.12.0 serve m",
        "V=0.12.0\npip install https://w.ai/v$V/vllm-${V}+cu129-cp38-abi3-any.whl\nvllm serve m",
        "pip install git+https://github.com/vllm-project/vllm.git@v0.12.0; vllm serve m",
        "pip install 'VLLM == 0.12.0; python_version < \"3.13\"'; vllm serve m",
        "pip install vllm==0.9.0\ndocker run vllm/vllm-openai:v0.12.0 --model m",
        "FROM a AS b\nRUN pip wheel vllm==0.9.0\nFROM vllm/vllm-openai:v0.12.0 AS c\nRUN echo "
        "it's\n"
        "FROM c\nCMD [\"--model\", \"m\"]",
        "vLLM API server version 0.12.0\nnon-default args: {'model': 'm'}",
        "non-default args: {'model': 'm'}\nInitializing a V1 LLM engine (v0.12.0) with config",
        "FROM a\nRUN\t<<\"E-1\"\npip install vllm==0.12.0\nE-1\nCMD vllm serve m",
        "FROM a\nRUN <<EOF\napt update\npip install vllm==0.12.0\nEOF\nCMD vllm serve m",
        "FROM a\nRUN pip install vllm==0.12.0\nCOPY <<-'E' /x\nFROM b\n\tE\nCMD vllm serve m",
        "conda install -c conda-forge vllm=0.12.0 && vllm serve m",
        "resources: {}\nsetup: echo it's\nrun: uvx vllm@0.12.0 serve m",
        "resources: {}\nsetup: pip install vllm==0.12.0\nrun: vllm serve m",
        "docker run vllm/vllm-openai:v0.11.0 bash -c 'pip install vllm==0.12.0 && vllm serve m'",
        "!pip install vllm==0.12.0\nfrom vllm import LLM\nllm = LLM(model='m')"}) {
    INFO(text);
    CHECK(vllm::version_text(pasted(text).launch.args.version) == "0.12.0");
  }
  for (const std::string text :
       {"pip install 'vllm>=0.12.0' && vllm serve m", "pip install xvllm==0.12.0; vllm serve m",
        "vllm serve m; pip install vllm==0.12.0", "pip uninstall vllm==0.9.0; vllm serve m",
        "echo vllm==0.9.0; vllm serve m", "vllm serve m --served-model-name vllm@1.2.0",
        "pip install vllm==0.11.0; pip install -U vllm; vllm serve m",
        "pip install vllm~=0.12; vllm serve m", "pip install vllm==99999.9.9.9; vllm serve m",
        "from vllm import LLM  # broken since vllm==0.8.5\nllm = LLM('m')"}) {
    INFO(text);
    CHECK(vllm::version_text(pasted(text).launch.args.version) == newest);
  }
  PlanOptions sglang;
  expand_pasted_line(
      {"plan", "--from", "pip install 'sglang[all]==0.5.4' && sglang serve --model-path m"},
      sglang);
  CHECK(sglang.engine_version == "0.5.4");

  CHECK(
      vllm::version_text(pasted("FROM python:3.12\nRUN pip install vllm==0.12.0\nCMD vllm serve m")
                             .launch.args.version) == "0.12.0");
  struct Row {
    std::string text;
    std::optional<int64_t> gpus;
  };
  const std::string compose = "services:\n  v:\n    image: vllm/vllm-openai\n    command: m\n";
  for (const Row& row : {
           Row{"vllm serve m", {}},
           Row{"CUDA_VISIBLE_DEVICES=0,1,3 vllm serve m", 3},
           Row{"export CUDA_VISIBLE_DEVICES=2\nvllm serve m", 1},
           Row{"docker run --gpus all vllm/vllm-openai m", {}},
           Row{"resources:\n  accelerators: {L40S:2, A100:4}\nrun: vllm serve m", 2},
           Row{"resources:\n  accelerators: {H100: 8}\nrun: vllm serve m", 8},
           Row{"resources:\n  accelerators: [A10G:4]\nrun: vllm serve m", 4},
           Row{"resources:\n  accelerators: T4\nrun: vllm serve m", 1},
           Row{"resources:\n  any_of:\n  - {}\n  - accelerators: L4:2\nrun: vllm serve m", 2},
           Row{"#SBATCH -N 1 --gpus-per-node=h100:4\nvllm serve m", 4},
           Row{"#SBATCH --nodes=2\n#SBATCH\t--gres gpu:h100:8,nvme:1\nvllm serve m", 16},
           Row{"#SBATCH -N 2 -G 6  # was --gpus=1\nvllm serve m --max-num-seqs $SLURM_GPUS_ON_NODE",
               6},
           Row{"resources:\n  accelerators: H100:8\nnum_nodes: 2\nrun: vllm serve m", {}},
           Row{"srun --gres=gpu:2 vllm serve m", 2},
           Row{"srun -N 2 --gpus-per-node 8 vllm serve m", 16},
           Row{"docker run --gpus 2 vllm/vllm-openai m", 2},
           Row{"docker run --gpus '\"device=0,1\"' vllm/vllm-openai m", 2},
           Row{"docker run --gpus all -e CUDA_VISIBLE_DEVICES=1 vllm/vllm-openai m", 1},
           Row{"podman run --device nvidia.com/gpu=0 --device nvidia.com/gpu=1 vllm/vllm-openai m",
               2},
           Row{compose +
                   "    deploy:\n      resources:\n        reservations:\n          devices:\n"
                   "            - count: 4\n",
               4},
           Row{compose +
                   "    deploy:\n      resources:\n        reservations:\n          devices:\n"
                   "            - device_ids: ['0', '2']\n",
               2},
           Row{compose + "    resources:\n      limits:\n        nvidia.com/gpu: 8\n", 8},
           Row{"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nLLM('m')", 2},
       }) {
    INFO(row.text);
    CHECK(pasted(row.text).gpus_pasted == row.gpus);
  }
  CHECK(pasted("vllm serve m").launch.args.usage == vllm::Usage::server);
  CHECK(pasted("vllm run-batch --model m").launch.args.usage == vllm::Usage::batch);
  CHECK(pasted("LLM('m')").launch.args.usage == vllm::Usage::offline);
  CHECK(pasted("vllm bench throughput --model m --input-len 5").launch.args.usage ==
        vllm::Usage::offline);
  CHECK(pasted("VLLM_ATTENTION_BACKEND=X vllm serve m").left_out ==
        std::vector<std::string>{"VLLM_ATTENTION_BACKEND"});
  const auto unmoved = pasted("VLLM_LOGGING_LEVEL=DEBUG VLLM_USE_V1=1 HF_TOKEN=x vllm serve m");
  CHECK(unmoved.left_out.empty());
  CHECK(unmoved.ignored == std::vector<std::string>{"VLLM_LOGGING_LEVEL"});
  for (const char* left : {"VLLM_ATTENTION_BACKEND", "VLLM_USE_V1"}) ::unsetenv(left);
}

TEST_CASE("a config file of vLLM counts as flags before those of the line") {
  const Scratch scratch;
  const std::string file = scratch.write(
      "serve.yaml",
      "model: other\nmax-model-len: 1024\ntensor_parallel_size: 2\nenforce-eager: true\n"
      "enable-lora: false\nlimit-mm-per-prompt: {image: 2, video: 0}\n"
      "served-model-name: [a, b]\n");
  const PlanOptions options = pasted("vllm serve m --config " + file + " --max-model-len 4096");
  CHECK(options.model == "m");
  CHECK(options.left_out.empty());
  CHECK(options.launch.args.max_model_len == 4096);
  CHECK(options.launch.args.tensor_parallel == 2);
  CHECK(options.launch.args.enforce_eager);
  CHECK(pasted("vllm serve --config=" + file).model == "other");
  CHECK(pasted(file).model == "other");  // the file itself
  CHECK(pasted("cat > c.yaml <<EOF\nmax-model-len: 1024\nEOF\nvllm serve m --config c.yaml")
            .launch.args.max_model_len == 1024);  // a file that the pasted text writes
  CHECK(pasted("vllm serve m --config absent.yaml").left_out ==
        std::vector<std::string>{"--config absent.yaml (not on this machine)"});
}

TEST_CASE("a short text that stands for a long one is refused") {
  std::string aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    aliases += fmt::format("a{0}: &a{0} [", i);
    for (int k = 0; k < 9; ++k) aliases += fmt::format("{}*a{}", k == 0 ? "" : ", ", i - 1);
    aliases += "]\n";
  }
  const std::string many = "A=" + std::string(5000, 'x') + "; vllm serve m";
  std::string references, variables = many;
  for (int i = 0; i < 1000; ++i) references += "$(A)", variables += " $A";
  const std::string manifest =
      "spec:\n- image: vllm\n  env: [{name: A, value: " + std::string(5000, 'x') +
      "}]\n  args: ['" + references + "']\n";
  const std::string flags = aliases + "model: m\nhf-overrides: {a: *a8}\n";
  for (const std::string& text : {aliases, flags, manifest, variables}) {
    PlanOptions options;
    CHECK_THROWS_WITH(expand_pasted_line({"plan", "--from", text}, options),
                      Contains("too much text") || Contains("more than 1 MiB"));
  }
}

TEST_CASE("a pasted command that starts no vLLM is refused as such") {
  for (const auto& [text, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"ollama run qwen3", "ollama is another engine"},
           {"mlx_lm -m model", "mlx_lm is another engine"},
           {"helm install server --set model=m",
            "no launch of vLLM was found behind \"helm install"},
           {"plimsoll run m --max-num-seqs 4", "plimsoll's own flags go to plan as they are"}}) {
    INFO(text);
    PlanOptions options;
    CHECK_THROWS_WITH(expand_pasted_line({"plan", "--from", text}, options),
                      Contains("--from: ") && Contains(words));
  }
  CHECK(pasted("some-org/ollama-merged --max-model-len 4096").model == "some-org/ollama-merged");
  PlanOptions unit =
      pasted("[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=0,3\nExecStart=/opt/bin/vllm serve m\n");
  CHECK(unit.gpus_pasted == 2);
  CHECK(pasted("kubectl run s --image vllm/vllm-openai:v0.11.0 -- --model m").launch.args.version ==
        vllm::parse_version("0.11.0"));
}

TEST_CASE("variables of vLLM count alike in a pasted line and in the environment") {
  const Scratch scratch;
  const std::string model = kConfigs + "llama-3.1-8b.json";
  const auto plan = [&](const std::string& variables, const std::string& rest, bool is_pasted) {
    const std::string line = is_pasted ? "plimsoll plan --gpu h100 --from '" + variables +
                                             " vllm serve " + model + rest + "' --format json"
                                       : variables + " plimsoll plan " + model + rest +
                                             " --engine vllm --gpu h100 --format json";
    const Outcome outcome = shell(scratch, line);
    INFO(line << outcome.err);
    REQUIRE((outcome.status == 0 || outcome.status == 6));
    return parse_json<Json>(outcome.out);
  };
  for (const bool is_pasted : {true, false}) {
    const std::string old = " --max-model-len 4096";
    const auto bytes = [&](const std::string& variables, const char* key) {
      return plan(variables, old, is_pasted)[key].get<int64_t>();
    };
    // The first runner keeps the logits of the largest step in float32 as well.
    CHECK(bytes("VLLM_USE_V2_MODEL_RUNNER=0", "activation_peak_bytes") >
          bytes("VLLM_USE_V2_MODEL_RUNNER=1", "activation_peak_bytes"));
    CHECK(bytes("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0", "kv_cache_bytes") >
          bytes("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1", "kv_cache_bytes"));
    CHECK(plan("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", " --max-model-len 200000",
               is_pasted)["max_model_len"] == 200000);
    const std::string notes =
        plan("VLLM_ATTENTION_BACKEND=FLASHINFER", old, is_pasted)["notes"].dump();
    CHECK_THAT(notes, Contains("left out, not known to plan: VLLM_ATTENTION_BACKEND"));
    const std::string line = "VLLM_ATTENTION_BACKEND=FLASHINFER ";
    const std::string early =
        shell(scratch, (is_pasted ? "plimsoll plan --from '" + line + "vllm serve " + model + "'"
                                  : line + "plimsoll plan " + model + " --engine vllm") +
                           " --gpu h100 --vllm-version 0.14.0 --format json")
            .out;
    CHECK_THAT(early, !Contains("left out") && Contains("FlashInfer's workspace"));
  }
}

TEST_CASE("values of a call are Python's literals, and flags have as many values as vLLM's") {
  const PlanOptions call = pasted(
      "llm = LLM('m', enforce_eager=True, enable_prefix_caching=False, quantization='fp8',\n"
      "          limit_mm_per_prompt={'image': 2, \"video\": 0,}, swap_space=4., dtype='half',\n"
      "          gpu_memory_utilization=.8, compilation_config=dict(cudagraph_capture_sizes=[1, "
      "2]),\n"
      "          max_num_seqs=int(os.environ['N'], 10), tensor_parallel_size=torch.cuda.count())");
  const vllm::EngineArgs& args = call.launch.args;
  CHECK(args.enforce_eager);
  CHECK(args.prefix_caching == false);
  CHECK(args.quantization == "fp8");
  CHECK(args.limits.at("image").count == 2);
  CHECK(args.limits.at("video").count == 0);
  CHECK(args.gpu_memory_utilization == 0.8);
  CHECK(args.capture_sizes == std::vector<int64_t>{1, 2});
  CHECK(call.left_out == std::vector<std::string>{"max_num_seqs (not a literal)",
                                                  "tensor_parallel_size (not a literal)"});
  const PlanOptions line = pasted(
      "vllm serve m --cudagraph-capture-sizes 1 2 4 --max-model-len -1 --seed -1 "
      "--cpu-offload-gb 0 --load_format mistral --chat-template ./on-the-server.jinja");
  CHECK(line.launch.args.capture_sizes == std::vector<int64_t>{1, 2, 4});
  CHECK(line.launch.args.max_model_len == -1);
  CHECK(line.left_out ==
        std::vector<std::string>{"--chat-template ./on-the-server.jinja (not on this machine)"});
}

TEST_CASE("what a pasted launch says and plan does not read stands in refusals too") {
  const Scratch scratch;
  const std::string serve =
      "vllm serve " + kConfigs + "llama-3.1-8b.json --frobnicate=9 --max-model-len ";
  const auto plan = [&](const std::string& line) {
    return shell(scratch, "plimsoll plan --gpu h100 --from '" + line + "'");
  };
  const Outcome refused = plan(serve + "900000");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("User-specified max_model_len (900000)") &&
                              Contains("(left out of what was pasted: --frobnicate)"));
  const Outcome malformed = plan(serve + "many");
  CHECK(malformed.status == 2);
  CHECK_THAT(malformed.err,
             Contains("--from: --max-model-len: expected a number") && Contains("--frobnicate"));
  CHECK_THAT(plan(serve + "4096").out, Contains("left out, not known to plan: --frobnicate"));
  CHECK(plan("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " + serve + "200000").status == 0);
  CHECK(shell(scratch, "export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1; plimsoll plan --gpu h100 --from '" +
                           serve + "200000'")
            .status == 0);
  const Outcome few = plan("CUDA_VISIBLE_DEVICES=0 " + serve + "4096 -tp 2");
  CHECK(few.status == 6);
  CHECK_THAT(few.out, Contains("and 1 are at hand"));
}
