// What the JSON of a plan says of the first boot and of prompts, and the differences of two plans.
#include <catch2/catch.hpp>

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
