// Going on: the same command again, another command, a full disk, a finished output.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "cli/help_flags.h"
#include "cli/program.h"
#include "cli/resumed.h"
#include "skipped.h"

using namespace plimsoll;
using test::check_goes_on;
using test::json_lines;
using test::Outcome;
using test::prompts;
using test::Scratch;
using test::shell;

namespace {

// Remains of a killed run, by a file system that is full after `blocks` of 1 KiB.
const char* const kFull = "(ulimit -f $BLOCKS; plimsoll run $MODEL -i in -o out --max-num-seqs 4)";

}  // namespace

TEST_CASE("a file that may not grow ends the run with 9, and the same command goes on") {
  const Scratch scratch;
  scratch.write("in", prompts(60));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const Outcome full = shell(scratch, std::string("BLOCKS=4; ") + kFull);
  CHECK(full.status == 9);
  CHECK_THAT(full.err, Catch::Contains("the same command goes on"));
  const std::string part = scratch.read("out.part");
  CHECK(part.ends_with('\n'));
  CHECK(!json_lines(part).empty());
  const Outcome again = shell(scratch, "plimsoll run $MODEL -i in -o out --max-num-seqs 3");
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("are done already"));
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE("a finished line that was damaged since is named with the cure") {
  const Scratch scratch;
  scratch.write("in", prompts(60));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  REQUIRE(shell(scratch, std::string("BLOCKS=4; ") + kFull).status == 9);
  std::string part = scratch.read("out.part");
  char& letter = part[part.find("\"text\":\"", part.find('\n')) + 8];  // of the second line
  letter = letter == 'a' ? 'b' : 'a';
  scratch.write("out.part", part);
  for (const char* command :
       {"plimsoll run $MODEL -q -i in -o out", "plimsoll run --publish out"}) {
    INFO(command);
    const Outcome outcome = shell(scratch, command);
    CHECK(outcome.status == 8);
    CHECK_THAT(outcome.err, Catch::Contains("out.part, line 2 at byte") &&
                                Catch::Contains("take the damaged line out (sed -i '2d')"));
    CHECK(scratch.read("out.part") == part);
  }
  REQUIRE(shell(scratch, "sed -i '2d' out.part; plimsoll run $MODEL -q -i in -o out").status == 0);
  CHECK(scratch.read("out") == scratch.read("whole"));
  CHECK(!scratch.has("out.part.xxh3"));
}

TEST_CASE("a finished output is left as it is, without a look at the weights") {
  const Scratch scratch;
  scratch.write("in", prompts(5));
  CHECK(shell(scratch, "cp -r $MODEL model; plimsoll run model -q -i in -o out").status == 0);
  const Outcome again = shell(scratch,
                              "stat -c %i.%y out > before; plimsoll run model -i in -o out; "
                              "status=$?; stat -c %i.%y out | cmp - before && exit $status");
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("complete already"));
  CHECK(!scratch.has("out.part"));
}

TEST_CASE("another command is refused and told what differs") {
  const Scratch scratch;
  scratch.write("in", prompts(40));
  REQUIRE(shell(scratch, std::string("BLOCKS=3; ") + kFull).status == 9);
  const std::string part = scratch.read("out.part");
  struct Row {
    const char* change;
    const char* told;
  };
  for (const Row& row :
       {Row{"plimsoll run $MODEL -i in -o out --seed 7", "answers.seed: 0"},
        Row{"plimsoll run $MODEL -i in -o out --temperature 0", "answers.fields"},
        Row{"plimsoll run $MODEL -i in -o out --chat-template '{{ messages }}'", "chat_template"},
        Row{"plimsoll run $MODEL -i in -o out --max-model-len 64", "max_model_len"},
        Row{"plimsoll run $MODEL -i in -o out --format ids", "format"},
        Row{"plimsoll run $MODEL -i in -o out --errors bad", "errors"},
        Row{"plimsoll run $MODEL -i in -o out --limit 9", "lines.count"},
        Row{"SOURCE_DATE_EPOCH=7 plimsoll run $MODEL -i in -o out", "created"},
        Row{"(cat in; echo '\"x\"') > in2; plimsoll run $MODEL -i in2 -o out", "input.bytes"},
        Row{"cp -r $MODEL m; echo ' ' >> m/config.json; plimsoll run m -i in -o "
            "out --served-model-name $MODEL",
            "model.config.json"}}) {
    INFO(row.change);
    const Outcome outcome = shell(scratch, row.change);
    CHECK(outcome.status == 8);
    CHECK_THAT(outcome.err, Catch::Contains(row.told));
    CHECK(scratch.read("out.part") == part);
  }
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out --threads 1 --max-num-seqs 2").status ==
        0);
}

TEST_CASE("each flag of run either belongs to a finished output or changes nothing in it") {
  const Scratch scratch;
  const std::string prompt = "{\"prompt\":\"x\",\"max_tokens\":2}\n";
  scratch.write("in", prompt + prompt);
  REQUIRE(shell(scratch, "cp -r $MODEL copy; plimsoll run $MODEL -q -i in -o out").status == 0);
  const std::vector<std::string> other_answers = {
      "--errors bad",
      "--format ids",
      "--part 0/2",
      "--skip 1",
      "--limit 1",
      "--max-line-bytes 1MiB",
      "--strict",
      "--load-format dummy",
      "--load-format sharded_state --file-pattern x",
      "--load-format sharded_state --model-loader-extra-config '{\"pattern\":\"x\"}'",
      "--tokenizer copy",
      "--skip-tokenizer-init",
      "--tool-call-parser hermes",
      "--reasoning-parser qwen3",
      "--generation-config vllm",
      "--served-model-name x",
      "--seed 1",
      "--max-tokens 1",
      "--min-tokens 1",
      "--temperature 0.5",
      "--top-p 0.5",
      "--top-k 3",
      "--min-p 0.1",
      "--repetition-penalty 1.5",
      "--presence-penalty 1",
      "--frequency-penalty 1",
      "-n 2",
      "--logprobs 1",
      "--stop x",
      "--ignore-eos",
      "--max-logprobs 3",
      "--chat-template '{{ messages }}'",
      "--chat-template-kwargs '{\"a\":1}'",
      "--structured-outputs '{\"type\":\"string\"}'",
      "--long-prompt split",
      "--allowed-local-media-path .",
      "--max-image-pixels 9",
      "--split-overlap 3",
      "--max-model-len 64",
      "--dtype float32",
      "--quantization fp8",
      "--quantized-activations off",
      "--kv-cache-dtype fp8",
      "--cpu-isa portable",
      "--limit-mm-per-prompt image=1",
      "--mm-processor-kwargs '{\"max_pixels\":100352}'",
      "--language-model-only"};
  const std::vector<std::string> same_answers = {
      "-m copy", "--fsync each", "--report r", "--metrics-file m", "--status-fd 1",
      "--order prefix", "--time-limit 1h", "--grace 1s", "--stall-limit 1h", "--progress none",
      "-q", "--max-num-seqs 3", "--max-num-batched-tokens 64", "--no-enable-chunked-prefill",
      "--no-enable-prefix-caching", "--gpu-memory-utilization 0.5", "--gpu-memory 1GiB",
      "--reserved-memory 1GiB", "--kv-cache-memory 4MiB", "--cpu-kvcache-space 1",
      "--num-gpu-blocks-override 70", "--block-size 32", "--device cpu", "--threads 1",
      // Ranks and graphs do not change how numbers are summed on the CPU.
      "--deterministic", "--tensor-parallel-size 2", "--pipeline-parallel-size 2",
      "--data-parallel-size 2", "--enable-expert-parallel", "--enforce-eager",
      "--cudagraph-capture-sizes 1", "--cuda-graph-sizes 8", "--max-cudagraph-capture-size 8",
      "-O 0", "--optimization-level 1",
      // No launch of our engine heeds these.
      "--cpu-offload-gb 1", "--mamba-ssm-cache-dtype float32", "--mamba-cache-mode align",
      "--mamba-block-size 64", "--skip-mm-profiling", "--mm-processor-cache-gb 1",
      "--hf-overrides '{}'", "--engram-config '{}'", "--rope-theta 5", "--rope-scaling '{}'",
      "--disable-hybrid-kv-cache-manager", "--allow-deprecated-quantization", "--async-scheduling",
      "--performance-mode throughput", "--usage offline", "--enable-lora", "--max-loras 2",
      "--max-lora-rank 8", "--speculative-config '{}'", "--flashinfer-sampler",
      "--interconnect pcie", "--disable-custom-all-reduce", "--assume worst",
      "--decode-context-parallel-size 2", "--enable-batch-sharded-sampling", "--enable-sleep-mode",
      "--runner pooling", "--convert embed", "--task embed", "--pooler-config '{}'",
      "--override-pooler-config '{}'", "--attention-backend FLASHINFER"};
  std::set<std::string> named = {"-h",        "--help",      "-i",
                                 "-o",        "--overwrite", "--retry-failed",
                                 "--publish", "--merge",     "--dry-run"};
  std::string script, expected;
  const auto try_each = [&](const std::vector<std::string>& rows, const char* status) {
    for (const std::string& flags : rows) {
      named.merge(test::flags_in(flags));
      script += "plimsoll run $MODEL -i in -o out " + flags + " >log 2>&1; echo \"$? " +
                flags.substr(0, flags.find(' ')) + "\"; ";
      expected += status + flags.substr(0, flags.find(' ')) + "\n";
    }
  };
  try_each(other_answers, "8 ");
  try_each(same_answers, "0 ");
  CHECK(shell(scratch, script).out == expected);
  std::istringstream help(shell(scratch, "plimsoll run --help").out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    const std::set<std::string> flags = test::flags_in(line.substr(0, line.find("  ", 3)));
    INFO(line);
    CHECK(
        std::ranges::any_of(flags, [&](const std::string& flag) { return named.contains(flag); }));
  }
}

TEST_CASE("a run that another build began is refused, and goes on with its own") {
  const Scratch scratch;
  scratch.write("in", prompts(40));
  REQUIRE(shell(scratch, std::string("BLOCKS=3; ") + kFull).status == 9);
  const std::string record = scratch.read("out.run.json");
  const std::string build = parse_json<Json>(record)["job"]["version"];
  std::istringstream version(shell(scratch, "plimsoll --version").out);
  std::string name, number, word, commit;
  version >> name >> number >> word >> commit;
  CHECK(build == number + ", commit " + commit);
  std::string other = record;
  other.replace(record.find(build), build.size(), number + ", commit 0123456789ab");
  scratch.write("out.run.json", other);
  const Outcome refused = shell(scratch, "plimsoll run $MODEL -i in -o out");
  CHECK(refused.status == 8);
  CHECK_THAT(refused.err, Catch::Contains("(version: \"" + number +
                                          ", commit 0123456789ab\" then, "
                                          "\"" +
                                          build + "\" now); go on with the build that"));
  scratch.write("out.run.json", record);
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
}

TEST_CASE("a run whose inputs are rounded otherwise is another run") {
  const Scratch scratch;
  scratch.write("in", prompts(3));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  const Outcome refused =
      shell(scratch, "plimsoll run $MODEL -q -i in -o out --quantized-activations off");
  CHECK(refused.status == 8);
  CHECK_THAT(refused.err,
             Catch::Contains("launch.quantized_activations: \"auto\" then, \"off\" now"));
}

TEST_CASE("a run of another instruction set is refused with the flag that pins it") {
  const Scratch scratch;
  scratch.write("in", prompts(40));
  REQUIRE(
      shell(scratch,
            std::string("PLIMSOLL_CPU_ISA=portable; export PLIMSOLL_CPU_ISA; BLOCKS=3; ") + kFull)
          .status == 9);
  const Outcome refused = shell(scratch, "plimsoll run $MODEL -i in -o out --cpu-isa avx2");
  CHECK(refused.status == 8);
  CHECK_THAT(refused.err, Catch::Contains("launch.cpu_isa") && Catch::Contains("--cpu-isa"));
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out --cpu-isa portable").status == 0);
}

TEST_CASE("what an unfinished run has left can be published") {
  // Without the input nobody knows what is missing; the run is not complete for that.
  for (const char* publish :
       {"plimsoll run --publish out",
        "mv in moved; plimsoll run --publish out; s=$?; mv moved in; exit $s"}) {
    const Scratch scratch;
    scratch.write("in", prompts(60));
    REQUIRE(shell(scratch, std::string("BLOCKS=4; ") + kFull).status == 9);
    const Outcome outcome = shell(scratch, publish);
    CHECK(outcome.status == 7);
    CHECK_THAT(outcome.err, Catch::Contains("missing"));
    CHECK(!json_lines(scratch.read("out")).empty());
    CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
    CHECK(json_lines(scratch.read("out")).size() == 60);
  }
}

TEST_CASE("a finished run goes on when more lines are asked for") {
  const Scratch scratch;
  scratch.write("in", prompts(12));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --limit 5").status == 0);
  check_goes_on(scratch, "plimsoll run $MODEL -i in -o out --limit 8", 5);
  CHECK(json_lines(scratch.read("out")).size() == 8);
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  CHECK(scratch.read("out") == scratch.read("whole"));
  const Outcome again = shell(scratch, "plimsoll run $MODEL -i in -o out --limit 99");
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("complete already"));
  const Outcome less = shell(scratch, "plimsoll run $MODEL -i in -o out --limit 8");
  CHECK(less.status == 8);
  CHECK_THAT(less.err, Catch::Contains("lines.count: none then, 8 now"));
  CHECK(shell(scratch, "plimsoll run $MODEL -i in -o out --skip 1").status == 8);
}

TEST_CASE("an output that was changed since its run ended is not called complete") {
  for (const char* flags : {"", " --errors bad"}) {
    const Scratch scratch;
    scratch.write("in", prompts(3) + "{broken\n");
    const std::string command = std::string("plimsoll run $MODEL -q -i in -o out") + flags;
    REQUIRE(shell(scratch, command).status == 3);
    const std::string cut = *flags == '\0' ? "out" : "bad";
    scratch.write(cut, "");
    for (const char* more : {"", " --retry-failed", " --limit 9"}) {
      const Outcome outcome = shell(scratch, command + more);
      CHECK(outcome.status == 8);
      CHECK_THAT(outcome.err, Catch::Contains(cut + ": had") && Catch::Contains("has 0 now"));
      CHECK(scratch.read(cut).empty());
    }
  }
}

TEST_CASE("a report can be written when the run has ended") {
  const Scratch scratch;
  scratch.write("in", prompts(3));
  const std::string command = "plimsoll run $MODEL -q -i in -o out";
  REQUIRE(shell(scratch, command).status == 0);
  REQUIRE(shell(scratch, command + " --report report").status == 0);
  const Json report = parse_json<Json>(scratch.read("report"));
  CHECK(report["lines"]["total"] == 3);
  CHECK(report["exit_status"] == 0);
  CHECK(shell(scratch, command + " --report report").status == 0);  // its own file
}

TEST_CASE("the folder of a model may be spelled otherwise when a run goes on") {
  const Scratch scratch;
  scratch.write("in",
                "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\","
                "\"body\":{\"prompt\":\"a\",\"max_tokens\":1}}\n" +
                    prompts(1));
  REQUIRE(shell(scratch, "cp -r $MODEL m; plimsoll run m -q -i in -o out --limit 1").status == 0);
  const Outcome outcome = shell(scratch, "plimsoll run ./m/ -q -i in -o out");
  CHECK(outcome.status == 0);
  CHECK(json_lines(scratch.read("out"))[0]["response"]["body"]["model"] == "m");
  CHECK(shell(scratch, "plimsoll run m -q -i in -o out --served-model-name n").status == 8);
}

TEST_CASE("going on behind --publish says what becomes of the published file") {
  const Scratch scratch;
  scratch.write("in", prompts(60));
  REQUIRE(shell(scratch, std::string("BLOCKS=4; ") + kFull).status == 9);
  REQUIRE(shell(scratch, "plimsoll run -q --publish out").status == 7);
  CHECK(shell(scratch, "plimsoll run -q --publish out").status == 7);
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in -o out");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.err, Catch::Contains("out is out.part again until all lines are there"));
}

TEST_CASE("with a context that the cache decides, another cache is another run") {
  const Scratch scratch;
  scratch.write("in", prompts(2));
  const std::string command = "plimsoll run $MODEL -q -i in -o out --max-model-len auto";
  REQUIRE(shell(scratch, command).status == 0);
  const Outcome other = shell(scratch, command + " --cpu-kvcache-space 1");
  CHECK(other.status == 8);
  CHECK_THAT(other.err, Catch::Contains("launch.cpu_kvcache_space"));
}

TEST_CASE("on the CPU answers come before all prompts are read") {
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 48; ++i)
    input += "{\"prompt\":\"Enter\",\"max_tokens\":8,\"ignore_eos\":true}\n";
  scratch.write("in", input);
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out --report report").status == 0);
  CHECK(parse_json<Json>(scratch.read("report"))["engine"]["peak_running"] == 32);
}

TEST_CASE("a finished output may lie in a folder that cannot be written to") {
  const Scratch scratch;
  scratch.write("in", prompts(2));
  REQUIRE(shell(scratch, "mkdir d; plimsoll run $MODEL -q -i in -o d/out --errors d/bad").status ==
          0);
  const std::string read_only =
      "unshare -rm sh -c 'mount --bind d d && mount -o remount,bind,ro d && exec \"$0\" \"$@\"' ";
  if (shell(scratch, read_only + "true").status != 0)
    return testing::skip("no folder can be made read-only: unshare -rm is not allowed here");
  const std::string run = read_only + "\"$PROGRAM\" run $MODEL -i in -o ";
  const Outcome again = shell(scratch, run + "d/out --errors d/bad");
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("is complete already"));
  const Outcome other = shell(scratch, run + "d/other");
  CHECK(other.status == 9);
  CHECK_THAT(other.err, Catch::Contains("its folder cannot be written to"));
}
