// Pasted launches of public pages, changed at random as people change them: read as they were when
// tests/data/digests/pasted.txt was written (README there).
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/lower_case.h"
#include "cli/plan/paste/pasted_launch.h"
#include "cli/variable.h"
#include "digests.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

using Texts = std::vector<std::string>;

constexpr int kChanges = 40;  // of a text

/// Launches of kinds that the pages hardly show.
const Texts kTexts = {
    "services:\n  vllm:\n    image: vllm/vllm-openai:v0.11.0\n    environment:\n      - A=1\n"
    "    command: --model Qwen/Qwen3-8B --max-model-len 8192 --tensor-parallel-size 2\n",
    "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
    "      - name: a\n        image: vllm/vllm-openai:latest\n        command: [\"vllm\", "
    "\"serve\"]\n"
    "        args: [\"m\", \"--max-num-seqs=64\", \"--kv-cache-dtype\", \"fp8\"]\n"
    "        resources: {limits: {nvidia.com/gpu: \"2\"}}\n",
    "FROM vllm/vllm-openai:v0.10.2\nENV M=Qwen/Qwen3-8B\nCMD [\"--model\", \"m\", \"--dtype\", "
    "\"half\"]\n",
    "from vllm import LLM\nllm = LLM(model='m', tensor_parallel_size=4,\n"
    "          gpu_memory_utilization=0.8, enforce_eager=True)\n",
    "from vllm import AsyncEngineArgs\nargs = AsyncEngineArgs('m', max_model_len=4096,\n"
    "  speculative_config={'method': 'ngram', 'num_speculative_tokens': 3})\n",
    "#!/bin/bash\n#SBATCH --gres=gpu:4\nexport M=m\nLEN=2048\nsrun vllm serve $M --max-model-len "
    "$((LEN * 2)) \\\n  --tensor-parallel-size ${TP:-4} &\nwait\n",
    "[Service]\nEnvironment=\"VLLM_USE_V1=0\"\nExecStart=/opt/venv/bin/vllm serve m --port 8000 "
    "--max-num-seqs 8\n",
    "import subprocess\nsubprocess.run(['vllm', 'serve', 'm', '--max-model-len', '100'])\n",
    "model: m\nmax-model-len: 2048\ntensor-parallel-size: 2\nenable-prefix-caching: false\n",
    "docker run --gpus '\"device=0,1\"' -v ~/m:/m --ipc=host vllm/vllm-openai:v0.9.1 --model /m "
    "--tensor-parallel-size 2",
    "for l in 1024 2048; do\n  python -m vllm.entrypoints.openai.api_server --model m "
    "--max-model-len $l\ndone",
    "VLLM_ATTENTION_BACKEND=FLASHINFER CUDA_VISIBLE_DEVICES=0,1 vllm bench throughput --model m "
    "--input-len 100"};

Texts pages() {
  Texts texts = kTexts;
  std::ifstream file(kData / "engines/pasted.jsonl");
  for (std::string line; std::getline(file, line);)
    texts.push_back(parse_json<Json>(line)["line"].get<std::string>());
  return texts;
}

Texts cut(const std::string& text, char at) {
  Texts parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

struct Around {
  const char* before;
  const char* behind;
};

constexpr Around kWords[] = {{"'", "'"},     {"\"", "\""},
                             {"", " \\\n "}, {"", " # a comment\n"},
                             {"", "}"},      {"", " --max-model-len=777"},
                             {"", " -tp 2"}, {"", " $UNKNOWN"},
                             {"A=1 ", ""},   {"\\\n", ""}};
constexpr Around kLines[] = {{"# ", ""},
                             {"$ ", ""},
                             {"export TP=2\n", ""},
                             {"sudo ", ""},
                             {"", " && echo done"},
                             {"pip install vllm==0.9.2 && ", ""},
                             {"  ", ""},
                             {"nohup ", " > log 2>&1 &"}};
constexpr Around kWholes[] = {{"```bash\n", "\n```"}, {"bash -c '", "'"}, {"\"", "\""}};

std::string around(const Around& text, const std::string& middle) {
  return text.before + middle + text.behind;
}

/// The text with one word or line of it changed, doubled or left out, or with something around it.
std::string changed(Draw& draw, const std::string& text) {
  const bool of_words = draw.below(2) == 0;
  Texts parts = cut(text, of_words ? ' ' : '\n');
  if (parts.empty()) return "vllm serve m";
  std::string& part = parts[draw.below(parts.size())];
  switch (draw.below(8)) {
    case 0:
      return around(draw.of(kWholes), text);
    case 1:
      part.clear();
      break;
    case 2:
      part += (of_words ? " " : "\n") + part;
      break;
    case 3:
      part = lower_case(part);
      break;
    default:
      part = around(of_words ? draw.of(kWords) : draw.of(kLines), part);
  }
  return fmt::format("{}", fmt::join(parts, of_words ? " " : "\n"));
}

Answered read(const std::string& text) {
  return answered(text, [&] {
    const cli::PastedLaunch launch = cli::launch_of(text);
    const Json answer = {{"words", launch.words},
                         {"defaults", launch.defaults},
                         {"variables", launch.variables},
                         {"releases", launch.releases},
                         {"engine", launch.engine},
                         {"image", launch.image},
                         {"gpus", launch.gpus.value_or(-1)},
                         {"usage", static_cast<int>(launch.usage)},
                         {"left_out", launch.left_out},
                         {"mounts", launch.mounts},
                         {"refused", launch.refused}};
    return answer.dump();
  });
}

}  // namespace

TEST_CASE("pasted launches changed at random are read as they were") {
  const Variable home("HOME", "/home/user");  // stands in mounts ("-v ~/models:/models")
  Digests digests("pasted");
  for (const std::string& text : pages()) {
    Draw draw(text);
    std::vector<Answered> all = {read(text)};
    // What is broken YAML is for yaml-cpp to say, and its releases differ.
    const auto yaml = cli::json_of_yaml(text);
    const int changes = yaml && yaml->is_object() ? 0 : kChanges;
    for (int i = 0; i < changes; ++i) {
      std::string other = changed(draw, text);
      for (size_t more = draw.below(3); more > 0; --more) other = changed(draw, other);
      all.push_back(read(other));
    }
    digests.compare(fmt::format("{:016x}", Draw::digest(text)), all);
  }
  digests.finish();
}
