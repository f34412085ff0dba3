// The command line before any model is read.
#include <sys/resource.h>

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "base/units.h"
#include "batch/fields/request_fields.h"
#include "cli/arguments.h"
#include "cli/child.h"
#include "cli/help_flags.h"
#include "cli/program.h"

using namespace plimsoll;
using namespace plimsoll::cli;
using test::Child;
using test::flags_in;
using test::flags_of_help;
using test::Outcome;
using test::read_file;
using test::Scratch;
using test::shell;

using Words = std::vector<std::string>;

TEST_CASE("multi-letter short options become long ones") {
  CHECK(rewrite_arguments({"-tp", "2"}) == Words{"--tensor-parallel-size", "2"});
  CHECK(rewrite_arguments({"-tp=2"}) == Words{"--tensor-parallel-size=2"});
  CHECK(rewrite_arguments({"-pp", "2"}) == Words{"--pipeline-parallel-size", "2"});
  CHECK(rewrite_arguments({"-pp=2"}) == Words{"--pipeline-parallel-size=2"});
  CHECK(rewrite_arguments({"-dp", "2"}) == Words{"--data-parallel-size", "2"});
  CHECK(rewrite_arguments({"-dp=2"}) == Words{"--data-parallel-size=2"});
}

TEST_CASE("underscores in flag names become dashes; values and what follows -- stay") {
  CHECK(rewrite_arguments({"--max_num_seqs=a_b"}) == Words{"--max-num-seqs=a_b"});
  CHECK(rewrite_arguments({"--stop", "a_b"}) == Words{"--stop", "a_b"});
  CHECK(rewrite_arguments({"--", "-tp", "--a_b"}) == Words{"--", "-tp", "--a_b"});
  CHECK(rewrite_arguments({"-t", "my_model"}) == Words{"-t", "my_model"});
  CHECK(rewrite_arguments({"-i=a=b", "-o=", "-n3"}) == Words{"-i", "a=b", "-o", "", "-n3"});
}

TEST_CASE("counts and sizes") {
  CHECK(parse_count("512") == 512);
  CHECK(parse_count("32k") == 32000);
  CHECK(parse_count("40_960") == 40960);  // as Python reads it
  CHECK(parse_count("32K") == 32768);
  CHECK(parse_count("1.5k") == 1500);
  CHECK(parse_count("2m") == 2000000);
  CHECK(parse_count("2M") == 2 << 20);
  CHECK(parse_size("4GiB") == uint64_t{4} << 30);
  CHECK(parse_size("4G") == uint64_t{4} << 30);
  CHECK(parse_size("4g") == 4000000000);
  CHECK(parse_size("4GB") == 4000000000);
  CHECK(parse_size("64KB") == 64000);
  CHECK(parse_size("100") == 100);
  CHECK(parse_size("0.5", uint64_t{1} << 30) == uint64_t{1} << 29);
  CHECK(parse_memory("2GiB") == uint64_t{2} << 30);
  CHECK(parse_memory("16KiB") == uint64_t{16} << 10);
  CHECK(parse_memory("65536") == uint64_t{64} << 10);
  CHECK_THROWS_WITH(parse_memory("24576"), "24576 is 24576 bytes; is 24576MiB meant?");
  CHECK_THROWS_WITH(parse_memory("24"), "24 is 24 bytes; is 24GiB meant?");
  for (const char* bad : {"", "k", "-1", "1.5", "1x", "1 k", "1e3", "nan", "inf", "1e999", "5kB",
                          "99999999999999999999"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_count(bad), std::invalid_argument);
  }
}

TEST_CASE("times") {
  CHECK(parse_duration("90") == 90);
  CHECK(parse_duration("1.5s") == 1.5);
  CHECK(parse_duration("3h55m") == 3 * 3600 + 55 * 60);
  CHECK(parse_duration("1d") == 86400);
  for (const char* bad : {"", "h", "3x", "-1s"}) {
    CHECK_THROWS_AS(parse_duration(bad), std::invalid_argument);
  }
}

TEST_CASE("a misspelt flag is answered within 50 ms") {
  const Scratch scratch;
  double least = 1;  // of five: other programs take their share of the caches
  for (int i = 0; i < 5; ++i) {
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_CHILDREN, &before);
    Child child(scratch, {"run", test::kModel, "--max-num-seq", "3"});
    CHECK(child.wait() == 2);
    getrusage(RUSAGE_CHILDREN, &after);
    const auto seconds = [](const rusage& use) {
      const auto micros = use.ru_utime.tv_usec + use.ru_stime.tv_usec;
      return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
             static_cast<double>(micros) / 1e6;
    };
    least = std::min(least, seconds(after) - seconds(before));
  }
#ifndef PLIMSOLL_SANITIZED
  CHECK(least < 0.05);
#endif
}

TEST_CASE("usage errors are one line, status 2, and come before the model is read") {
  const Scratch scratch;
  struct Row {
    std::string arguments, message;
  };
  const Row rows[] = {
      {"run", "needs a MODEL"},
      {"rnu m", "did you mean run?"},
      {"run m --max-num-seq 3", "did you mean --max-num-seqs?"},
      {"run m --temprature=1", "did you mean --temperature?"},
      {"run m --frobnicate", "unknown flag --frobnicate"},
      {"run m extra", "unexpected argument 'extra'"},
      {"run m --stop", "--stop: its value is missing; write --stop TEXT"},
      {"run m --max-tokens", "--max-tokens: its value is missing; write --max-tokens N"},
      {"run m -i -o out", "-i: its value is missing before -o; write -i FILE"},
      {"run m --stop -n", "--stop: its value is missing before -n; write --stop TEXT (--stop=-n"},
      {"run m --stop= -i in", "--stop: is empty; is a shell variable not set?"},
      {"run --merge -o out", "--merge: its value is missing before -o"},
      {"plan m --gpu --gpus=2", "--gpu: its value is missing before --gpus"},
      {"run m -i - -i -", "-i -: is given twice"},
      {"run m --max-line-bytes 0", "--max-line-bytes: expected a size above 0"},
      {"run m --kv-cache-memory 0", "plimsoll: --kv-cache-memory-bytes: expected a size above 0"},
      {"run m --max-model-len 99999999999999999999", "--max-model-len: expected a number below"},
      {"plan --diff a", "--diff: its value is missing; write --diff FILE FILE"},
      {"run m --quiet=banana", "--quiet: takes no value, found \"banana\""},
      {"run m --help=all", "--help: takes no value"},
      {"run m --enforce-eager=banana", "--enforce-eager: takes no value, found \"banana\""},
      {"plan m --no-enable-prefix-caching=99999999999999999999", "-caching: takes no value"},
      {"shard m --dry-run=", "--dry-run: takes no value, found \"\""},
      {"run m --input x", "did you mean -i?"},
      {"plan m --tp 2", "did you mean -tp?"},
      {"run m --max-new-tokens 2", "did you mean --max-tokens?"},
      {"shard m --input x", "unknown flag --input; --help lists all"},
      {"run m --resume", "start the same command again"},
      {"serve m", "plimsoll plan --from"},
      {"serve -h", "unknown command 'serve'"},
      {"bogus --help", "unknown command 'bogus'"},
      {"plan m --engine ollama",
       "--engine: expected one of "
       "plimsoll|vllm|sglang|lmdeploy|llamacpp|tensorrt-llm|transformers|all"},
      {"plan m --format md", "--format: expected one of text|json|html|args|serve|log, found"},
      {"plan m --dtype bf16", "did you mean bfloat16?"},
      {"plan m --dtype fp16", "did you mean float16?"},
      {"plan m --dtype floaat", "did you mean float?"},
      {"plan m --mamba-ssm-cache-dtype abc", "--mamba-ssm-cache-dtype: expected auto"},
      {"run m --temperature=abc", "--temperature: expected a number"},
      {"run m --temperature -1", "--temperature: expected a number of at least 0"},
      {"run m --top-p 7", "--top-p: expected a number from 0 to 1"},
      {"run m --logprobs 21", "--logprobs: expected"},
      {"run m -n 0", "-n: expected"},
      {"run m --max-tokens 0", "--max-tokens: expected"},
      {"run m --max-model-len 1", "--max-model-len"},
      {"run m --max-num-seqs x", "--max-num-seqs: expected a number"},
      {"run m --dtype int4", "--dtype: expected auto"},
      {"run m --kv-cache-dtype fp4", "--kv-cache-dtype fp4: our own engine has auto"},
      {"run m --gpu-memory-utilization 1.5", "--gpu-memory-utilization: expected a number above 0"},
      {"run m --cudagraph-capture-sizes 1,x", "--cudagraph-capture-sizes: expected a number"},
      {"run m --load-format pt", "--load-format: expected auto"},
      {"run --publish out --load-format pt", "--load-format: expected auto"},
      {"run --merge a b -o out --load-format pt", "--load-format: expected auto"},
      {"run m -tp 0", "--tensor-parallel-size: expected"},
      {"run m --long-prompt cut", "--long-prompt: expected one of"},
      {"run m --format xml", "--format: expected one of"},
      {"run m --part 3/3", "--part: expected i/n"},
      {"run m --part 0/2", "--part: needs a file"},
      {"run m --time-limit soon", "--time-limit: expected a time"},
      {"run m --chat-template no-such-file", "no such file"},
      {"run m --chat-template '{{'", "--chat-template"},
      {"run m --chat-template-kwargs 7", "expected a JSON object"},
      {"run m --mm-processor-kwargs -1", "--mm-processor-kwargs: expected a JSON object"},
      {"run m --mm-processor-kwargs '{\"max_pixel\": 9}'", "did you mean max_pixels?"},
      {"plan m --engine lmdeploy --engine-args 1,2", "--engine-args: column 2: syntax error"},
      {"plan m --engine lmdeploy --engine-args 1", "--engine-args: expected an object"},
      {"plan " + test::kConfigs + "llama-3.1-8b.json --engine sglang --engine-args {}",
       "--engine-args: SGLang's plan has flags alone"},
      {"run m --skip-tokenizer-init --tokenizer x", "--skip-tokenizer-init: excludes"},
      {"run m --errors same -o same", "--errors: names the output"},
  };
  for (const Row& row : rows) {
    INFO(row.arguments);
    const auto outcome = shell(scratch, "plimsoll " + row.arguments);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Catch::Contains(row.message));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK(outcome.out.empty());
  }
  CHECK(shell(scratch, "PLIMSOLL_CPU_ISA=mmx plimsoll run m").status == 2);
  const auto said = [&](const std::string& command) { return shell(scratch, command).err; };
  CHECK_THAT(said("PLIMSOLL_MAX_NUM_SEQS=x plimsoll run m"),
             Catch::StartsWith("plimsoll: PLIMSOLL_MAX_NUM_SEQS: expected a number"));
  CHECK_THAT(said("PLIMSOLL_MAX_NUM_SEQS=3 plimsoll run m --max-num-seqs x"),
             Catch::StartsWith("plimsoll: --max-num-seqs: expected a number"));
  CHECK_THAT(said("PLIMSOLL_QUIET=banana plimsoll run m"),
             Catch::StartsWith("plimsoll: PLIMSOLL_QUIET: takes no value"));
  CHECK_THAT(said("PLIMSOLL_ENABLE_PREFIX_CACHING=banana plimsoll run m"),
             Catch::StartsWith("plimsoll: PLIMSOLL_ENABLE_PREFIX_CACHING: takes no value, found"));
  CHECK_THAT(said("PLIMSOLL_ENFORCE_EAGER=banana plimsoll run none --enforce-eager"),
             Catch::StartsWith("plimsoll: none is neither a folder"));
}

TEST_CASE("a variable that is almost a flag's is told") {
  const Scratch scratch;
  scratch.write("in", "");
  const std::string run =
      "PLIMSOLL_MAX_TOKEN=3 PLIMSOLL_CASES=few plimsoll run $MODEL -i in -o out";
  const std::string note =
      "PLIMSOLL_MAX_TOKEN: no flag has this variable; did you mean PLIMSOLL_MAX_TOKENS?";
  const auto outcome = shell(scratch, run);
  CHECK_THAT(outcome.err, Catch::Contains(note) && !Catch::Contains("PLIMSOLL_CASES"));
  CHECK(shell(scratch, run + "2 -q").err.empty());
}

TEST_CASE("a word in any case chooses, and words that only the other command has are not listed") {
  const Scratch scratch;
  const std::string plan = "plimsoll plan " + test::kConfigs + "llama-3.1-8b.json --gpu h100 ";
  CHECK(shell(scratch, plan + "--engine vLLM --format JSON").out ==
        shell(scratch, plan + "--engine vllm --format json").out);
  CHECK(shell(scratch, plan + "--format ids").status == 0);  // of a line of run
}

TEST_CASE("a card that is misspelt is told which is near") {
  const Scratch scratch;
  const std::string plan = "plimsoll plan " + test::kConfigs + "llama-3.1-8b.json --gpu ";
  for (const auto& [name, near] :
       {std::pair{"h1000", "H100-SXM5-80GB"}, {"'rtx 4900'", "RTX-4090"}}) {
    const auto outcome = shell(scratch, plan + name);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Catch::Contains(std::string("; did you mean ") + near + "?"));
  }
  CHECK_THAT(shell(scratch, plan + "mi300x").err, !Catch::Contains("did you mean"));
}

TEST_CASE("inputs, models and outputs that cannot be used have their own status") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("packed", "\x1f\x8b\x08");
  CHECK(shell(scratch, "plimsoll run m -i none").status == 4);
  CHECK(shell(scratch, "plimsoll run m -i .").status == 4);
  CHECK(shell(scratch, "plimsoll run $MODEL -i packed").status == 4);
  CHECK(shell(scratch, "plimsoll run ./none -i in").status == 5);
  CHECK(shell(scratch, "HF_HOME=. plimsoll run no/such -i in").status == 5);
  CHECK_THAT(shell(scratch, "HF_HOME=. plimsoll run no/such -i in").err,
             Catch::Contains("hf download no/such"));
  CHECK_THAT(shell(scratch, "HF_HOME=. plimsoll plan no/such").err,
             Catch::Contains("hf download no/such config.json"));
  std::filesystem::create_directory(scratch.path("adapter"));
  scratch.write("adapter/adapter_config.json", R"({"base_model_name_or_path":"org/base"})");
  for (const char* command : {"run adapter -i in", "plan adapter"}) {
    const auto said = shell(scratch, std::string("plimsoll ") + command);
    CHECK(said.status == 5);
    CHECK_THAT(said.err, Catch::Contains("holds an adapter (LoRA) and no model: give org/base"));
  }
  CHECK(shell(scratch, "plimsoll run m -i in -o no/out").status == 9);
  CHECK(shell(scratch, "plimsoll run m -i in -o .").status == 9);
  for (const char* output : {"in", "./in", "link", "hard"}) {
    INFO(output);
    const auto outcome =
        shell(scratch, std::string("ln -sf in link; ln -f in hard; plimsoll run m -i in -o ") +
                           output + " --overwrite");
    CHECK(outcome.status == 2);
    CHECK(scratch.read("in") == "\"a\"\n");
  }
  scratch.write("taken", "mine\n");
  CHECK(shell(scratch, "plimsoll run m -i in -o taken").status == 8);
  CHECK(scratch.read("taken") == "mine\n");
  CHECK(!scratch.has("out.part"));
}

TEST_CASE("help") {
  const Scratch scratch;
  const auto nothing = shell(scratch, "plimsoll");
  CHECK(nothing.status == 2);
  const std::pair<const char*, const char*> calls[] = {
      {"plimsoll -h", "Batch LLM inference"},
      {"plimsoll help", "Batch LLM inference"},
      {"plimsoll help run", "Examples:\n  plimsoll run MODEL"},
      {"plimsoll run help", "Examples:\n  plimsoll run MODEL"},
      {"plimsoll run -h", "Examples:\n  plimsoll run MODEL"},
      {"plimsoll plan -h", "Examples:\n  plimsoll plan MODEL"},
      {"plimsoll shard -h", "Examples:\n  plimsoll shard MODEL"},
      {"plimsoll doctor -h", "Examples:\n  plimsoll doctor"}};
  for (const auto& [call, text] : calls) {
    INFO(call);
    const auto outcome = shell(scratch, call);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.starts_with(text));
    CHECK(std::ranges::count(outcome.out, '\n') <= 24);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
  for (const char* command : {"", "run", "plan", "shard", "doctor"}) {
    std::istringstream lines(shell(scratch, fmt::format("plimsoll {} --help", command)).out);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
  CHECK(shell(scratch, "plimsoll -V").out == shell(scratch, "plimsoll --version").out);
}

namespace {

std::set<std::string> flags_of_page(const std::string& text) {
  std::set<std::string> flags;
  std::istringstream page(text);
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(".B \\-") && !line.starts_with(".BR \\-")) continue;
    line = std::regex_replace(line, std::regex(R"(\\-)"), "-");
    line = std::regex_replace(line, std::regex(R"(\\f.)"), " ");
    flags.merge(flags_in(line));
  }
  return flags;
}

}  // namespace

TEST_CASE("--help and the manual list the same flags") {
  const Scratch scratch;
  struct Row {
    std::string command;
    size_t least;                 // flags that it has at least
    std::set<std::string> other;  // documented, but no flag of the parser's
    std::vector<std::string> pages;
  };
  const Row rows[] = {{"run", 70, {}, {"run", "launch"}},
                      {"plan", 60, {"--from"}, {"plan", "launch"}},
                      {"shard", 14, {}, {"shard"}},
                      {"doctor", 3, {}, {"doctor"}}};
  for (const Row& row : rows) {
    INFO(row.command);
    std::set<std::string> helped =
        flags_of_help(shell(scratch, "plimsoll " + row.command + " --help").out);
    CHECK(helped.size() > row.least);
    helped.insert(row.other.begin(), row.other.end());
    std::set<std::string> documented;
    for (const std::string& page : row.pages) {
      documented.merge(
          flags_of_page(read_file(PLIMSOLL_SOURCE_DIR "/man/plimsoll-" + page + ".1")));
    }
    CHECK(helped == documented);
  }
}

TEST_CASE("the manual lists every request field with its values") {
  const std::string page = read_file(PLIMSOLL_SOURCE_DIR "/man/plimsoll-run.1");
  for (const batch::Field& field : batch::request_field_table()) {
    INFO(field.name);
    CHECK(page.find("\n.B " + std::string(field.name) + "\n") != std::string::npos);
  }
}

TEST_CASE("an empty text is no value of a flag: mostly a shell variable that is not set") {
  const Scratch scratch;
  scratch.write("in", "\"Speak\"\n");
  for (const std::string flag : {"-o ''", "-o out --report ''", "-o out --errors ''",
                                 "-o out --metrics-file ''", "-o out --tokenizer ''"}) {
    INFO(flag);
    const Outcome refused = shell(scratch, "plimsoll run $MODEL -q -i in " + flag);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Catch::Contains("is empty"));
  }
  CHECK(shell(scratch, "plimsoll plan $MODEL --gpu ''").status == 2);
}

TEST_CASE("what cannot be printed ends a command with 9, whatever its length") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "echo '\"a\"' | plimsoll run $MODEL -o out --max-tokens 1 --report r")
              .status == 0);
  for (const char* command :
       {"--help", "--version", "--completion bash", "plan --gpu list", "plan $MODEL",
        "plan $MODEL --gpu h100 --format json", "plan $MODEL --format html", "plan --check r",
        "shard $MODEL --dry-run", "run --help"}) {
    INFO(command);
    const std::string line = std::string("plimsoll ") + command;
    for (const char* to : {" >/dev/full", " >&-"}) {
      const Outcome full = shell(scratch, line + to);
      CHECK(full.status == 9);
      CHECK_THAT(full.err, Catch::Contains("standard output cannot be written"));
    }
  }
  // A file that may not grow is as full as a disk.
  CHECK(shell(scratch, "(ulimit -f 1; plimsoll plan --gpu list >list)").status == 9);
}
