// --order: lines that run in another order give the same output, whatever happens to the run.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "cli/program.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

/// Lines with one of five system prompts each, in no order, and lines of every other kind.
std::string mixed_lines() {
  std::mt19937 random(5);
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) {
    std::string head = "Speaker " + std::to_string(i % 5);
    for (int word = 0; word < 60; ++word) head += " word" + std::to_string(word * (i % 5 + 1));
    lines.push_back("{\"id\":\"m" + std::to_string(i) +
                    "\",\"messages\":[{\"role\":\"system\",\"content\":\"" + head +
                    "\"},{\"role\":\"user\",\"content\":\"" + std::to_string(i) +
                    "\"}],\"max_tokens\":" + std::to_string(1 + i % 6) + ",\"temperature\":0.9}");
  }
  std::shuffle(lines.begin(), lines.end(), random);
  const std::pair<size_t, const char*> others[] = {
      {3, "{broken"},
      {9, R"({"id":"m7","prompt":"an id that another line has"})"},
      {12, ""},
      {20, R"("a prompt alone")"},
      {21, R"({"id":"22","prompt":"a number as id, of the line behind","max_tokens":2})"},
      {25, R"({"custom_id":"b","url":"/v1/completions","body":{"prompt":"O","max_tokens":2}})"},
      {26, "{broken, of the envelope before"},
      {30, R"({"prompt":["Enter","Exit",[5,6,7]],"n":2,"max_tokens":3})"},
      {40, R"({"prompt":"unknown","max_tokens":2,"temprature":1})"},
      {50, R"({"prompt":"","max_tokens":2})"}};
  for (const auto& [at, line] : others) {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), line);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// A cache that holds two of the system prompts.
const std::string kOrderedLaunch =
    "--max-num-seqs 4 --max-tokens 40 --max-model-len 400 --num-gpu-blocks-override 50 ";
const std::string kOrderedRun = "plimsoll run $MODEL -q -i in " + kOrderedLaunch;

Json report_of_order(const Scratch& scratch, const std::string& flags) {
  const Outcome outcome = shell(scratch, kOrderedRun + "--overwrite -o out --report r " + flags);
  INFO(outcome.err);
  REQUIRE((outcome.status == 0 || outcome.status == 3));
  return parse_json<Json>(scratch.read("r"));
}

}  // namespace

TEST_CASE("output, failed lines and counts are the same in every order, and in any part") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  for (const std::string flags : {"", "--errors bad", "--part 1/3", "--skip 7 --limit 40",
                                  "--strict --skip 41", "--format ids", "--max-line-bytes 400"}) {
    INFO(flags);
    std::string outputs, failed;
    Json counts;
    for (const std::string order : {"file", "prefix", "auto"}) {
      INFO(order);
      const Outcome outcome = shell(
          scratch, kOrderedRun + "--overwrite -o out --report r --order " + order + " " + flags);
      if (flags.starts_with("--strict")) {
        CHECK(outcome.status == 4);  // an id occurs twice
        continue;
      }
      REQUIRE(outcome.status == 3);
      const Json report = parse_json<Json>(scratch.read("r"));
      if (order == "file") {
        outputs = scratch.read("out");
        failed = scratch.has("bad") ? scratch.read("bad") : "";
        counts = report["lines"];
        continue;
      }
      if (order == "prefix") CHECK(report["order"]["used"] == "prefix");
      CHECK(scratch.read("out") == outputs);
      CHECK((scratch.has("bad") ? scratch.read("bad") : "") == failed);
      CHECK(report["lines"] == counts);
    }
  }
}

TEST_CASE("a run that stops in one order goes on in another, and failed lines are tried again") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  REQUIRE(shell(scratch, kOrderedRun + "-o whole --order file").status == 3);
  for (const std::string then : {"file", "prefix", "auto"}) {
    INFO(then);
    shell(scratch, "rm -f out out.*");
    const Outcome full = shell(
        scratch, "(ulimit -f 8; " + kOrderedRun + "-o out --order prefix)");  // a disk that is full
    REQUIRE(full.status == 9);
    const auto done = test::json_lines(scratch.read("out.part")).size();
    CHECK(done > 2);
    const Outcome again = shell(scratch, kOrderedRun + "-o out --report r --order " + then);
    REQUIRE(again.status == 3);
    CHECK(scratch.read("out") == scratch.read("whole"));
    CHECK(parse_json<Json>(scratch.read("r"))["lines"]["resumed"] == done);
    CHECK(shell(scratch, kOrderedRun + "-o out --retry-failed --order " + then).status == 3);
    CHECK(scratch.read("out") == scratch.read("whole"));
  }
  // A line that was corrected since is answered; the texts of all lines were kept.
  shell(scratch, "sed -i 's/^{broken$/\"mended\"/' in");
  CHECK(shell(scratch, kOrderedRun + "-o out --retry-failed --report r --order prefix").status ==
        3);
  CHECK(parse_json<Json>(scratch.read("r"))["lines"]["failed"] ==
        test::json_lines(scratch.read("whole")).size() -
            parse_json<Json>(scratch.read("r"))["lines"]["ok"].get<size_t>());
  REQUIRE(shell(scratch, kOrderedRun + "-o mended --order file").status == 3);
  CHECK(scratch.read("out") == scratch.read("mended"));
}

TEST_CASE("a slice of the lines that stops in the order by prefixes goes on in it") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  for (const std::string slice : {"--skip 23 ", "--part 1/2 ", "--skip 11 --limit 40 "}) {
    INFO(slice);
    shell(scratch, "rm -f out out.* whole whole.*");
    REQUIRE(shell(scratch, kOrderedRun + slice + "-o whole --order file").status == 3);
    const std::string by_prefix = kOrderedRun + slice + "-o out --order prefix";
    REQUIRE(shell(scratch, "(ulimit -f 4; " + by_prefix + ")").status == 9);
    CHECK(test::json_lines(scratch.read("out.part")).size() > 2);
    CHECK(shell(scratch, by_prefix).status == 3);
    CHECK(scratch.read("out") == scratch.read("whole"));
  }
}

TEST_CASE("a run that is killed again and again in another order each time loses nothing",
          "[kills]") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  REQUIRE(shell(scratch, kOrderedRun + "-o whole --order file").status == 3);
  const Outcome killed = shell(scratch, R"(orders=(prefix file auto)
for i in $(seq 60); do
  "$PROGRAM" run $MODEL -q -i in )" + kOrderedLaunch +
                                            R"(-o out --order ${orders[$((i % 3))]} &
  sleep 0.$(printf %03d $((i * 13 % 200 + 40))); kill -9 $! 2>/dev/null; wait $!; status=$?
  if [ $status = 3 ]; then exit 3; fi
done
)" + kOrderedRun + "-o out");
  CHECK(killed.status == 3);
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE("auto takes the order by prefixes where it saves, and the report says why") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  const Json saves = report_of_order(scratch, "");
  CHECK(saves["order"]["asked"] == "auto");
  CHECK(saves["order"]["used"] == "prefix");
  CHECK_THAT(saves["order"]["reason"].get<std::string>(),
             Catch::Contains("prompt tokens the prefix cache has"));
  const Json file = report_of_order(scratch, "--order file");
  CHECK(file["order"]["used"] == "file");
  CHECK(file["order"]["reason"] == "--order file");
  CHECK(saves["tokens"]["cached"] > file["tokens"]["cached"]);
  const Outcome told = shell(scratch, "plimsoll run $MODEL -i in -o o2 " + kOrderedLaunch);
  CHECK_THAT(told.err, Catch::Contains("order: prefix (of "));
  CHECK(report_of_order(scratch, "--no-enable-prefix-caching")["order"]["reason"] ==
        "this launch has no prefix cache");
  CHECK(report_of_order(scratch, "--limit 1")["order"]["reason"] == "there is one line at most");
  CHECK(report_of_order(scratch, "--order prefix")["order"]["reason"] == "--order prefix");
  scratch.write("in", "\"a\"\n\"b\"\n\"c\"\n");
  const Json nothing = report_of_order(scratch, "");
  CHECK(nothing["order"]["used"] == "file");
  CHECK_THAT(nothing["order"]["reason"].get<std::string>(), Catch::Contains("less than 5 % more"));
}

TEST_CASE("inputs and outputs that bind lines to their order are named") {
  const Scratch scratch;
  scratch.write("in", "\"Enter\"\n\"Exit\"\n");
  const std::string flags = " --max-tokens 3 --report r";
  struct Row {
    const char *command, *reason;
  };
  for (const Row& row :
       {Row{"cat in | plimsoll run $MODEL -q -i - -o out", "can be read once"},
        Row{"gzip -k in; plimsoll run $MODEL -q -i in.gz -o out", "the input is packed"},
        Row{"plimsoll run $MODEL -q -i in", "answers leave in the input's order"},
        Row{"plimsoll run $MODEL -q -i in -o out --errors -", "answers leave in the"}}) {
    INFO(row.command);
    shell(scratch, "rm -f out out.*");
    const Outcome refused = shell(scratch, row.command + flags + " --order prefix");
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Catch::Contains("--order prefix: ") && Catch::Contains(row.reason));
    CHECK(!scratch.has("out.part"));
    shell(scratch, "rm -f in.gz");
    REQUIRE(shell(scratch, row.command + flags).status == 0);
    const Json order = parse_json<Json>(scratch.read("r"))["order"];
    CHECK(order["used"] == "file");
    CHECK_THAT(order["reason"].get<std::string>(), Catch::Contains(row.reason));
  }
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i - -o o2 --order prefix --max-tokens 3 <in")
            .status == 0);
}

TEST_CASE("a forecast has the counts of the run's report, in both orders") {
  const Scratch scratch;
  std::string text;
  std::mt19937 random(11);
  for (int i = 0; i < 150; ++i) {
    const auto group = random() % 9;
    text += R"({"ignore_eos":true,"temperature":0,"max_tokens":)" +
            std::to_string(1 + random() % 20) + R"(,"prompt_token_ids":[)" +
            std::to_string(300 + group);
    for (unsigned k = 0; k < 20 + 40 * group % 150; ++k) text += "," + std::to_string(10 + k);
    for (auto k = random() % 30; k > 0; --k) text += "," + std::to_string(10 + random() % 200);
    text += "]}\n";
  }
  scratch.write("in", text);
  for (const std::string launch :
       {"--max-num-seqs 1", "--max-num-seqs 5 --max-num-batched-tokens 64",
        "--max-num-seqs 16 --num-gpu-blocks-override 40 --max-model-len 256 --block-size 16",
        "--max-num-seqs 8 --num-gpu-blocks-override 90 --max-model-len 256 --block-size 8",
        "--data-parallel-size 2 --max-num-seqs 3"}) {
    INFO(launch);
    const std::string run = "plimsoll run $MODEL -q -i in --overwrite -o out --report ";
    REQUIRE(shell(scratch, run + "file --order file " + launch).status == 0);
    REQUIRE(shell(scratch, run + "prefix --order prefix " + launch).status == 0);
    REQUIRE(shell(scratch, run + "auto " + launch).status == 0);
    const Json forecast = parse_json<Json>(scratch.read("auto"))["order"];
    const std::string planned = launch + " --format json";
    const Json plan = parse_json<Json>(
        shell(scratch, "plimsoll plan $MODEL -i in " + planned).out)["prompts"]["order"];
    const Outcome dry = shell(scratch, "plimsoll run $MODEL -i in -o o2 --dry-run " + planned);
    REQUIRE(dry.status == 0);
    CHECK(parse_json<Json>(dry.out)["prompts"]["order"] == plan);
    CHECK(plan["used"] == forecast["used"]);
    CHECK(plan["reason"] == forecast["reason"]);
    for (const std::string order : {"file", "prefix"}) {
      INFO(order);
      const Json report = parse_json<Json>(scratch.read(order));
      const Json& said = forecast["in_" + order + "_order"];
      CHECK(said["prompt"] == report["tokens"]["prompt"]);
      CHECK(said["cached"] == report["tokens"]["cached"]);
      CHECK(said["kv_blocks_peak"] == report["engine"]["kv_blocks_peak"]);
      CHECK(said["steps"] == report["engine"]["steps"]);
      for (const char* count : {"cached", "steps", "kv_blocks_peak"}) {
        CHECK(plan["in_" + order + "_order"][count] == said[count]);
      }
    }
  }
}

TEST_CASE("plan -i writes its lines in the order by prefixes, byte for byte") {
  const Scratch scratch;
  const std::string input = mixed_lines() + "{\"id\":\"z\", \"prompt\":\"O\"}\r\n\"no end\"";
  scratch.write("in", input);
  const std::string plan =
      "plimsoll plan $MODEL -i in --reorder out --max-num-seqs 4 --max-line-bytes 400 ";
  REQUIRE(shell(scratch, plan).status == 0);
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) lines.push_back(line);
    }
    return lines;
  };
  std::vector<std::string> before = lines_of(input);
  std::vector<std::string> after = lines_of(scratch.read("out"));
  CHECK(before != after);
  CHECK(scratch.read("out").ends_with('\n'));
  std::ranges::sort(before);
  std::ranges::sort(after);
  CHECK(before == after);
  CHECK(!scratch.has("out.part"));

  // In its own order the new file has what the old one has in the order by prefixes.
  scratch.write("in", mixed_lines());
  REQUIRE(shell(scratch, "plimsoll plan $MODEL -i in --overwrite --reorder out " + kOrderedLaunch)
              .status == 0);
  const auto order_of = [&](const std::string& file) {
    const Outcome outcome =
        shell(scratch, "plimsoll plan $MODEL --format json -i " + file + " " + kOrderedLaunch);
    return parse_json<Json>(outcome.out)["prompts"]["order"];
  };
  const Json old_file = order_of("in"), new_file = order_of("out");
  CHECK(old_file["used"] == "prefix");
  CHECK(new_file["used"] == "file");
  CHECK(new_file["in_file_order"]["cached"] >= old_file["in_prefix_order"]["cached"]);
  REQUIRE(
      shell(scratch, "plimsoll plan $MODEL --engine vllm --gpu H100 -i in --reorder vllm").status ==
      0);
  after = lines_of(scratch.read("vllm"));
  const auto by_vllm = [&](const std::string& file) {
    const Outcome planned =
        shell(scratch, "plimsoll plan $MODEL --engine vllm --gpu H100 --format json -i " + file +
                           " " + kOrderedLaunch);
    return parse_json<Json>(planned.out)["prompts"]["order"];
  };
  const Json old_order = by_vllm("in"), new_order = by_vllm("vllm");
  CHECK(old_order["used"] == "file");
  CHECK_THAT(old_order["reason"].get<std::string>(), Catch::Contains("--reorder FILE"));
  CHECK(old_order["in_prefix_order"]["cached"] > old_order["in_file_order"]["cached"]);
  CHECK(new_order["in_file_order"]["cached"] >= old_order["in_prefix_order"]["cached"]);
  before = lines_of(mixed_lines());
  std::ranges::sort(before);
  std::ranges::sort(after);
  CHECK(before == after);
}

TEST_CASE("plan -i writes each line once, however large the input is") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 40; ++i)  // 2.6 MB: more than is written at once
    text +=
        fmt::format("{{\"prompt\":\"{} {}\",\"max_tokens\":1}}\n", i % 7, std::string(65000, 'x'));
  scratch.write("in", text);
  const Outcome outcome =
      shell(scratch,
            "plimsoll plan $MODEL --gpu h100 -i in --long-prompt truncate-left --reorder sorted");
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(shell(scratch, "sort in > a; sort sorted > b; cmp a b").status == 0);
}

TEST_CASE("--reorder names what it needs") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n");
  struct Row {
    const char *command, *reason;
    int status;
  };
  for (const Row& row :
       {Row{"plimsoll plan $MODEL --reorder out", "orders the lines of -i", 2},
        Row{"cat in | plimsoll plan $MODEL -i - --reorder out", "can be read once", 2},
        Row{"plimsoll plan $MODEL -i in --reorder in", "in", 2},
        Row{"plimsoll plan $MODEL -i in --reorder -", "is no file", 2},
        Row{"plimsoll plan $MODEL -i in --engine sglang --reorder out", "vllm or plimsoll", 2},
        Row{"echo there >here; plimsoll plan $MODEL -i in --reorder here", "is there already", 8},
        Row{"cp in o.part; plimsoll plan $MODEL -i o.part --reorder o", "o.part", 2},
        Row{"plimsoll plan $MODEL -i in --reorder o", "o.part is there already", 8},
        Row{"plimsoll plan $MODEL -i in --reorder in.gz", "lines are not packed", 2},
        Row{"plimsoll plan $MODEL -i in --reorder none/out", "none does not exist", 9},
        Row{"plimsoll run $MODEL -i in --reorder out", "--reorder", 2}}) {
    INFO(row.command);
    const Outcome outcome = shell(scratch, row.command);
    CHECK(outcome.status == row.status);
    CHECK_THAT(outcome.err, Catch::Contains(row.reason));
    CHECK(!scratch.has("out"));
  }
  CHECK(scratch.read("here") == "there\n");
}

TEST_CASE("an order that cannot be written leaves nothing behind, and is written later") {
  const Scratch scratch;
  scratch.write("in", mixed_lines());
  const std::string plan = "plimsoll plan $MODEL -i in --reorder out >/dev/null";
  CHECK(shell(scratch, "(ulimit -f 1; " + plan + ")").status == 9);
  CHECK_FALSE(scratch.has("out.part"));
  CHECK(shell(scratch, plan).status == 0);
}
