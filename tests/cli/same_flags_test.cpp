// `plan` and `run` take one set of flags: a line of one becomes a line of the other by one word.
#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>
#include <set>

#include "cli/plan/options.h"
#include "cli/program.h"
#include "cli/run/options.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

std::set<std::string> names_of(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.insert("--" + name);
    for (const std::string& name : option->get_snames()) names.insert("-" + name);
  }
  return names;
}

std::set<std::string> without(std::set<std::string> names, const std::set<std::string>& but) {
  for (const std::string& name : but) names.erase(name);
  return names;
}

}  // namespace

TEST_CASE("each command knows every flag of the other") {
  CLI::App run;
  RunOptions run_options;
  declare_run_flags(run, run_options);
  CLI::App plan;
  PlanOptions plan_options;
  declare_plan_flags(plan, plan_options);
  // Flags that compare plans, take a report or write a file are no launch's.
  CHECK(names_of(run) == without(names_of(plan), {"--diff", "--check", "--reorder"}));
}

TEST_CASE("a plan line becomes a run line, and a run line a plan line") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"To be\",\"max_tokens\":2}\n");
  struct Row {
    std::string flags, noted_by_run, noted_by_plan;
  };
  const Row rows[] = {
      {"--max-model-len 256 --max-num-seqs 4 --block-size 32", "", ""},
      {"--max-model-len auto --max-num-seqs auto --cpu-kvcache-space 8MiB",
       "--max-num-seqs auto: ", ""},
      {"--kv-cache-memory 4MiB --dtype float32 --threads 1", "", ""},
      {"--num-gpu-blocks-override 70 --no-enable-prefix-caching", "", ""},
      {"--gpu-memory 8GiB --reserved-memory 1GiB --enforce-eager",
       "--gpu-memory, --reserved-memory, --enforce-eager: without effect on the CPU", ""},
      {"--gpu h100 --gpus 1 --advise --format text",
       "--format text, --gpu, --gpus, --advise: for plan alone", ""},
      {"--temperature 0.5 --top-p 0.9 --seed 7 -o answers --overwrite --progress none", "",
       "moves no device memory: --output-file, --overwrite, --seed, --temperature, --top-p, "
       "--progress"},
      {"-i in --part 0/1 --skip 0 --limit 1 --max-tokens 3 --tokenizer $MODEL", "", ""},
      {"-i in --mamba-ssm-cache-dtype float32",
       "--mamba-ssm-cache-dtype: without effect on our own engine",
       "without effect on our own engine: --mamba-ssm-cache-dtype"},
      {"-q -i in --usage batch --disable-hybrid-kv-cache-manager", "", "moves no device memory: "},
  };
  for (const Row& row : rows) {
    INFO(row.flags);
    const Outcome run = shell(scratch, "plimsoll run $MODEL " + row.flags + " < in");
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK_THAT(run.err, Contains(row.noted_by_run));
    const Outcome plan = shell(scratch, "plimsoll plan $MODEL " + row.flags);
    INFO(plan.err + plan.out);
    CHECK(plan.status == 0);
    std::string text = plan.out;
    std::ranges::replace(text, '\n', ' ');
    CHECK_THAT(text, Contains(row.noted_by_plan));
  }
}

TEST_CASE("-q is quiet, and before a method --quantization") {
  const Scratch scratch;
  const Outcome refused = shell(scratch, "plimsoll run $MODEL -q bitsandbytes < /dev/null");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err,
             Contains("--quantization bitsandbytes: our own engine quantizes with fp8 alone"));
  CHECK(shell(scratch, "plimsoll plan $MODEL -q bitsandbytes").err == refused.err);
  CHECK(shell(scratch, "plimsoll plan $MODEL --engine vllm -q fp8").status == 0);
  CHECK(shell(scratch, "plimsoll run -q $MODEL < /dev/null").err.empty());
}

TEST_CASE("as many sequences as a step has tokens are the most, for plan and run alike") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"To be\",\"max_tokens\":2}\n");
  const std::string flags = " $MODEL --max-num-seqs auto --max-num-batched-tokens 7";
  const Outcome plan = shell(scratch, "plimsoll plan" + flags);
  CHECK_THAT(plan.out, Contains("tokens: 7 (each needs one token of"));
  const Outcome run = shell(scratch, "cat in | plimsoll run -i - -o out" + flags);
  CHECK(run.status == 0);
  CHECK_THAT(run.err, Contains("--max-num-seqs auto: 7 (as many as fit with their whole context"));
}

TEST_CASE("flags that our engine cannot heed are refused by both") {
  const Scratch scratch;
  for (const char* flags : {"--cpu-offload-gb 1", "--enable-expert-parallel", "--enable-lora",
                            "--speculative-config '{\"method\":\"ngram\"}'",
                            "--kv-cache-dtype fp8_e5m2", "--gpu-memory 0"}) {
    INFO(flags);
    const Outcome run = shell(scratch, std::string("plimsoll run $MODEL < /dev/null ") + flags);
    const Outcome plan = shell(scratch, std::string("plimsoll plan $MODEL --gpu h100 ") + flags);
    CHECK(run.status == 2);
    CHECK(plan.status == 2);
    CHECK(run.err == plan.err);
  }
}

TEST_CASE("unknown flags of a pasted line are named, with the nearest known one") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch,
            "plimsoll plan --from 'vllm serve '$MODEL' --max-num-seqq 4 --frobnicate=9 --port 1'");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Contains("--max-num-seqq (did you mean") &&
                              Contains("--max-num-seqs?)") && Contains("--frobnicate") &&
                              Contains("not known to plan"));
}
