// Launches of engines other than vLLM by their Python classes and functions.
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include "cli/plan/options.h"
#include "cli/plan/paste/pasted_launch.h"

using namespace plimsoll;
using namespace plimsoll::cli;

namespace {

struct Pasted {
  std::string engine, words, left_out;
};

/// What the text stands for, as words of `plan`; `beside`: words typed beside it.
Pasted pasted(const std::string& text, const std::vector<std::string>& beside = {}) {
  PlanOptions options;
  std::vector<std::string> arguments = {"plan", "--from", text};
  arguments.insert(arguments.end(), beside.begin(), beside.end());
  const auto words = expand_pasted_line(arguments, options);
  return {options.engine, fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " ")),
          fmt::format("{}", fmt::join(options.left_out, ", "))};
}

}  // namespace

TEST_CASE("SGLang's Engine is planned as its server") {
  for (const char* call :
       {"import sglang as sgl\nsgl.Engine(model_path='m', tp_size=2, cuda_graph_bs=[1, 8])",
        "from sglang import Engine\nargs = dict(\n  tp_size=2,\n  cuda_graph_bs=[1, 8],\n)\n"
        "if __name__ == '__main__':\n  llm = Engine(model_path='m', **args)",
        "sgl.Runtime(model_path='m', tp_size=2, cuda_graph_bs=[1, 8], enable_lora=False)",
        "from sglang.srt.server_args import ServerArgs\nsglang.Engine(server_args=ServerArgs("
        "model_path='m', tp_size=2, cuda_graph_bs=[1, 8]))"}) {
    INFO(call);
    const Pasted launch = pasted(call);
    CHECK(launch.engine == "sglang");
    CHECK(launch.words == "--model-path m --tp-size 2 --cuda-graph-bs 1 8");
    CHECK(launch.left_out == "");
  }
  const Pasted more = pasted("sgl.Engine(disable_cuda_graph=True, dtype=None, page_size=size())");
  CHECK(more.words == "--disable-cuda-graph");
  CHECK(more.left_out == "page_size (not a literal)");
  for (const char* prose :
       {"from vllm import LLM\nLLM('m')  # sglang's Engine('m')", "LLM('m')  # vs sgl.Engine('z')",
        "vllm serve m\n# offline: lmdeploy.serve('x')",
        "\"\"\"As sglang.Engine('z')\ndoes.\"\"\"\nLLM('m')", "print('sgl.Engine(1)')\nLLM('m')",
        "from sglang import function\nclass Engine(LLM): pass\nLLM('m')",
        "import lmdeploy\ndef serve(x): pass\nserve(1)\nLLM('m')",
        "if a:\n  sgl.Engine(model_path='z')\nelse:\n  LLM('m')"}) {
    INFO(prose);
    CHECK(pasted(prose).engine == "vllm");
  }
}

TEST_CASE("LMDeploy's pipeline is planned by the class of its engine's config") {
  const std::string fields = R"( --engine-args {"tp":2,"cache_max_entry_count":0.5})";
  for (const auto& [config, backend] : {std::pair{"TurbomindEngineConfig", "turbomind"},
                                        std::pair{"PytorchEngineConfig", "pytorch"}}) {
    for (const std::string assignment : {"", "c = "}) {
      const std::string made = config + std::string("(tp=2,\n  cache_max_entry_count=0.5)");
      const std::string call = assignment.empty()
                                   ? "pipe = pipeline('m', backend_config=" + made + ")"
                                   : assignment + made + "\npipe = pipeline('m', backend_config=c)";
      INFO(call);
      const Pasted launch = pasted("from lmdeploy import pipeline\n" + call);
      CHECK(launch.engine == "lmdeploy");
      CHECK(launch.words == std::string("m --backend ") + backend + fields);
      CHECK(launch.left_out == "");
    }
  }
  CHECK(pasted("lmdeploy.pipeline('m')").words == "m");
  const Pasted one = pasted(
      "from lmdeploy import (\n  pipeline,\n  TurbomindEngineConfig as T,\n)\n# "
      "PytorchEngineConfig(tp=8)\npipeline('m', backend_config=T(2, tp=2))");
  CHECK(one.words == "m --backend turbomind --engine-args {\"tp\":2}");
  CHECK(one.left_out == "2 (without a name)");
  CHECK(pasted("lmdeploy.pipeline('m', backend_config=made())").left_out ==
        "backend_config (not a literal)");
  CHECK(pasted("lmdeploy.pipeline('m', **{'backend_config': {'tp': 2}})").left_out ==
        "backend_config (not a literal)");
}

TEST_CASE("TensorRT-LLM's LLM is planned by its fields") {
  const Pasted launch = pasted(
      "from tensorrt_llm import LLM\nfrom tensorrt_llm.llmapi import KvCacheConfig\nllm = LLM("
      "model='m', max_batch_size=64, kv_cache_config=KvCacheConfig(dtype='fp8'), "
      "quant_config=QuantConfig(quant_algo=QuantAlgo.FP8), sampler=f())");
  CHECK(launch.engine == "tensorrt-llm");
  CHECK(launch.words == R"(m --engine-args {"max_batch_size":64,"kv_cache_config":{"dtype":"fp8"},)"
                        R"("quant_config":{"quant_algo":"FP8"}})");
  CHECK(launch.left_out == "sampler (not a literal)");
}

TEST_CASE("llama-cpp-python's Llama is planned with its own defaults") {
  const std::string defaults =
      "--ctx-size 512 --batch-size 512 --ubatch-size 512 --gpu-layers 0 --fit off --parallel 1 "
      "--flash-attn off";
  CHECK(pasted("llama_cpp.Llama('m.gguf')").words == defaults + " --model m.gguf");
  const Pasted launch = pasted(
      "from llama_cpp import Llama\nLlama.from_pretrained(repo_id='a/b', filename='*q8_0.gguf', "
      "n_gpu_layers=-1, n_ctx=8192, n_ubatch=64, type_k=8, flash_attn=True, split_mode=2, "
      "tensor_split=[0.5, 0.25], offload_kqv=False, swa_full=True, logits_all=True, seed=3, "
      "type_v=77, n_new=1)");
  CHECK(launch.engine == "llamacpp");
  CHECK(launch.words ==
        defaults +
            " -hf a/b --gpu-layers all --ctx-size 8192 --ubatch-size 64 --cache-type-k "
            "q8_0 --flash-attn on --split-mode row --tensor-split 0.5,0.25 "
            "--no-kv-offload --swa-full --fit-print on");
  CHECK(launch.left_out == "type_v, n_new");
  const std::string llama = defaults + " --model m ";
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"n_gpu_layers=0", "--gpu-layers 0"},
           {"n_gpu_layers=1", "--gpu-layers 1"},
           {"n_gpu_layers=-2", "--gpu-layers all"},
           {"type_k=0, type_v=1", "--cache-type-k f32 --cache-type-v f16"},
           {"split_mode=0, flash_attn=False", "--split-mode none --flash-attn off"},
           {"split_mode=1, main_gpu=0", "--split-mode layer --main-gpu 0"},
           {"offload_kqv=False, swa_full=False, logits_all=False", "--no-kv-offload"},
           {"n_ctx=0, offload_kqv=True", "--ctx-size 0"}}) {
    INFO(arguments);
    CHECK(pasted("llama_cpp.Llama('m', " + arguments + ")").words == llama + words);
  }
  CHECK(pasted("llama_cpp.Llama('m', 0, -1)").left_out ==
        "0 (without a name), -1 (without a name)");
  CHECK(pasted("Llama('m')").engine == "vllm");  // a class of that name is not yet llama-cpp's
}

TEST_CASE("f-strings, conversions and defaults of variables are values") {
  struct Row {
    const char* text;
    const char* words;
    const char* left_out;
  };
  const Row rows[] = {
      {"import os\nLLM(os.environ.get('M', 'm'), tensor_parallel_size=int(os.getenv('TP', '2')), "
       "gpu_memory_utilization=float('0.8'), max_model_len=int(8192))",
       "m --tensor-parallel-size 2 --gpu-memory-utilization 0.8 --max-model-len 8192", ""},
      {"os.environ['TP'] = '4'\nLLM('m', tensor_parallel_size=int(os.getenv('TP', '2')))",
       "m --tensor-parallel-size 4", ""},
      {"org = 'o'\nn = 7\nLLM(f'{org}/m-{n}b' '-it', revision=rf'{{x}}')",
       "o/m-7b-it --revision {x}", ""},
      {"m = 'm'\nn = 2\nLLM(f'{m!s}', revision=f'{n:d}{1024!r}', seed=int('1024 tokens'), "
       "max_model_len=int('1024'))",
       "m --revision 21024 --max-model-len 1024", "seed (not a literal)"},
      {"LLM(f'{org}/m', dtype=str(kind), seed=int('x'), max_num_seqs=int(os.getenv('N')))", "",
       "model (not a literal), dtype (not a literal), seed (not a literal), max_num_seqs (not a "
       "literal)"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const std::optional<PastedLaunch> launch = launch_of_python(row.text);
    REQUIRE(launch);
    CHECK(fmt::format("{}", fmt::join(launch->words, " ")) == row.words);
    CHECK(fmt::format("{}", fmt::join(launch->left_out, ", ")) == row.left_out);
  }
  for (const char* text :
       {"import os\nm = 'm'\nn = 8192\nos.system(f'vllm serve {m} --max-model-len {n}')",
        "m = 'm'\ncmd = f'vllm serve {m} --max-model-len 8192 --port {port}'\nos.system(cmd)",
        "cmd = \"\"\"vllm serve m \\\n  --max-model-len 8192\"\"\"\nos.system(cmd)",
        "cmd = 'vllm serve m --max-model-len 8192\\n'\nos.system(cmd)",
        "subprocess.Popen(['vllm', 'serve', 'm', '--max-model-len', f'{8192}', '--port', port])"}) {
    INFO(text);
    const std::optional<PastedLaunch> launch = launch_of_argv(text);
    REQUIRE(launch);
    const std::string words = fmt::format("{}", fmt::join(launch->words, " "));
    CHECK(words.starts_with("m --max-model-len 8192"));
  }
}

TEST_CASE("the code of a notebook is read") {
  PlanOptions options;
  expand_pasted_line({"plan", "--from", R"x({"cells": [
      {"cell_type": "markdown", "source": ["LLM('z')"]},
      {"cell_type": "code", "source": ["!pip install vllm==0.9.2\n", "import vllm"]},
      {"cell_type": "code", "source": "LLM(model=\"m\",\n max_model_len=4096)"}],
      "nbformat": 4})x"},
                     options);
  CHECK(options.model == "m");
  CHECK(options.launch.args.max_model_len == 4096);
  CHECK(vllm::version_text(options.launch.args.version) == "0.9.2");
  PlanOptions served;
  expand_pasted_line({"plan", "--from", R"x({"cells": [{"cell_type": "code", "source":
      ["import os\n", "os.environ['A'] = \"it's\"\n", " !vllm serve m -tp 2\n"]}]})x"},
                     served);
  CHECK(served.model == "m");
  CHECK(served.launch.args.tensor_parallel == 2);
  CHECK_THROWS_WITH(expand_pasted_line({"plan", "--from", R"({"cells": []})"}, served),
                    "--from: is a notebook without code");
}

TEST_CASE("MODEL beside a pasted line of any engine is the one that is planned") {
  for (const char* line :
       {"sglang serve --model-path m --tp 2", "lmdeploy serve api_server m --tp 2",
        "llama-server -m m", "sgl.Engine(model_path='m')"}) {
    INFO(line);
    PlanOptions options;
    const auto words = expand_pasted_line({"plan", "x", "--gpu", "h100", "--from", line}, options);
    CHECK(take_engine_words(words, options) ==
          std::vector<std::string>{"plan", "--gpu", "h100", "x"});
  }
}
