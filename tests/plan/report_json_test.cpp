// JSON, page, log and differences of plans that are made up by hand.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "plan/configs.h"
#include "plan/report/prompts.h"
#include "plan/report/report.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using Catch::Contains;

namespace {

/// A launch on two cards that fits.
PlanResult made_up_result() {
  PlanResult plan;
  plan.engine = "vllm", plan.version = "0.28.0", plan.model = "org/m";
  plan.architecture = "MForCausalLM", plan.dtype = "bfloat16";
  plan.gpu = "H100", plan.gpus = 2, plan.fits = true;
  plan.total_bytes = 80 * kGib, plan.budget_bytes = 72 * kGib;
  plan.weights_bytes = 18 * kGib;
  plan.kv_kinds.resize(1);
  plan.has_kv = true;
  plan.kv_cache_bytes = 5 * kGib / 2, plan.bytes_per_block = 3 << 20;
  plan.num_gpu_blocks = 853, plan.kv_tokens = 1234567, plan.max_concurrency = 150.704;
  plan.max_model_len = 8192;
  return plan;
}

Json json_of(const PlanResult& plan) {
  return parse_json<Json>(to_json(plan));
}

CacheFigures cache(int64_t factor) {
  return {factor * 100, factor * 10, factor * 160, static_cast<double>(factor), 0, true, ""};
}

/// A plan's text that `--diff` reads.
std::string plan_text(const char* keys) {
  return fmt::format(R"({{"schema_version":1,"parts":[],"engine":"vllm"{}}})", keys);
}

}  // namespace

TEST_CASE("figures that do not apply stand nowhere in the JSON") {
  PlanResult plan = made_up_result();
  const std::vector<const char*> optional = {"after_loading_bytes",
                                             "adapter_bytes",
                                             "segment_bytes",
                                             "loading_peak_bytes",
                                             "persistent_bytes",
                                             "auto_max_model_len",
                                             "reason",
                                             "enable_prefix_caching",
                                             "bounds",
                                             "cold_boot",
                                             "host",
                                             "stages",
                                             "advice",
                                             "solved",
                                             "notes",
                                             "prompts",
                                             "machine"};
  Json json = json_of(plan);
  for (const char* key : optional) {
    INFO(key);
    CHECK_FALSE(json.contains(key));
  }
  plan.loading_peak_bytes = plan.weights_bytes;
  CHECK_FALSE(json_of(plan).contains("loading_peak_bytes"));
  plan.loading_peak_bytes += 1;
  plan.after_loading_bytes = 1, plan.adapter_bytes = 2, plan.segment_bytes = 3;
  plan.persistent_bytes = 4, plan.auto_max_model_len = 4096, plan.prefix_caching = false;
  json = json_of(plan);
  CHECK(json["loading_peak_bytes"] == plan.weights_bytes + 1);
  CHECK(json["after_loading_bytes"] == 1);
  CHECK(json["adapter_bytes"] == 2);
  CHECK(json["segment_bytes"] == 3);
  CHECK(json["persistent_bytes"] == 4);
  CHECK(json["auto_max_model_len"] == 4096);
  CHECK(json["max_model_len"] == 4096);
  CHECK(json["enable_prefix_caching"] == false);
  plan.gpu = "";
  json = json_of(plan);
  for (const char* key : {"gpu", "verdict", "total_bytes", "budget_bytes"})
    CHECK_FALSE(json.contains(key));
  CHECK(json["fits"] == true);
  plan.has_kv = false;
  CHECK_FALSE(json_of(plan).contains("kv_cache_bytes"));
  CHECK(json_of(plan).contains("kv_bytes_per_token"));
}

TEST_CASE("a verdict is that of the release, of the memory, or of the worst edge") {
  PlanResult plan = made_up_result();
  CHECK(verdict_name(plan) == "fits");
  plan.may_fit = true;
  CHECK(verdict_name(plan) == "may fit");
  plan.fits = false;
  CHECK(verdict_name(plan) == "does not fit");
  plan.refused = true;
  CHECK(verdict_name(plan) == "does not launch");
}

TEST_CASE("edges stand under their names, in the plan and in its parts") {
  PlanResult plan = made_up_result();
  plan.bounds = {cache(1), cache(2), cache(3)};
  plan.assume = Assume::worst;
  plan.cold = ColdBoot{7, cache(4), {5, 6, 8}};
  plan.cold->cache.reason = "too little";
  plan.parts = {{.name = "a", .bytes = 100, .formula = "f", .source = "s", .inside_budget = false},
                {.name = "b", .bytes = 100, .formula = "f", .source = "s", .less = 10, .more = 30}};
  const Json json = json_of(plan);
  CHECK(json["assume"] == "worst");
  CHECK(json["bounds"] ==
        Json{{"kv_cache_bytes", {{"low", 100}, {"middle", 200}, {"high", 300}}},
             {"num_gpu_blocks", {{"low", 10}, {"middle", 20}, {"high", 30}}},
             {"kv_tokens", {{"low", 160}, {"middle", 320}, {"high", 480}}},
             {"max_concurrency", {{"low", 1.0}, {"middle", 2.0}, {"high", 3.0}}}});
  CHECK(json["cold_boot"]["reason"] == "too little");
  CHECK(json["cold_boot"]["bounds"]["kv_cache_bytes"] ==
        Json{{"low", 5}, {"middle", 6}, {"high", 8}});
  CHECK(json["parts"][0] == Json{{"name", "a"},
                                 {"bytes", 100},
                                 {"formula", "f"},
                                 {"source", "s"},
                                 {"inside_budget", false}});
  CHECK(json["parts"][1]["low_bytes"] == 90);
  CHECK(json["parts"][1]["high_bytes"] == 130);
  plan.assume = Assume::middle;
  CHECK(json_of(plan)["assume"] == "middle");
}

TEST_CASE("what another engine says and refuses stands under its name") {
  PlanResult plan = made_up_result();
  plan.engine = "sglang";
  engines::Answer answer;
  answer.resolved = {{"a", 1}}, answer.sizing = {{"b", 2}}, answer.says = {"line"};
  plan.other_engine = std::make_shared<engines::Answer>(answer);
  CHECK(json_of(plan)["engine"] == Json{{"name", "sglang"},
                                        {"resolved", {{"a", 1}}},
                                        {"sizing", {{"b", 2}}},
                                        {"says", {"line"}}});
  answer.refused = {"memory", "no room"};
  plan.other_engine = std::make_shared<engines::Answer>(answer);
  CHECK(json_of(plan)["engine"]["stage"] == "memory");
  CHECK(json_of(plan)["engine"]["refused"] == "no room");
}

TEST_CASE("a suggestion's figures stand each under its name") {
  PlanResult plan = made_up_result();
  plan.solved = "three cards";
  plan.advice = {{.change = "c",
                  .flag = "f",
                  .saves = 1,
                  .cost = "x",
                  .fits = true,
                  .helps = false,
                  .requests_before = 2,
                  .requests = 3,
                  .length = 4,
                  .longest_before = 5,
                  .longest = 6}};
  const Json json = json_of(plan);
  CHECK(json["solved"] == "three cards");
  CHECK(json["advice"][0] == Json{{"change", "c"},
                                  {"flag", "f"},
                                  {"saves_bytes", 1},
                                  {"gain", "longest context 5 -> 6; saves 1 B"},
                                  {"requests_before", 2.0},
                                  {"requests", 3.0},
                                  {"longest_before", 5},
                                  {"longest", 6},
                                  {"cost", "x"},
                                  {"fits", true},
                                  {"helps", false}});
}

TEST_CASE("the lines of vLLM's log are those of the release") {
  const std::string tokens = "GPU KV cache size: 1,234,567 tokens";
  const std::string most = "Maximum concurrency for 8,192 tokens per request: 150.70x\n";
  const auto logged = [](const char* version, int64_t more = 0) {
    PlanResult plan = made_up_result();
    plan.version = version;
    plan.kv_tokens += more;
    return to_log(plan);
  };
  CHECK(logged("0.9.1") == tokens + "\n" + most);
  CHECK(logged("0.9.2") == "Available KV cache memory: 2.50 GiB\n" + tokens + "\n" + most);
  CHECK(logged("0.13.9") == "Available KV cache memory: 2.50 GiB\n" + tokens + "\n" + most);
  CHECK(logged("0.14.0") == "Available KV cache memory: 2.5 GiB\n" + tokens + "\n" + most);
  CHECK(logged("0.27.9") == "Available KV cache memory: 2.5 GiB\n" + tokens + "\n" + most);
  CHECK(logged("0.28.0") == "Available KV cache memory: 2.5 GiB\n" + tokens + ", " + most);
  CHECK_THAT(logged("0.9.1", 999 - 1234567), Contains(" 999 tokens"));
  CHECK_THAT(logged("0.9.1", 1000 - 1234567), Contains(" 1,000 tokens"));
  PlanResult plan = made_up_result();
  plan.reason = "Too little.", plan.fits = false;
  CHECK(to_log(plan) == "Available KV cache memory: 2.5 GiB\nToo little.\n");
  plan = made_up_result();
  plan.first_engine = true;
  // 4 GiB of swap space in blocks of 3 MiB.
  const std::string blocks = " blocks: 853, # CPU blocks: 1365\n";
  const std::string plain = "Maximum concurrency for 8192 tokens per request: 150.70x\n";
  for (const auto& [version, name] : {std::pair{"0.6.9", "GPU"}, std::pair{"0.7.0", "cuda"}}) {
    plan.version = version;
    CHECK(to_log(plan) == std::string("# ") + name + blocks + plain);
  }
  plan.reason = "Too little.";
  CHECK(to_log(plan) == "# cuda" + blocks + "Too little.\n");
  plan.engine = "plimsoll", plan.reason = "";
  CHECK(to_log(plan).empty());
}

TEST_CASE("arguments are one line, flags without values among them") {
  PlanResult plan;
  plan.arguments = {{"--a", "1"}, {"--b", ""}, {"--c", "'x y'"}};
  CHECK(to_args(plan) == "--a 1 --b --c 'x y'\n");
}

TEST_CASE("the page shows a verdict, and no text ends its tags or its script") {
  PlanResult plan = made_up_result();
  plan.model = "<b>&\"", plan.reason = "1 < 2 > 0", plan.notes = {"</script>"};
  std::string page = to_html(plan);
  CHECK_THAT(page, Contains("<h1>&lt;b&gt;&amp;&quot;</h1>") && Contains("1 &lt; 2 &gt; 0</p>") &&
                       Contains("\\u003c/script>\"") && Contains(" &middot; 2 &times; H100</p>") &&
                       Contains("<span class=\"verdict yes\" id=\"verdict\">fits</span>") &&
                       Contains("Per GPU of the largest rank"));
  CHECK(page.find("</script>") == page.rfind("</script>"));
  plan.fits = false;
  CHECK_THAT(to_html(plan), Contains("class=\"verdict no\" id=\"verdict\">does not fit<"));
  plan.fits.reset();
  CHECK_THAT(to_html(plan), Contains("class=\"verdict none\" id=\"verdict\">no verdict<"));
  plan.gpu = "";
  CHECK_THAT(to_html(plan), Contains("id=\"verdict\">no card given<") && !Contains("&times;"));
  CHECK_THAT(to_html(plan), !Contains("id=\"bounds\""));
  plan.bounds = {cache(1), cache(2), cache(3)};
  CHECK_THAT(to_html(plan), Contains("KV cache 200 B (100 B to 300 B)</p>"));
  plan.cold = ColdBoot{7, cache(4), {5, 6, 8}};
  CHECK_THAT(to_html(plan), Contains("300 B); on the first boot 6 B (5 B to 8 B)</p>"));
  plan.group_needs = {{16, 0, 1, 0}, {32, 4, 2, 3}};
  CHECK_THAT(to_html(plan), Contains("plan.bytes_per_block=3145728;plan.group_need=[{block:16,"
                                     "most:0,extra:1,state:0},{block:32,most:4,extra:2,state:3}]"));
}

TEST_CASE("hours are said in the unit that suits them") {
  const auto said = [](double hours) {
    PromptFigures prompts;
    prompts.sequences = 1, prompts.tokens_per_second = 10, prompts.hours = hours;
    return prompts_text({}, prompts).back();
  };
  CHECK(said(59.0 / 3600) == "59.0 seconds at most, at 10.0 tokens per second");
  CHECK_THAT(said(60.0 / 3600), Catch::StartsWith("1.0 minutes at most"));
  CHECK_THAT(said(0.99), Catch::StartsWith("59.4 minutes at most"));
  CHECK_THAT(said(1), Catch::StartsWith("1.00 hours at most"));
  PromptFigures one;
  one.file = "in", one.lines = 1, one.sequences = 1, one.sharing_cut_off = true;
  one.bad_lines = 1, one.first_bad_line = 3, one.first_bad_reason = "line 3, column 1: x";
  const std::vector<std::string> text = prompts_text({}, one);
  CHECK(text[0] == "in: 1 line, 0 of them chats, 1 refused (line 3, column 1: x)");
  CHECK_THAT(text[1], Catch::StartsWith("1 sequence with") && Contains(", at least 0 in shared"));
  CHECK(text[2] == "answers of 0 tokens at most");
  CHECK_THAT(text[3], Catch::EndsWith("(0 blocks)"));
  one.sequences = 0;
  CHECK(prompts_text({}, one).size() == 1);
  const OrderedJson json = prompts_json(one);
  CHECK(json["first_bad_line"] == 3);
  CHECK(json["sharing_cut_off"] == true);
  for (const char* key : {"hours", "concurrency", "order", "tokens_per_second"})
    CHECK_FALSE(json.contains(key));
}

TEST_CASE("a difference has both values, and of sizes how much more or less") {
  const std::string before = plan_text(R"(,"a_bytes":1024,"b":1,"c":"x","d_bytes":3072,"same":5)");
  const std::string after =
      plan_text(R"(,"a_bytes":3072,"b":2,"c":"y","d_bytes":1024,"same":5,"advice":[1],)"
                R"("machine":[1],"new_bytes":2048)");
  CHECK(diff_plans(before, after) ==
        "a_bytes                    1.0 KiB -> 3.0 KiB (+2.0 KiB)\n"
        "b                          1 -> 2\n"
        "c                          x -> y\n"
        "d_bytes                    3.0 KiB -> 1.0 KiB (-2.0 KiB)\n"
        "new_bytes                  (absent) -> 2.0 KiB\n");
  CHECK(diff_plans(before, before) == "no difference\n");
  const auto with_engine = [](const char* name, int tokens, int64_t bytes) {
    return fmt::format(
        R"({{"schema_version":1,"engine":{{"name":"{}","resolved":{{"x":1,"l":[{}]}},)"
        R"("sizing":{{"tokens":{}}}}},"engine_version":"1","parts":[{{"name":"p","bytes":{},)"
        R"("formula":"f"}}]}})",
        name, tokens, tokens, bytes);
  };
  CHECK(diff_plans(with_engine("a", 5, 1), with_engine("a", 6, 2)) ==
        "sizing.tokens              5 -> 6\n");
  CHECK(diff_plans(with_engine("a", 5, 1), with_engine("b", 6, 2048)) ==
        "engine                     a -> b\n"
        "\na 1\n  p                                  1 B  f\n"
        "\nb 1\n  p                              2.0 KiB  f\n");
  CHECK_THROWS_WITH(diff_plans("{", before), Contains("--diff: the first file is no JSON: line 1"));
  CHECK_THROWS_WITH(diff_plans(before, "{}"), Contains("--diff: the second file is no plan"));
}
