// `run --speculative-config`: answers as without it, in fewer steps; what has none is told.
#include <catch2/catch.hpp>

#include "cli/drafts.h"
#include "cli/planned.h"
#include "cli/program.h"

using namespace plimsoll;
using Catch::Matchers::Contains;
using test::drafting;
using test::Outcome;
using test::part_bytes;
using test::plan_of;
using test::Scratch;
using test::shell;
using test::write_draft;

namespace {

constexpr const char* kNgram =
    R"( --speculative-config '{"method":"ngram","num_speculative_tokens":6,"prompt_lookup_max":3}')";

/// Lines whose answers repeat words, greedy and sampled, with logprobs, penalties and a pattern.
/// The line of one allowed token is the longest and repeats itself whatever a processor's
/// arithmetic makes of the others.
constexpr const char* kLines =
    R"({"prompt":"To be, or not to be","max_tokens":60,"temperature":0,"ignore_eos":true}
{"prompt":"my lord, my lord, my","max_tokens":40,"temperature":0.6,"seed":3,"logprobs":2}
{"prompt":"the the the","max_tokens":30,"temperature":0,"repetition_penalty":1.3,"n":2}
{"prompt":"one","max_tokens":120,"temperature":0,"allowed_token_ids":[300],"ignore_eos":true}
{"prompt":"one","max_tokens":40,"temperature":0,"structured_outputs":{"regex":"(ab ){9}[c-x]{20}"}}
{"prompt":"no no no no","max_tokens":50,"temperature":0.3,"stop":["no no"],"min_tokens":9}
)";

}  // namespace

TEST_CASE("speculation changes no byte of the answers and saves steps") {
  const Scratch scratch;
  scratch.write("in", kLines);
  const auto run = [&](const std::string& name, const std::string& flags) {
    const Outcome outcome = shell(
        scratch, "plimsoll run $MODEL -q -i in -o " + name + " --report " + name + ".json" + flags);
    REQUIRE(outcome.status == 0);
    return parse_json<Json>(scratch.read(name + ".json"))["engine"];
  };
  for (const char* flags : {"", " -tp 2", " -pp 2", " -dp 2", " --max-num-seqs 2 --threads 2"}) {
    INFO(flags);
    const std::string name = std::to_string(std::hash<std::string>()(flags));
    const Json plain = run("plain" + name, flags);
    const Json fast = run("fast" + name, std::string(flags) + kNgram);
    CHECK(scratch.read("plain" + name) == scratch.read("fast" + name));
    CHECK(plain["drafted_tokens"] == 0);
    CHECK(fast["kept_drafted_tokens"] > 10);
    CHECK(fast["drafted_tokens"] >= fast["kept_drafted_tokens"]);
    CHECK(fast["generated_tokens"] == plain["generated_tokens"]);
    CHECK(fast["steps"] < plain["steps"]);
  }
}

TEST_CASE("the summary says how many proposed tokens were drawn") {
  const Scratch scratch;
  scratch.write("in", kLines);
  CHECK_THAT(shell(scratch, std::string("plimsoll run $MODEL -i in -o out") + kNgram).err,
             Contains("plimsoll: speculation: ") && Contains(" proposed tokens were drawn\n"));
  CHECK_THAT(shell(scratch, "plimsoll run $MODEL -i in -o plain").err, !Contains("speculation"));
  CHECK_THAT(shell(scratch, std::string("plimsoll plan $MODEL -i in --format json") + kNgram).out,
             Contains("forecast without speculation"));
}

TEST_CASE("speculation that our engine does not have is refused with the reason") {
  const Scratch scratch;
  const auto refused = [&](const std::string& config, const std::string& why,
                           const std::string& flags = "") {
    for (const char* command :
         {"plimsoll run $MODEL --dry-run -i /dev/null -o out", "plimsoll plan $MODEL"}) {
      INFO(command << config);
      const Outcome outcome =
          shell(scratch, std::string(command) + flags + " --speculative-config '" + config + "'");
      CHECK(outcome.status == 2);
      CHECK_THAT(outcome.err, Contains(why));
    }
  };
  refused(R"({"method":"eagle3","model":"x","num_speculative_tokens":2})",
          "the methods ngram and draft_model, not eagle3");
  refused(R"({"method":"draft_model","num_speculative_tokens":2})", "must name the draft model");
  refused(R"({"method":"ngram"})", "num_speculative_tokens says how many");
  refused(R"({"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":4,)"
          R"("prompt_lookup_max":3})",
          "prompt_lookup_min (4) is above prompt_lookup_max (3)");
  refused(R"({"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":0})",
          "prompt_lookup_min: expected 1 to");
  const Outcome card = shell(scratch, std::string("plimsoll plan $MODEL --gpu h100") + kNgram);
  CHECK(card.status == 2);
  CHECK_THAT(card.err, Contains("on the CPU alone"));
}

TEST_CASE("a draft model changes no byte of the answers, and its memory is planned") {
  const Scratch scratch;
  scratch.write("in", kLines);
  write_draft(scratch, "small", {{"num_hidden_layers", 2}});
  for (const char* flags : {" --max-num-seqs 1", " -dp 2", " --load-format dummy"}) {
    INFO(flags);
    const std::string run = std::string("plimsoll run $MODEL -q -i in --overwrite") + flags;
    REQUIRE(shell(scratch, run + " -o plain").status == 0);
    const Outcome fast = shell(scratch, run + " -o fast --report report.json" + drafting("small"));
    INFO(fast.err);
    REQUIRE(fast.status == 0);
    CHECK(scratch.read("plain") == scratch.read("fast"));
    const Json report = parse_json<Json>(scratch.read("report.json"));
    CHECK(report["engine"]["drafted_tokens"] > 0);
    const Json plan =
        parse_json<Json>(shell(scratch, std::string("plimsoll plan $MODEL --format json") + flags +
                                            drafting("small"))
                             .out);
    int64_t planned = 0, placed = 0, weights = 0;
    for (const Json& part : plan["parts"]) {
      const auto name = part["name"].get<std::string>();
      if (name.starts_with("draft")) planned += part["bytes"].get<int64_t>();
      if (name.ends_with("weights")) weights += part["bytes"].get<int64_t>();
    }
    CHECK(plan["weights_bytes"] == weights);
    for (const Json& region : report["plan"]["regions"])
      if (region["name"].get<std::string>().starts_with("draft"))
        placed += region["bytes"].get<int64_t>();
    CHECK(planned > 0);
    CHECK(planned == placed);
    CHECK(plan["num_gpu_blocks"] == report["plan"]["kv_blocks"]);
  }
}

TEST_CASE("the model's cache and its draft's are parts of their own, each counted once") {
  const Scratch scratch;
  write_draft(scratch, "small", {{"num_hidden_layers", 2}});
  const std::string flags = "$MODEL --num-gpu-blocks-override 100";
  const Json drafts = plan_of(scratch, flags + drafting("small"));
  // 100 blocks of 16 tokens: keys and values of two heads of 32 numbers of two bytes.
  constexpr int64_t kLayer = 100 * 16 * 2 * 2 * 32 * 2;
  CHECK(part_bytes(drafts, "kv cache") == 6 * kLayer);
  CHECK(part_bytes(drafts, "draft kv cache") == 2 * kLayer);
  const Json plain = plan_of(scratch, flags);
  CHECK(part_bytes(plain, "kv cache") == 6 * kLayer);
  CHECK(part_bytes(plain, "draft kv cache") == 0);
}

TEST_CASE("scratch of the model and of its draft is measured each by itself") {
  const Scratch scratch;
  scratch.write("in", kLines);
  // A draft so narrow that its scratch would not hold the model's.
  write_draft(scratch, "narrow",
              {{"num_hidden_layers", 1},
               {"hidden_size", 32},
               {"intermediate_size", 32},
               {"num_attention_heads", 1},
               {"num_key_value_heads", 1}});
  const Outcome ran = shell(scratch,
                            "plimsoll run $MODEL -q -i in -o out --report r --load-format dummy "
                            "--max-num-seqs 1 --max-num-batched-tokens 8" +
                                drafting("narrow"));
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["engine"]["drafted_tokens"] > 0);
  const auto part = [&](const std::string& name) {
    for (const Json& line : report["memory"]["parts"])
      if (line["part"] == name) return line;
    return Json();
  };
  const Json model = part("step scratch"), draft = part("draft step scratch");
  INFO(model.dump() << draft.dump());
  CHECK(draft["used_bytes"] > 0);
  CHECK(draft["used_bytes"] <= draft["planned_bytes"]);
  CHECK(model["used_bytes"] > draft["planned_bytes"]);
  CHECK(model["used_bytes"] <= model["planned_bytes"]);
  CHECK(report["memory"]["within_plan"] == true);
  CHECK(shell(scratch, "plimsoll plan --check r").status == 0);
}

TEST_CASE("a draft model that cannot propose for the model is refused before weights are read") {
  const Scratch scratch;
  write_draft(scratch, "small", {{"num_hidden_layers", 1}});
  write_draft(scratch, "other", {{"vocab_size", 32000}});
  write_draft(scratch, "state", {{"model_type", "mamba"}, {"architectures", {"MambaForCausalLM"}}});
  const auto refused = [&](const std::string& flags, int status, const std::string& why) {
    for (const char* command :
         {"plimsoll run $MODEL --dry-run -i /dev/null -o out", "plimsoll plan $MODEL"}) {
      INFO(command << flags);
      const Outcome outcome = shell(scratch, command + flags);
      CHECK(outcome.status == status);
      CHECK_THAT(outcome.err, Contains(why));
    }
  };
  refused(drafting("other"), 2,
          "it has 32000 tokens, the model 2048: both must have one tokenizer");
  refused(drafting("nowhere"), 5, "nowhere");
  refused(drafting("small") + " -tp 2", 2, "leave out -tp and -pp");
  refused(drafting("state"), 2, "cannot go back");
  REQUIRE(shell(scratch, "mkdir broken").status == 0);
  scratch.write("broken/config.json", R"({"model_type":"llama","hidden_size":-1})");
  refused(drafting("broken"), 5, "--speculative-config: the draft model");
  // Plans alone are made of a lone config.
  const std::string lone = drafting("small/config.json");
  CHECK_THAT(shell(scratch, "plimsoll plan $MODEL" + lone).out, Contains("draft weights"));
  CHECK(shell(scratch, "plimsoll run $MODEL --dry-run -i /dev/null -o out" + lone).status == 5);
  // A draft model as large as the model is taken, and a note says that it never pays.
  write_draft(scratch, "same", {{"num_hidden_layers", 6}});
  CHECK_THAT(shell(scratch, "plimsoll plan $MODEL" + drafting("same")).out,
             Contains("100 % of the bytes") && Contains("draft weights"));
}
