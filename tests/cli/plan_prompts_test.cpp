// `plan -i`: what it says of a file is what `run` then finds.
#include <catch2/catch.hpp>

#include "cli/planned.h"
#include "cli/program.h"
#include "engine/forward/model.h"
#include "engine/ranks/stage_layouts.h"
#include "launch/resolve.h"
#include "model/config.h"
#include "plan/plimsoll/launch.h"
#include "plan/plimsoll/plimsoll_plan.h"
#include "plan/prompt_load.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;

namespace {

// Chats and completions, plain and in OpenAI's shape; a broken line, an id that is taken, a field
// out of range, a prompt that is longer than the context.
std::string input() {
  std::string text =
      R"({"id":"a","messages":[{"role":"user","content":"Who goes there?"}],"max_tokens":5})"
      "\n\n"
      R"({"id":"b","prompt":"Enter the king, with all his lords and many attendants, and sits","max_tokens":3,"n":2})"
      "\n{broken\n"
      R"({"id":"a","prompt":"again","max_tokens":2})"
      "\n"
      R"({"id":"c","prompt":"x","temperature":-1})"
      "\n"
      R"({"id":"d","prompt":"Enter the king, with all his lords and many attendants, and stands","max_tokens":4})"
      "\n\"a bare string\"\n";
  std::string longest;
  for (int i = 0; i < 200; ++i) longest += "never ";
  return text + R"({"id":"e","prompt":")" + longest + "\",\"max_tokens\":1}\n";
}

const char* const kLimits = " --max-model-len 128 --block-size 4 ";

Json plan_with_prompts(const Scratch& scratch, const std::string& flags) {
  const auto outcome = shell(scratch, "plimsoll plan $MODEL --format json -i in" + flags);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return parse_json<Json>(outcome.out);
}

}  // namespace

TEST_CASE("lines, tokens and faults are those that run finds") {
  const Scratch scratch;
  scratch.write("in", input());
  const Json prompts = plan_with_prompts(scratch, kLimits)["prompts"];
  CHECK(prompts["lines"] == 8);
  CHECK(prompts["chats"] == 1);
  CHECK(prompts["bad_lines"] == 2);
  CHECK(prompts["first_bad_line"] == 4);
  CHECK(prompts["duplicate_ids"] == 1);
  CHECK(prompts["over_context"] == 1);
  CHECK(prompts["longest_over_context"] > 128);
  CHECK(prompts["open_ended"] == 1);
  CHECK(prompts["sequences"] == 5);

  REQUIRE(shell(scratch,
                "plimsoll run $MODEL -q -i in -o out --report r --no-enable-prefix-caching "
                "--ignore-eos" +
                    std::string(kLimits))
              .status == 3);
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["lines"]["total"] == prompts["lines"]);
  CHECK(report["lines"]["failed"] == 4);
  CHECK(report["tokens"]["prompt"] == prompts["prompt_tokens"]);
  // Every answer is as long as it may be when the end of text is ignored.
  CHECK(report["tokens"]["completion"] == prompts["answer_tokens"]);
  CHECK(report["engine"]["kv_blocks_peak"] <= prompts["peak_blocks"]);
}

TEST_CASE("prompts that --long-prompt shortens or splits are counted as run answers them") {
  const Scratch scratch;
  std::string words;
  for (int i = 0; i < 200; ++i) words += "never ";
  scratch.write("in", R"({"messages":[{"role":"user","content":")" + words +
                          "\"}],\"max_tokens\":4,\"ignore_eos\":true}\n");
  for (const std::string policy : {"error", "truncate-left", "truncate-right", "split"}) {
    INFO(policy);
    const std::string flags = kLimits + ("--long-prompt " + policy) + " --split-overlap 0";
    const Json prompts = plan_with_prompts(scratch, flags)["prompts"];
    CHECK(prompts["chats"] == 1);
    CHECK(prompts["over_context"] == (policy == "error" ? 1 : 0));
    CHECK(prompts["cut_lines"] == (policy.starts_with("truncate") ? 1 : 0));
    CHECK(prompts["split_lines"] == (policy == "split" ? 1 : 0));
    const int status = policy == "error" ? 3 : 0;
    CHECK(shell(scratch, "plimsoll run $MODEL -i in --dry-run" + flags).status == status);
    const auto run =
        shell(scratch, "plimsoll run $MODEL -q -i in --overwrite -o out --report r" + flags);
    REQUIRE(run.status == status);
    const Json report = parse_json<Json>(scratch.read("r"));
    CHECK(report["tokens"]["prompt"] == prompts["prompt_tokens"]);
    CHECK(report["tokens"]["completion"] == prompts["answer_tokens"]);
  }
}

TEST_CASE("a dry run under --strict fails the lines that the run would fail") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1,\"temprature\":0}\n");
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --dry-run").status == 0);
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --dry-run --strict").status == 3);
}

TEST_CASE("shared prefixes are those that the prefix cache finds, one line at a time") {
  const Scratch scratch;
  scratch.write("in", input());
  const Json prompts = plan_with_prompts(scratch, kLimits)["prompts"];
  CHECK(prompts["shared_tokens"] > 8);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --report r --max-num-seqs 1" +
                             std::string(kLimits))
              .status == 3);
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["tokens"]["cached"] == prompts["shared_tokens"]);
}

TEST_CASE("prompts of exactly one and two blocks share what run's prefix cache finds") {
  const Scratch scratch;
  std::string text;
  for (const int length : {4, 4, 8, 8, 9, 9}) {
    text += R"({"max_tokens":2,"prompt_token_ids":[)" + std::to_string(100 + length);
    for (int i = 1; i < length; ++i) text += "," + std::to_string(i);
    text += "]}\n";
  }
  scratch.write("in", text);
  // The block of a prompt's last token is computed anew: its logits are needed.
  CHECK(plan_with_prompts(scratch, kLimits)["prompts"]["shared_tokens"] == 0 + 4 + 8);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --report r --max-num-seqs 1" +
                             std::string(kLimits))
              .status == 0);
  CHECK(parse_json<Json>(scratch.read("r"))["tokens"]["cached"] == 0 + 4 + 8);
}

TEST_CASE("lengths of prompts: the shortest, the middle, nine of ten, the longest") {
  const Scratch scratch;
  std::string text;
  for (const int length : {3, 1, 9, 4, 8, 2, 7, 5, 6, 10}) {
    text += R"({"max_tokens":2,"prompt_token_ids":[1)";
    for (int i = 1; i < length; ++i) text += ",1";
    text += "]}\n";
  }
  scratch.write("in", text);
  const Json prompts = plan_with_prompts(scratch, kLimits)["prompts"];
  CHECK(prompts["shortest"] == 1);
  CHECK(prompts["median"] == 5);
  CHECK(prompts["ninth_decile"] == 9);
  CHECK(prompts["longest"] == 10);
}

TEST_CASE("cache, concurrency and hours") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += R"({"prompt_token_ids":[1,2,3,4,5,6,7,8],"max_tokens":24})"
            "\n";
  }
  scratch.write("in", text);
  // 32 tokens at the end and 20 half-way in blocks of 4: 8 and 5 blocks.
  const Json plan = plan_with_prompts(scratch, std::string(kLimits) +
                                                   "--num-gpu-blocks-override 40 --max-num-seqs 10 "
                                                   "--tokens-per-second 100");
  const Json& prompts = plan["prompts"];
  CHECK(prompts["peak_blocks"] == 80);
  CHECK(prompts["concurrency"] == 8);
  CHECK(prompts["answer_tokens"] == 50 * 24);
  CHECK(prompts["hours"].get<double>() == Approx(50 * 32 / 100.0 / 3600));
  const Json roomy = plan_with_prompts(
      scratch, std::string(kLimits) + "--num-gpu-blocks-override 4000 --max-num-seqs 10");
  CHECK(roomy["prompts"]["concurrency"] == 10);
  CHECK_FALSE(roomy["prompts"].contains("hours"));
}

TEST_CASE("bytes of the longest sequence, and of as many as run at once") {
  const Scratch scratch;
  scratch.write("in", R"({"prompt_token_ids":[1,2,3,4,5,6,7,8],"max_tokens":24})"
                      "\n"
                      R"({"prompt_token_ids":[1,2,3,4],"max_tokens":8})"
                      "\n"
                      R"({"prompt_token_ids":[1,2,3,4],"max_tokens":4})"
                      "\n");
  // 32, 12 and 8 tokens in blocks of 4; two run at once.
  const Json plan = plan_with_prompts(scratch, std::string(kLimits) + "--max-num-seqs 2");
  const int64_t block =
      plan["kv_cache_bytes"].get<int64_t>() / plan["num_gpu_blocks"].get<int64_t>();
  CHECK(block > 0);
  CHECK(plan["prompts"]["longest_bytes"] == 8 * block);
  CHECK(plan["prompts"]["peak_blocks"] == 8 + 3);
  CHECK(plan["prompts"]["peak_bytes"] == (8 + 3) * block);
}

TEST_CASE("a sequence before windows has as many blocks in a plan as the engine gives it at most") {
  const Json config = parse_json<Json>(read_text_file(test::kConfigs + "gemma-3-27b-it.json"));
  const hardware::Gpu& card = hardware::find_gpu("h200");
  launch::Arguments arguments;
  arguments.lone_config = &config;
  arguments.args.language_only = true;
  for (const int64_t tokens : {2048, 2049, 4096}) {
    INFO(tokens);
    arguments.args.max_num_batched_tokens = tokens;
    launch::ModelSource model(model::make_model_spec(config), config, {},
                              launch::Experts::first_alone);
    const plan::PlanResult planned = plan::own::make_plan(model, arguments, &card);
    const auto footprint = plan::own::device_footprint(&card, arguments);
    launch::ResolvedLaunch resolved = launch::resolve(model, arguments, *footprint);
    resolved.engine.memory_budget = static_cast<uint64_t>(planned.budget_bytes);
    const engine::KvLayout kv =
        engine::resolve_stages(resolved.spec, resolved.stage_views(), resolved.engine, *footprint)
            .front()
            .kv;
    int64_t most = 0;
    for (int64_t length = 1; length < 8192; ++length) {
      const int64_t given = engine::blocks_of_sequence(kv, length, tokens);
      REQUIRE(plan::blocks_of_sequence(planned, length) >= given);
      most = std::max(most, given);
    }
    CHECK(plan::blocks_of_sequence(planned, 8191) == most);
  }
}

TEST_CASE("a launch that does not fit has its prompts counted, and no steps forecast") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"Who comes here?\",\"max_tokens\":8}\n");
  const auto outcome =
      shell(scratch,
            "plimsoll plan $MODEL --format json -i in --gpu h100 --gpu-memory 776MiB "
            "--max-num-seqs 8");
  INFO(outcome.err);
  CHECK(outcome.status == 6);
  const Json plan = parse_json<Json>(outcome.out);
  CHECK(plan["prompts"]["lines"] == 1);
  CHECK_FALSE(plan["prompts"].contains("order"));
}

TEST_CASE("lines are measured by the context that fits where the one asked for does not") {
  const Scratch scratch;
  // Prompts that leave room for one token of 64, for none, and for none of 128.
  std::string text;
  for (const int length : {63, 64, 128}) {
    text += R"({"max_tokens":1,"prompt_token_ids":[1)";
    for (int i = 1; i < length; ++i) text += ",1";
    text += "]}\n";
  }
  scratch.write("in", text);
  struct Row {
    std::string flags;
    int status;
    int64_t fits;
  };
  const std::string own = "--gpu h100 --block-size 4 --num-gpu-blocks-override ";
  const std::string vllm = "--engine vllm --gpu h100 --block-size 16 --num-gpu-blocks-override ";
  for (const Row& row :
       {Row{own + "16 --max-model-len 128", 6, 64}, Row{own + "16 --max-model-len auto", 0, 64},
        Row{own + "32 --max-model-len 128", 0, 128},
        // vLLM holds a block back.
        Row{vllm + "5 --max-model-len 128", 6, 64}, Row{vllm + "5 --max-model-len auto", 0, 64},
        Row{vllm + "9 --max-model-len 128", 0, 128}}) {
    INFO(row.flags);
    const auto outcome =
        shell(scratch, "plimsoll plan $MODEL --format json --max-num-seqs 1 -i in " + row.flags);
    INFO(outcome.err);
    CHECK(outcome.status == row.status);
    const Json prompts = parse_json<Json>(outcome.out)["prompts"];
    CHECK(prompts["over_context"] == (row.fits == 64 ? 2 : 1));
    CHECK(prompts["first_over_context"] == (row.fits == 64 ? 2 : 3));
    CHECK(prompts["longest_over_context"] == 128);
    CHECK(prompts["longest"] == row.fits - (row.fits == 64 ? 1 : 64));
  }
}

TEST_CASE("the rate may come from a report of run") {
  const Scratch scratch;
  scratch.write("in", input());
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --report r" + std::string(kLimits))
              .status == 3);
  const Json report = parse_json<Json>(scratch.read("r"));
  const Json prompts =
      plan_with_prompts(scratch, std::string(kLimits) + "--tokens-per-second r")["prompts"];
  const double tokens =
      report["tokens"]["prompt"].get<double>() + report["tokens"]["completion"].get<double>();
  CHECK(prompts["tokens_per_second"].get<double>() ==
        Approx(tokens / report["seconds"]["run"].get<double>()));
  for (const char* bad : {"0", "-3", "nan", "1e999", "in"}) {
    INFO(bad);
    const auto outcome = shell(
        scratch, std::string("plimsoll plan $MODEL -i in --tokens-per-second=") + bad + kLimits);
    CHECK(outcome.status != 0);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

TEST_CASE("a config alone has no tokenizer: the message says which flag names one") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("config.json", R"({"model_type":"none"})");
  shell(scratch, "cp $MODEL/config.json config.json");
  const auto without = shell(scratch, "plimsoll plan config.json -i in");
  CHECK(without.status == 5);
  CHECK_THAT(without.err, Catch::Contains("--tokenizer"));
  CHECK(shell(scratch, "plimsoll plan config.json -i in --tokenizer $MODEL").status == 0);
  CHECK(shell(scratch, "plimsoll plan $MODEL -i none").status == 4);
}

TEST_CASE("the text names the figures in at most 80 columns") {
  const Scratch scratch;
  scratch.write("in", input());
  const auto outcome =
      shell(scratch, "COLUMNS=80 plimsoll plan $MODEL -i in" + std::string(kLimits));
  CHECK_THAT(outcome.out,
             Catch::Contains("8 lines, 1 of them chats") && Catch::Contains("2 refused (line 4"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}
