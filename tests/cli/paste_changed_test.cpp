// Pasted launches of public pages, changed at random as people change them: read as they were when
// tests/data/digests/pasted.txt was written (README there).
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/lower_case.h"
#include "cli/plan/paste/pasted_launch.h"
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

std::string joined(const Texts& parts, const char* between) {
  return fmt::format("{}", fmt::join(parts, between));
}

/// One change of a word, a line or the whole text.
std::string changed(Draw& draw, const std::string& text) {
  Texts words = cut(text, ' '), lines = cut(text, '\n');
  if (words.empty() || lines.empty()) return "vllm serve m";
  std::string& word = words[draw.below(words.size())];
  std::string& line = lines[draw.below(lines.size())];
  const size_t change = draw.below(22);
  switch (change) {
    case 0:
      word = "'" + word + "'";
      break;
    case 1:
      word = "\"" + word + "\"";
      break;
    case 2:
      word += " \\\n ";
      break;
    case 3:
      word += " " + word;
      break;
    case 4:
      word.clear();
      break;
    case 5:
      word += " # a comment\n";
      break;
    case 6:
      word = lower_case(word);
      break;
    case 7:
      word += " --max-model-len=777";
      break;
    case 8:
      word += " -tp 2";
      break;
    case 9:
      word += " $UNKNOWN";
      break;
    case 10:
      word += "}";
      break;
    default:
      break;
  }
  if (change < 11) return joined(words, " ");
  switch (change) {
    case 11:
      line = "# " + line;
      break;
    case 12:
      line = "$ " + line;
      break;
    case 13:
      line = "export TP=2\n" + line;
      break;
    case 14:
      line = "sudo " + line;
      break;
    case 15:
      line = "pip install vllm==0.9.2 && " + line;
      break;
    case 16:
      line += " && echo done";
      break;
    case 17:
      line = "nohup " + line + " > log 2>&1 &";
      break;
    case 18:
      line.clear();
      break;
    default:
      break;
  }
  if (change < 19) return joined(lines, "\n");
  if (change == 19) return "```bash\n" + text + "\n```";
  if (change == 20) return "bash -c '" + text + "'";
  return "  " + joined(lines, "\n  ");
}

Answered read(const std::string& text) {
  try {
    const cli::PastedLaunch launch = cli::launch_of(text);
    return {text, fmt::format("{} {} {} {} {} {} {} {} {} {} {}", launch.words, launch.defaults,
                              launch.variables, launch.releases, launch.engine, launch.image,
                              launch.gpus.value_or(-1), static_cast<int>(launch.usage),
                              launch.left_out, launch.mounts, launch.refused)};
  } catch (const Error& error) {
    return {text, error.what()};
  }
}

}  // namespace

TEST_CASE("pasted launches changed at random are read as they were") {
  // "~/models:/models" is a folder of this machine or not, which answers must not depend on.
  const char* const home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  setenv("HOME", "/no/such/home", 1);
  Digests digests("pasted");
  int number = 0;
  for (const std::string& text : pages()) {
    Draw draw(text);
    std::vector<Answered> all = {read(text)};
    for (int i = 0; i < kChanges; ++i) {
      std::string other = changed(draw, text);
      for (size_t more = draw.below(3); more > 0; --more) other = changed(draw, other);
      all.push_back(read(other));
    }
    digests.compare(fmt::format("{:03}", ++number), all);
  }
  setenv("HOME", kept.c_str(), 1);
}
