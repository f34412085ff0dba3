// Messages before weights are read, and inputs that must not crash.
#include <catch2/catch.hpp>

#include "batch/line_error.h"
#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

TEST_CASE("bad lines are told before weights are read") {
  const Scratch scratch;
  scratch.write("in",
                "{\"prompt\":\"a\",\"temperature\":\"hot\"}\n{\"id\":7,\"prompt\":\"a\"}\n"
                "{\"id\":7,\"prompt\":\"b\"}\n");
  // Headers are whole, but no byte of the weights can be read.
  const Outcome outcome =
      shell(scratch,
            "cp -r $MODEL m; truncate -s -1000 m/model.safetensors; plimsoll run m -i in -o out");
  CHECK(outcome.status == 5);
  CHECK_THAT(outcome.err, Catch::Contains("line 1: temperature"));
  CHECK_THAT(outcome.err, Catch::Contains("line 3: the id is that of line 2"));
  CHECK_THAT(outcome.err, Catch::Contains("2 of 3 lines cannot be answered"));
}

TEST_CASE("prompts that do not suit the model are told before weights are read") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n{\"prompt\":[5,6,7,8,9,10,11,12]}\n{\"prompt\":[5,1000000]}\n");
  // Memory is refused after that and before the weights.
  const Outcome outcome =
      shell(scratch,
            "plimsoll run $MODEL -i in --max-model-len 8 --num-gpu-blocks-override 100000000000");
  CHECK(outcome.status == 6);
  CHECK_THAT(outcome.err, Catch::Contains("1 of the first 3 prompts are longer than the context"));
  CHECK_THAT(outcome.err, Catch::Contains("(line 3 first: prompt"));
  const Outcome absurd =
      shell(scratch, "plimsoll run $MODEL -i in --num-gpu-blocks-override 9000000000000000");
  CHECK(absurd.status == 6);
  CHECK_THAT(absurd.err, Catch::Contains("no memory holds so many blocks"));
}

TEST_CASE("lines that this launch cannot answer are counted beside those that no launch can") {
  const Scratch scratch;
  const std::string bad = "{\"prompt\":7}\n";
  const std::string unsuitable = "{\"prompt\":[5,1000000]}\n";
  const std::string twice = "{\"id\":\"a\",\"prompt\":\"a\"}\n";
  const auto said = [&](const std::string& in) {
    scratch.write("in", in);
    return shell(scratch, "plimsoll run $MODEL -i in --max-tokens 1").err;
  };
  const std::string launch = " cannot be answered by this launch (line ";
  CHECK_THAT(said(bad + bad + unsuitable + twice),
             Catch::Contains("2 of 4 lines cannot") &&
                 Catch::Contains("1 more of the first 4 lines" + launch + "3 first: prompt"));
  CHECK_THAT(said(twice + twice + unsuitable),
             Catch::Contains("1 more of the first 3 lines" + launch + "3 first: prompt"));
  CHECK_THAT(said(unsuitable), Catch::Contains(": 1 of the first 1 line" + launch));
  CHECK_THAT(said(bad), !Catch::Contains(launch));
}

TEST_CASE("a fault of a line says what is wrong with it") {
  const Scratch scratch;
  struct Row {
    std::string line, message;
  };
  const Row rows[] = {
      {R"({"prompt":"a","seed":9223372036854775808})", "from -2^63 to 2^63 - 1, found 9223"},
      {R"({"prompt":"a","max_tokens":1e30})", "from -2^63 to 2^63 - 1, found 1e+30"},
      {R"({"prompt":"a","top_k":18446744073709551615})", "from -1 to 2^63 - 1, found 18446"},
      {R"({"prompt":"a","top_k":-2})", "top_k: expected a whole number of at least -1, found -2"},
      {R"({"prompt":"a","seed":0.5})", "seed: expected a whole number, found 0.5"},
      {R"({"prompt":"a","response_format":1e-310})",
       "response_format: expected an object, found 1e-310"},
      {R"({"prompt":"a","guided_json":1e-400})", "guided_json: expected "},
      {R"({"prompt":"a","repetition_penalty":1e-40,"logprobs":1})",
       "from 0.000001 to 1000000, found 1e-40"},
      {R"({"prompt_token_ids":[]})", "prompt_token_ids: is empty"},
      {std::string("{\"prompt\"\0:\"a\"}", 15), "line 10, column 10: a NUL character"},
  };
  std::string in;
  for (const Row& row : rows) in += row.line + "\n";
  scratch.write("in", in);
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in -q");
  CHECK(outcome.status == 3);
  const std::vector<Json> answers = json_lines(outcome.out);
  REQUIRE(answers.size() == std::size(rows));
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(rows[i].line);
    CHECK_THAT(answers[i]["error"].value("message", ""), Catch::Contains(rows[i].message));
  }
}

TEST_CASE("a dry run checks and plans, and writes nothing") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n");
  const Outcome good = shell(scratch, "plimsoll run $MODEL -i in -o out --dry-run --rate 10");
  CHECK(good.status == 0);
  CHECK_THAT(good.out, Catch::Contains("2 lines"));
  CHECK_THAT(good.out,
             Catch::Contains("hours") || Catch::Contains("minutes") || Catch::Contains(" s"));
  CHECK_THAT(good.out, Catch::Contains("FITS") && Catch::Contains("needed of") &&
                           !Catch::Contains("GPU") && !Catch::Contains("CUDA"));
  CHECK(!scratch.has("out.part"));
  CHECK(!scratch.has("out.run.json"));
  const std::string dry = "plimsoll run $MODEL -i in --dry-run ";
  CHECK(parse_json<Json>(shell(scratch, dry + "--format json").out)["prompts"]["lines"] == 2);
  const auto hours = [&](const std::string& rate) {
    const std::string out = shell(scratch, dry + "--format json --rate " + rate).out;
    return parse_json<Json>(out)["prompts"]["hours"];
  };
  CHECK(hours("2k") == hours("2000"));
  CHECK(shell(scratch, dry + "--rate none").status == 5);
  scratch.write("in", "\"a\"\n{broken\n");
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --dry-run").status == 3);
  scratch.write("long", "{\"prompt_token_ids\":[1,1,1,1,1,1,1,1,1]}\n");
  CHECK(shell(scratch, "plimsoll run $MODEL -i long --dry-run --max-model-len 8").status == 3);
  scratch.write("twice", "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"a\",\"prompt\":\"x\"}\n");
  CHECK(shell(scratch, "plimsoll run $MODEL -i twice --dry-run").status == 3);
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --dry-run --kv-cache-memory 16KiB").status == 6);
}

TEST_CASE("a dry run refuses the outputs that the run refuses") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const std::string run = "plimsoll run $MODEL -i in -q --max-tokens 1 -o ";
  REQUIRE(shell(scratch, run + "done; " + run + "grown; printf '\\n\\n' >> grown; " + run +
                             "cut; mv cut cut.part; echo '{}' > lines.part")
              .status == 0);
  struct Row {
    const char* command;
    const char* said;
  };
  for (const Row& row :
       {Row{"cat in | plimsoll run $MODEL -i - --max-tokens 1 -o done", "may hold anything"},
        Row{"cat in | plimsoll run $MODEL -i - --max-tokens 1 -o cut", "cannot be read again"},
        Row{"plimsoll run $MODEL -i in -o lines", "lines.run.json is missing"},
        Row{"plimsoll run $MODEL -i in --max-tokens 1 -o grown", "bytes when its run ended"}}) {
    INFO(row.command);
    const std::string before = shell(scratch, "ls -l").out;
    const Outcome dry = shell(scratch, row.command + std::string(" --dry-run"));
    CHECK(dry.status == 8);
    CHECK_THAT(dry.err, Catch::Contains(row.said));
    CHECK(shell(scratch, "ls -l").out == before);
    CHECK(shell(scratch, row.command).status == 8);
  }
}

TEST_CASE("a dry run reads prompts as the run does") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt_token_ids\":[1,2,3],\"max_tokens\":2,\"logprobs\":40}\n");
  scratch.write("open", "\"a\"\n");
  std::filesystem::create_directory(scratch.path("generation"));
  scratch.write("generation/generation_config.json", R"({"max_new_tokens":7})");
  REQUIRE(shell(scratch, "cp -r $MODEL bare; rm bare/tokenizer*").status == 0);
  const std::string rows[] = {"bare -i in --skip-tokenizer-init --max-logprobs 50",
                              "$MODEL -i open --generation-config generation",
                              "$MODEL -i open --generation-config vllm",
                              "bare -i open --tokenizer $MODEL --chat-template '{{ x }}'"};
  for (const std::string& row : rows) {
    INFO(row);
    const Outcome dry = shell(scratch, "plimsoll run " + row + " --dry-run --format json");
    const Outcome run =
        shell(scratch, "rm -f out; plimsoll run " + row + " -o out --report r --ignore-eos");
    INFO(dry.err << run.err);
    CHECK(dry.status == run.status);
    const Json prompts = parse_json<Json>(dry.out)["prompts"];
    const Json tokens = parse_json<Json>(scratch.read("r"))["tokens"];
    CHECK(prompts["prompt_tokens"] == tokens["prompt"]);
    CHECK(prompts["answer_tokens"] == tokens["completion"]);
  }
  CHECK(shell(scratch, "plimsoll run bare -i in --dry-run").status == 5);
}

TEST_CASE("a dry run refuses what the run refuses before a line runs") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("twice", "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"a\",\"prompt\":\"x\"}\n");
  REQUIRE(shell(scratch,
                "cp -r $MODEL bare; rm bare/*.safetensors; plimsoll shard $MODEL -o shards -tp 2")
              .status == 0);
  for (const char* row :
       {"bare -i in", "shards -i in", "$MODEL/config.json -i in", "$MODEL/model.safetensors -i in",
        "$MODEL -i in --load-format sharded_state", "$MODEL -i in --chat-template '{% for %}'",
        "$MODEL -i twice --strict", "$MODEL -i none", "$MODEL -i in --top-p 2"}) {
    INFO(row);
    const Outcome run = shell(scratch, std::string("plimsoll run ") + row);
    const Outcome dry = shell(scratch, std::string("plimsoll run --dry-run ") + row);
    CHECK(run.status != 0);
    CHECK(dry.status == run.status);
    CHECK(dry.err == run.err);
  }
}

TEST_CASE("a dry run refuses the outputs that the run refuses, and changes none") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("other", "{\"prompt\":\"b\"}\n");
  scratch.write("taken", "x");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -i in -o out --max-tokens 1 --errors bad").status ==
          0);
  for (const char* row :
       {"-i in -o nodir/out", "-i in -o in", "-i in -o .", "-i in -o taken", "-i in -o out.csv",
        "-i in -o new --report new", "-i in -o new --report nodir/r", "-i in -o new --errors taken",
        "-i in -o new --metrics-file taken", "-i in -o out --max-tokens 2",
        "-i other -o out --max-tokens 1"}) {
    INFO(row);
    const Outcome dry = shell(scratch, std::string("plimsoll run --dry-run $MODEL ") + row);
    CHECK_FALSE(scratch.has("new.part"));
    const Outcome run = shell(scratch, std::string("plimsoll run $MODEL ") + row);
    CHECK(run.status != 0);
    CHECK(dry.status == run.status);
    CHECK(dry.err == run.err);
  }
  // The same command would find its output finished, or go on, or replace what is there.
  for (const char* row : {"-i in -o out --max-tokens 1 --errors bad", "-i in -o taken --overwrite",
                          "-i in -o /dev/null", "-o new"}) {
    INFO(row);
    CHECK(
        shell(scratch, std::string("echo '\"a\"' | plimsoll run --dry-run $MODEL ") + row).status ==
        0);
  }
  CHECK(scratch.read("taken") == "x");
}

TEST_CASE("plan -i looks at the slice that run would") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n{broken\n\"d\"\n\"e\"\n");
  for (const char* slice : {"--limit 2", "--part 0/2 --limit 2", "--skip 3"}) {
    INFO(slice);
    const Outcome outcome = shell(scratch, std::string("plimsoll plan $MODEL -i in ") + slice);
    CHECK_THAT(outcome.out, Catch::Contains("in: 2 lines") && !Catch::Contains("refused"));
  }
  scratch.write("array", "[{\"prompt\":\"a\"}]\n");
  CHECK(shell(scratch, "plimsoll plan $MODEL -i array").status == 4);
}

TEST_CASE("a line that cannot be read takes no id from another") {
  const Scratch scratch;
  scratch.write("in", "broken\n{\"id\":\"1\",\"prompt\":\"a\",\"max_tokens\":1}\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -q -i in -o out; cat out");
  const auto lines = json_lines(outcome.out);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["error"]["code"] == "bad_json");
  CHECK(lines[1]["error"].is_null());
}

TEST_CASE("without a tokenizer answers are ids") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":[5,6],\"max_tokens\":3}\n");
  const auto lines =
      json_lines(shell(scratch, "plimsoll run $MODEL -q -i in --skip-tokenizer-init").out);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["choices"][0]["token_ids"].size() == 3);
}

TEST_CASE("what the system refuses is an error with a name") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  struct Row {
    const char* command;
    int status;
    const char* told;
  };
  for (const Row& row :
       {Row{"mkdir loop; ln -s config.json loop/config.json; plimsoll run loop -i in", 5,
            "symbolic links"},
        Row{"plimsoll plan loop", 5, "symbolic links"},
        Row{"plimsoll shard loop -o s", 5, "symbolic links"},
        Row{"plimsoll shard $MODEL -o s --dry-run > /dev/full", 9, "standard output"},
        Row{"cp -r $MODEL m; ln -sf nowhere m/tokenizer.json; plimsoll shard m -o s; "
            "status=$?; ls s/model* && exit 1; exit $status",
            5, "tokenizer.json cannot be copied"},
        Row{"plimsoll shard $MODEL -q -o t -tp 2; printf x | dd "
            "of=t/model-rank-0-part-0.safetensors "
            "bs=1 seek=200000 conv=notrunc 2> log; plimsoll shard --unshard t -o u",
            5, "model-rank-0-part-0.safetensors"}}) {
    INFO(row.command);
    const Outcome outcome = shell(scratch, row.command);
    CHECK(outcome.status == row.status);
    CHECK_THAT(outcome.err, Catch::Contains(row.told));
  }
  CHECK(!scratch.has("u/model.safetensors"));
}

TEST_CASE("the list of error codes is closed, and the manual has it") {
  std::ifstream page(PLIMSOLL_SOURCE_DIR "/man/plimsoll-run.1");
  std::stringstream text;
  text << page.rdbuf();
  for (const std::string_view code : batch::kErrorCodes) {
    INFO(code);
    CHECK_THAT(text.str(), Catch::Contains("\n.B " + std::string(code) + "\n"));
  }
}
