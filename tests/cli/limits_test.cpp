// --max-num-seqs auto and --max-num-batched-tokens auto: `plan -i`, `run --dry-run` and `run`
// choose the same limits, and say why.
#include <catch2/catch.hpp>

#include "backend/cpu/cpu_backend.h"
#include "cli/program.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

std::string short_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += "{\"prompt_token_ids\":[" + std::to_string(300 + i % 90) +
             ",5,6],\"max_tokens\":" + std::to_string(1 + i % 7) + ",\"ignore_eos\":true}\n";
  }
  return lines;
}

const std::string kBoth = " --max-num-seqs auto --max-num-batched-tokens auto";

}  // namespace

TEST_CASE("plan -i, a dry run and a run choose the same limits by the lines' lengths") {
  const Scratch scratch;
  scratch.write("in", short_lines(90));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o plain").status == 0);
  for (const std::string& flags : std::vector<std::string>{
           kBoth, kBoth + " -dp 2", kBoth + " -pp 2 --threads 1", kBoth + " --limit 3",
           kBoth + " --cpu-kvcache-space 2MiB --max-model-len 40",
           std::string(" --max-num-seqs auto"),
           std::string(" --max-num-seqs auto --max-num-batched-tokens 12"),
           std::string(" --max-num-batched-tokens auto --max-num-seqs 3")}) {
    INFO(flags);
    const Outcome ran =
        shell(scratch, "plimsoll run $MODEL -i in --overwrite -o out --report r" + flags +
                           (flags.find("limit") == std::string::npos ? " && cmp plain out" : ""));
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    const Json report = parse_json<Json>(scratch.read("r"))["plan"];
    const auto reason = report["limits_reason"].get<std::string>();
    CHECK_THAT(reason, Contains("sequences of 3 tokens and ") && Contains("larger limits save"));
    CHECK_THAT(ran.err, Contains("plimsoll: limits: ") && Contains(" (" + reason + ")\n"));
    for (const char* command : {"plan $MODEL -i in", "run $MODEL -i in -o o2 --dry-run"}) {
      const Outcome planned =
          shell(scratch, std::string("plimsoll ") + command + " --format json" + flags);
      INFO(planned.err);
      REQUIRE(planned.status == 0);
      const Json plan = parse_json<Json>(planned.out);
      CHECK(plan["max_num_seqs"] == report["max_num_seqs"]);
      CHECK(plan["max_num_batched_tokens"] == report["max_num_batched_tokens"]);
      CHECK(plan["num_gpu_blocks"] == report["kv_blocks"]);
      CHECK_THAT(plan["solved"].get<std::string>(), Contains(" auto: ") && Contains(reason));
    }
  }
  const Json lone = parse_json<Json>(scratch.read("r"));
  CHECK(lone["plan"]["max_num_seqs"] == 3);
  CHECK(lone["plan"]["max_num_batched_tokens"] == 512);
  CHECK(!parse_json<Json>(scratch.read("plain.run.json"))["report"]["plan"].contains(
      "limits_reason"));
}

TEST_CASE("a run that has looked at its lines' lengths answers all of them, in the input's order") {
  const Scratch scratch;
  scratch.write("in", short_lines(20));
  REQUIRE(shell(scratch, "gzip -c in > in.gz").status == 0);
  const std::string run = "plimsoll run $MODEL -q -i ";
  const Outcome plain = shell(scratch, run + "in");
  REQUIRE(plain.status == 0);
  REQUIRE(test::json_lines(plain.out).size() == 20);
  for (const std::string& flags : std::vector<std::string>{
           "in --max-num-seqs auto", "in --max-num-batched-tokens auto", "in.gz" + kBoth,
           "in --max-model-len auto" + kBoth, "in -dp 2" + kBoth}) {
    INFO(flags);
    const Outcome printed = shell(scratch, run + flags);
    CHECK(printed.status == 0);
    CHECK(printed.out == plain.out);
    const Outcome written = shell(scratch, run + flags + " --order file --overwrite -o out");
    CHECK(written.status == 0);
    CHECK(scratch.read("out") == plain.out);
  }
  // A part of the lines.
  const Outcome part = shell(scratch, run + "in --limit 7" + kBoth);
  CHECK(test::json_lines(part.out).size() == 7);
  CHECK(plain.out.starts_with(part.out));
}

TEST_CASE("limits that no launch takes together are not tried") {
  // Of 700 lines all might run at once, and the fewest tokens of a step that are tried are 512.
  const Scratch scratch;
  scratch.write("in", short_lines(700));
  const Outcome ran = shell(scratch, "plimsoll run $MODEL -i in -o out --report r" + kBoth);
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json report = parse_json<Json>(scratch.read("r"))["plan"];
  CHECK(report["max_num_seqs"] <= report["max_num_batched_tokens"]);
  CHECK_THAT(report["limits_reason"].get<std::string>(), Contains("larger limits save"));
}

TEST_CASE("limits are chosen by the rates that doctor measured on this machine") {
  const Scratch scratch;
  std::string lines;  // whose prompts and answers take equally many steps at the usual rates
  for (int i = 0; i < 64; ++i) {
    lines += "{\"prompt_token_ids\":[7";
    for (int k = 0; k < 199; ++k) lines += ",8";
    lines += "],\"max_tokens\":2,\"ignore_eos\":true}\n";
  }
  scratch.write("in", lines);
  REQUIRE(shell(scratch, "mkdir -p cache/plimsoll").status == 0);
  const std::string isa{backend::isa_name(backend::detect_isa())};
  struct Chosen {
    int64_t sequences = 0, tokens = 0;
    std::string reason;
  };
  const auto choose = [&](const std::string& rates, const std::string& flags = "") {
    scratch.write("cache/plimsoll/rates.json", rates);
    const auto limits = [&](const Json& json) {
      return std::pair(json["max_num_seqs"], json["max_num_batched_tokens"]);
    };
    const std::string both = kBoth + " --threads 2" + flags;
    const Outcome ran =
        shell(scratch, "plimsoll run $MODEL -q -i in --overwrite -o out --report r" + both);
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    const Json report = parse_json<Json>(scratch.read("r"))["plan"];
    const Outcome planned = shell(scratch, "plimsoll plan $MODEL -i in --format json" + both);
    const Json plan = parse_json<Json>(planned.out);
    CHECK(limits(plan) == limits(report));
    const std::string reason = report["limits_reason"];
    CHECK_THAT(plan["solved"].get<std::string>(), Contains(reason));
    return Chosen{report["max_num_seqs"], report["max_num_batched_tokens"], reason};
  };
  const auto rates = [&](const std::string& flops, const std::string& threads = "2 threads") {
    return "{\"cpu, " + isa + ", " + threads + "\": {\"read_bytes_per_second\": 1e10, " +
           "\"product_flops\": " + flops + ", \"day\": \"2026-01-31\"}}";
  };
  const Chosen usual = choose("{}"), compute_bound = choose(rates("2e9")),
               memory_bound = choose(rates("1e13"));
  CHECK_THAT(usual.reason, Contains("by usual rates: plimsoll doctor measures this machine's"));
  CHECK_THAT(compute_bound.reason, Contains("the rates that doctor measured on 2026-01-31"));
  CHECK(usual.sequences > compute_bound.sequences);
  CHECK(memory_bound.tokens > usual.tokens);
  const Chosen of_others = choose(rates("1e13", "3 threads"));
  CHECK(of_others.tokens == usual.tokens);
  for (const std::string& damaged : {std::string("[1]"), std::string("{\"a\""), rates("-1"),
                                     rates("1e8"), rates("1e17"), rates("\"1\""), rates("1e999")}) {
    INFO(damaged);
    const Chosen chosen = choose(damaged);
    CHECK(chosen.tokens == usual.tokens);
    CHECK_THAT(chosen.reason, Contains("rates.json") && Contains("plimsoll doctor measures anew"));
  }
}

TEST_CASE("a part that begins behind what is looked at has the limits of the lines before it") {
  const Scratch scratch;
  const std::string line = "{\"prompt\":\"a\"," + std::string(250'000, ' ') + "\"max_tokens\":2}\n";
  std::string lines;
  for (int i = 0; i < 72; ++i) lines += line;  // 17 MiB, of which 16 are looked at
  scratch.write("in", lines);
  // Packed they are few bytes, of which none says where a part begins.
  REQUIRE(shell(scratch, "gzip -1 -c in > in.gz").status == 0);
  for (const char* input : {"in", "in --part 35/36", "in.gz --part 35/36"}) {
    INFO(input);
    const Outcome planned =
        shell(scratch, std::string("plimsoll plan $MODEL --format json -i ") + input + kBoth);
    INFO(planned.err);
    REQUIRE(planned.status == 0);
    CHECK_THAT(parse_json<Json>(planned.out)["solved"].get<std::string>(),
               !Contains("no line asks for an answer") && Contains("sequences of "));
  }
}

TEST_CASE("where no lengths are looked at, the limits and the reason are said") {
  const Scratch scratch;
  scratch.write("in", short_lines(9));
  scratch.write("bad", "{broken\n");
  const std::string run = "plimsoll run $MODEL --overwrite -o out --report r ";
  struct Row {
    std::string before, flags, reason;
  };
  for (const Row& row :
       {Row{"cat in | ", "-i -" + kBoth, "can be read once"},
        Row{"", "-i in --max-model-len auto" + kBoth, "--max-model-len auto is settled first"},
        Row{"", "-i bad" + kBoth, "no line asks for an answer"}}) {
    INFO(row.flags);
    const Outcome ran = shell(scratch, row.before + run + row.flags);
    CHECK((ran.status == 0 || row.reason.starts_with("no line")));
    CHECK_THAT(ran.err, Contains("--max-num-seqs auto: ") &&
                            Contains("(as many as fit with their whole context, because ") &&
                            Contains(row.reason));
    const Json report = parse_json<Json>(scratch.read("r"))["plan"];
    const Json plan = parse_json<Json>(
        shell(scratch, row.before + "plimsoll plan $MODEL --format json " + row.flags).out);
    CHECK(plan["max_num_seqs"] == report["max_num_seqs"]);
    CHECK_THAT(plan["solved"].get<std::string>(), Contains(row.reason));
  }
  const Outcome tokens = shell(scratch, "cat in | " + run + "-i - --max-num-batched-tokens auto");
  CHECK_THAT(tokens.err, Contains("--max-num-batched-tokens auto: 2048 (the default, because "));
  CHECK_THAT(shell(scratch, "plimsoll plan $MODEL --max-num-batched-tokens auto").out,
             Contains("--max-num-batched-tokens auto: 2048, the default"));
  CHECK_THAT(shell(scratch, "plimsoll plan $MODEL --engine vllm --gpu h100 -i in" + kBoth).out,
             Contains("--max-num-batched-tokens auto: "));
}

TEST_CASE("a named pipe is opened once, and its lines are those of the plan") {
  const Scratch scratch;
  scratch.write("in", short_lines(9));
  for (const char* command : {"plan $MODEL -i pipe", "run $MODEL -i pipe -o out --dry-run"}) {
    INFO(command);
    const Outcome planned =
        shell(scratch, "rm -f pipe; mkfifo pipe; cat in > pipe & timeout 20 \"$PROGRAM\" " +
                           std::string(command) + " --format json" + kBoth);
    INFO(planned.err);
    REQUIRE(planned.status == 0);
    const Json plan = parse_json<Json>(planned.out);
    CHECK(plan["prompts"]["sequences"] == 9);
    CHECK_THAT(plan["solved"].get<std::string>(), Contains("can be read once"));
  }
}

TEST_CASE("a run that chose its limits goes on with others, and the other way round") {
  const Scratch scratch;
  scratch.write("in", short_lines(60));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  for (const auto& [first, then] :
       {std::pair<std::string, std::string>{kBoth, ""}, {" --max-num-seqs 2", kBoth}}) {
    shell(scratch, "rm -f out out.*");
    REQUIRE(
        shell(scratch, "(ulimit -f 4; plimsoll run $MODEL -q -i in -o out" + first + ")").status ==
        9);  // a disk that is full
    const Outcome again = shell(
        scratch, "plimsoll run $MODEL -q -i in -o out --report r" + then + " && cmp whole out");
    INFO(again.err);
    CHECK(again.status == 0);
    CHECK(parse_json<Json>(scratch.read("r"))["lines"]["resumed"] > 0);
  }
}
