// What the JSON of a plan says of the first boot and of prompts, and the differences of two plans.
#include <catch2/catch.hpp>
#include <string>

#include "base/json.h"
#include "plan/configs.h"
#include "plan/report/prompts.h"
#include "plan/report/report.h"

using namespace plimsoll;
using namespace plimsoll::plan;

TEST_CASE("the JSON of a plan has every figure of the first boot") {
  const PlanResult plan = plan_of(llama_8b());
  REQUIRE(plan.cold);
  const Json cold = parse_json<Json>(to_json(plan))["cold_boot"];
  const CacheFigures& cache = plan.cold->cache;
  const Edges& edges = plan.cold->kv_cache;
  CHECK(cold == Json{{"fits", cache.fits},
                     {"kv_cache_bytes", cache.kv_cache_bytes},
                     {"num_gpu_blocks", cache.num_gpu_blocks},
                     {"kv_tokens", cache.kv_tokens},
                     {"max_concurrency", cache.max_concurrency},
                     {"activation_peak_bytes", plan.cold->activation_peak_bytes},
                     {"bounds",
                      {{"kv_cache_bytes",
                        {{"low", edges.low}, {"middle", edges.middle}, {"high", edges.high}}}}}});
}

TEST_CASE("prompts that are too long are said with the first line and the longest one's tokens") {
  PromptFigures prompts;
  CHECK_FALSE(prompts_json(prompts).contains("first_over_context"));
  prompts.over_context = 2;
  prompts.first_over_context = 3;
  prompts.longest_over_context = 5000;
  const OrderedJson json = prompts_json(prompts);
  CHECK(json["over_context"] == 2);
  CHECK(json["first_over_context"] == 3);
  CHECK(json["longest_over_context"] == 5000);
}

TEST_CASE("each figure of prompts stands in its place in the text") {
  PromptFigures prompts;
  prompts.file = "in";
  prompts.lines = 101, prompts.chats = 102;
  prompts.cut_lines = 103, prompts.dropped_tokens = 104, prompts.split_lines = 105;
  prompts.bad_lines = 106, prompts.first_bad_line = 107, prompts.first_bad_reason = "why";
  prompts.duplicate_ids = 108;
  prompts.over_context = 109, prompts.first_over_context = 110, prompts.longest_over_context = 111;
  prompts.sequences = 112;
  prompts.shortest = 113, prompts.longest = 114, prompts.median = 115, prompts.ninth_decile = 116;
  prompts.prompt_tokens = 117, prompts.shared_tokens = 118;
  prompts.answer_tokens = 119, prompts.open_ended = 120;
  prompts.order = OrderFigures{.asked = "auto",
                               .used = "prefix",
                               .reason = "it is shorter",
                               .in_file_order = {121, 122, 123},
                               .in_prefix_order = {124, 125, 126}};
  prompts.longest_bytes = 127, prompts.peak_bytes = 128, prompts.peak_blocks = 129;
  prompts.concurrency = 130;
  prompts.tokens_per_second = 131, prompts.hours = 132;
  PlanResult result;
  result.has_kv = true;
  result.num_gpu_blocks = 133;
  CHECK(prompts_text(result, prompts) ==
        std::vector<std::string>{
            "in: 101 lines, 102 of them chats, 103 cut to fit (104 tokens left out), 105 split to "
            "fit, 106 refused (line 107: why), 108 with an id taken before, 109 too long for the "
            "context (first line 110, longest 111 tokens)",
            "112 sequences with prompts of 113 to 114 tokens, half up to 115, nine in ten up to "
            "116; 117 tokens of prompts, 118 in shared prefixes",
            "answers of 119 tokens at most; max_tokens is missing in 120 lines, and the rest of "
            "the context is counted",
            "order: prefix (it is shorter); from the prefix cache 121 tokens in the file's order "
            "and 124 by prefixes, in 122 steps and 125",
            "cache: 127 B for the longest, 128 B for those that need most of what may run at once "
            "(129 blocks of 133); about 130.0 at once over the whole file",
            "132.00 hours at most, at 131.0 tokens per second"});
  const OrderedJson order = prompts_json(prompts)["order"];
  CHECK(order["asked"] == "auto");
  CHECK(order["used"] == "prefix");
  CHECK(order["reason"] == "it is shorter");
  CHECK(order["in_file_order"] ==
        OrderedJson{{"cached", 121}, {"steps", 122}, {"kv_blocks_peak", 123}});
  CHECK(order["in_prefix_order"] ==
        OrderedJson{{"cached", 124}, {"steps", 125}, {"kv_blocks_peak", 126}});
}

TEST_CASE("a difference names what one of the plans alone has, on either side") {
  const std::string without = to_json(plan_of(llama_8b()));
  EngineArgs args;
  args.lora = true;
  args.lora_slots = 1;
  args.lora_rank = 16;
  const PlanResult adapted = plan_of(llama_8b(), args);
  const std::string bytes = readable_bytes(adapted.adapter_bytes);
  CHECK_THAT(diff_plans(without, to_json(adapted)), Catch::Contains("(absent) -> " + bytes));
  CHECK_THAT(diff_plans(to_json(adapted), without), Catch::Contains(bytes + " -> (absent)"));
}

TEST_CASE("the page has a table of stages where there are several") {
  PlanResult plan = plan_of(llama_8b());
  CHECK_THAT(to_html(plan), !Catch::Contains("id=\"stages\""));
  EngineArgs args;
  args.pipeline_parallel = 2;
  plan = plan_of(llama_8b(), args);
  REQUIRE(plan.stages.size() == 2);
  const std::string page = to_html(plan);
  CHECK_THAT(page, Catch::Contains("id=\"stages\""));
  CHECK_THAT(page, Catch::Contains(", the tightest</td><td>16</td>"));
}

TEST_CASE("a model without a KV cache has no lines of it in the log") {
  PlanResult plan = plan_of(llama_8b());
  CHECK_THAT(to_log(plan), Catch::Contains("GPU KV cache size"));
  plan.has_kv = false;
  CHECK(to_log(plan).empty());
}
