// Lines of plan drawn at random: figures, words and refusals are those of when
// tests/data/digests/plans.txt was written (README there).
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "cli/drawn_runs.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Scratch;

namespace {

using Words = std::vector<std::string>;

const Words kEngines = {"",
                        "",
                        "",
                        "--engine vllm",
                        "--engine vllm",
                        "--vllm-version 0.6.3",
                        "--vllm-version 0.8.5",
                        "--vllm-version 0.11.0",
                        "--vllm-version 0.15.1",
                        "--vllm-version 0.19.0",
                        "--vllm-version 0.27.0",
                        "--vllm-version 0.31.2.dev3",
                        "--engine sglang",
                        "--engine lmdeploy",
                        "--engine llamacpp --gguf-type Q4_K_M",
                        "--engine transformers",
                        "--engine tensorrt-llm",
                        "--engine all"};

const Words kCards = {"--gpu h100",
                      "--gpu h100",
                      "--gpu 4090",
                      "--gpu l40s",
                      "--gpu b200",
                      "--gpu 8xH100",
                      "--gpu 5090",
                      "--gpu t4",
                      "--gpu a100-40",
                      "--gpu gb10",
                      "--gpu smallest",
                      "--gpu-total-memory 20GiB",
                      "--gpu H100-SXM5-80GB-MIG-3g.40gb",
                      "--gpu h100",
                      "--gpu a10 --gpus auto",
                      "--gpu h200 --gpus 4",
                      "--gpu l4 --gpus 3",
                      "--gpu mi300x",
                      "--gpu 'rtx pro 6000' --gpus auto",
                      "--gpu 2xA6000"};

/// Flags with values that are taken, but for a few.
const Words kPlanFlags = {
    "--max-model-len 4096",
    "--max-model-len 32k",
    "--max-model-len auto",
    "--max-model-len 300000",
    "--max-num-seqs 8",
    "--max-num-seqs 700",
    "--max-num-seqs auto",
    "--max-num-batched-tokens 1024",
    "--max-num-batched-tokens 16k",
    "--max-num-batched-tokens auto",
    "--enable-chunked-prefill",
    "--no-enable-chunked-prefill",
    "--no-enable-prefix-caching",
    "--enable-prefix-caching",
    "--gpu-memory-utilization 0.5",
    "--gpu-memory-utilization 0.97",
    "--gpu-memory 12GiB",
    "--gpu-memory 60GiB",
    "--gpu-total-memory 30000MiB",
    "--reserved-memory 3GiB",
    "--kv-cache-memory 2GiB",
    "--available-kv-memory 7GiB",
    "--free-memory before=22GiB,after=9GiB",
    "--num-gpu-blocks-override 900",
    "--block-size 32",
    "--block-size 64",
    "--cpu-offload-gb 2",
    "--dtype float16",
    "--dtype float32",
    "--quantization fp8",
    "-q bitsandbytes",
    "--quantized-activations on",
    "--kv-cache-dtype fp8",
    "--mamba-ssm-cache-dtype float32",
    "--mamba-cache-mode align",
    "--mamba-block-size 512",
    "--deterministic",
    "-tp 2",
    "-tp 4",
    "-tp 8",
    "-tp 3",
    "-pp 2",
    "-dp 2",
    "-tp 8 -dcp 2",
    "--enable-expert-parallel",
    "--enforce-eager",
    "--cudagraph-capture-sizes 1,2,4,40",
    "--cuda-graph-sizes 64",
    "--max-cudagraph-capture-size 100",
    "-O 0",
    "-O '{\"cudagraph_mode\":\"PIECEWISE\"}'",
    "--optimization-level 1",
    "--hf-overrides '{\"max_position_embeddings\":9000}'",
    "--rope-theta 5000",
    "--disable-hybrid-kv-cache-manager",
    "--async-scheduling",
    "--performance-mode throughput",
    "--performance-mode interactivity",
    "--disable-custom-all-reduce",
    "--enable-sleep-mode",
    "--attention-backend FLASHINFER",
    "--attention-backend TRITON_ATTN",
    "--flashinfer-sampler",
    "--no-flashinfer-sampler",
    "--interconnect nvlink",
    "--interconnect pcie",
    "--assume worst",
    "--usage offline",
    "--usage batch",
    "--enable-lora --max-loras 3 --max-lora-rank 64",
    "--enable-lora",
    "--speculative-config '{\"method\":\"ngram\",\"num_speculative_tokens\":4}'",
    "--speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":1}'",
    "--limit-mm-per-prompt image=2",
    "--limit-mm-per-prompt '{\"image\":0,\"video\":0}'",
    "--mm-processor-kwargs '{\"max_pixels\":200704}'",
    "--language-model-only",
    "--skip-mm-profiling",
    "--mm-processor-cache-gb 1",
    "--engine-args '{\"mem_fraction_static\":0.7}'",
    "--engine-args '{\"cache_max_entry_count\":0.4}'",
    "--host ::1 --port 80",
    "--rate 500",
    "-i in",
    "-i in --rate 2k --long-prompt truncate-left",
    "-i in --max-tokens 300",
    "--served-model-name other",
    "--max-num-sequences 4",
    "--max-num-seqs 200 --max-num-batched-tokens 9000",
    "--kv-cache-memory-bytes 5GiB",
    "--tensor-parallel-size 2 --pipeline-parallel-size 2",
    "-tp 2 -dp 2 --enable-expert-parallel",
    "--no-enable-expert-parallel --no-enforce-eager",
    "--no-async-scheduling",
    "--no-disable-custom-all-reduce",
    "--no-disable-hybrid-kv-cache-manager",
    "--enable-batch-sharded-sampling -tp 2",
    "--no-enable-batch-sharded-sampling",
    "--allow-deprecated-quantization",
    "--rope-scaling '{\"rope_type\":\"yarn\",\"factor\":4.0}'",
    "--hf-overrides '{\"num_hidden_layers\":5}'",
    "--engram-config '{\"cpu_offload\":true}'",
    "--compilation-config '{\"cudagraph_capture_sizes\":[1,2,40]}'",
    "--compilation-config '{\"cudagraph_mode\":\"FULL\"}'",
    "--runner pooling",
    "--runner pooling --convert embed",
    "--convert classify",
    "--task embed",
    "--pooler-config '{\"pooling_type\":\"MEAN\"}' --runner pooling",
    "--override-pooler-config '{\"pooling_type\":\"CLS\"}' --task embed",
    "--swap-space 9 --api-key x --disable-log-requests",
    "--trust-remote-code --enable-auto-tool-choice --tool-call-parser hermes",
    "-i in --tokens-per-second 90",
    "-i in --reorder ordered",
    "--engine-version 0.14.1",
    "--engine-version 1"};

const Words kAnswers = {"",
                        "",
                        "--advise",
                        "--format json",
                        "--format json",
                        "--format json --advise",
                        "--format args",
                        "--format serve",
                        "--format log",
                        "--explain weights",
                        "--explain cache",
                        "--explain activation"};

/// How somebody may have the launch at hand; {0} is a model, {1} flags.
const Words kPastes = {"vllm serve {0} {1}",
                       "sudo VLLM_USE_V1=1 vllm serve --model {0} {1} > log 2>&1 &",
                       "docker run --gpus all -p 80:80 vllm/vllm-openai:v0.11.0 --model {0} {1}",
                       "python -m sglang.launch_server --model-path {0} --tp 2 {1}",
                       "plimsoll run {0} -i in -o out {1}",
                       "M={0}\nvllm serve $M \\\n  {1}"};

/// Seldom more than two: each may be refused.
std::string drawn_flags(Draw& draw) {
  Words flags;
  for (size_t count = std::min(draw.below(5), draw.below(5)); count > 0; --count)
    flags.push_back(draw.of(kPlanFlags));
  return fmt::format("{}", fmt::join(flags, " "));
}

/// A config for each architecture (README there).
std::vector<Json> configs() {
  std::ifstream file(kData / "families/families.jsonl");
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) {
    Json row = parse_json<Json>(line);
    if (row.contains("config")) rows.push_back(std::move(row));
  }
  return rows;
}

std::string plan_line(const Scratch& scratch, Draw& draw) {
  const bool samples = draw.below(4) == 0;
  const std::string model = samples ? "$MODEL" : "config.json";
  const std::string card = draw.of(kCards) + " " + draw.of(kAnswers);
  const std::string flags = drawn_flags(draw);
  const std::string line = fmt::format("plimsoll plan {} {}", model, draw.of(kEngines));
  switch (draw.below(8)) {
    case 0:
      break;
    case 1:  // what two launches differ in
      return fmt::format(
          "{0} {1} --format json > a; {0} {1} {2} --format json > b; plimsoll plan --diff a b",
          line, draw.of(kCards), flags);
    case 2:  // the log of another launch
      return fmt::format("{0} {1} {2} --format log > log; {0} {1} --check log", line,
                         draw.of(kCards), flags);
    default:
      return fmt::format("{} {} {}", line, card, flags);
  }
  scratch.write("pasted",
                fmt::format(fmt::runtime(draw.of(kPastes)), samples ? test::kModel : model, flags));
  return fmt::format("plimsoll plan --from pasted {}", card);
}

}  // namespace

TEST_CASE("lines of plan drawn at random have the figures, words and refusals that they had") {
  const std::vector<Json> rows = configs();
  Digests digests("plans");
  for (int seed = 0; seed < testing::times(300, 100); ++seed) {
    const std::string name = fmt::format("{:03}", seed);
    Draw draw(name);
    const Scratch scratch;
    const Json& row = draw.of(rows);
    scratch.write("config.json", row.at("config").dump());
    scratch.write("in", "{\"prompt\":\"To be, or not\",\"max_tokens\":9}\n{\"prompt\":[1]}\n");
    std::vector<Answered> all = {{row.at("name"), ""}};
    for (int i = 0; i < 5; ++i) {
      const std::string line = plan_line(scratch, draw);
      const test::Outcome outcome = test::shell(scratch, alone(line));
      const std::string said = fmt::format("{} {}\n{}", outcome.status, outcome.out, outcome.err);
      all.push_back({without_folders(scratch, line), without_folders(scratch, said)});
    }
    digests.compare(name, all);
  }
  digests.finish(testing::takes_all_cases());
}
