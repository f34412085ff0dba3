// What `plan` advises when a launch does not fit, and which cards take which quantization.
#include <catch2/catch.hpp>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "plan/configs.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

std::vector<Suggestion> advice_for(const char* config, const char* card, const EngineArgs& args) {
  const Json json = test::vllm_config(kConfigs + config + ".json");
  const hardware::Gpu& gpu = hardware::find_gpu(card);
  const auto plan = [&](const EngineArgs& changed, const hardware::Gpu* on) {
    return plan_vllm({json, "config.json"}, changed, on);
  };
  return advise(plan, args, &gpu, plan(args, &gpu));
}

const Suggestion* with_flag(const std::vector<Suggestion>& advice, const std::string& flag) {
  const auto found = std::find_if(advice.begin(), advice.end(),
                                  [&](const Suggestion& s) { return s.flag == flag; });
  return found == advice.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the advised number of ranks is the fewest that fits") {
  const auto on_40 = advice_for("llama-2-70b", "a100-40gb", {});
  REQUIRE(with_flag(on_40, "--tensor-parallel-size 4") != nullptr);
  CHECK(with_flag(on_40, "--tensor-parallel-size 4")->fits);
  const auto on_80 = advice_for("llama-2-70b", "a100-80gb", {});
  REQUIRE(with_flag(on_80, "--tensor-parallel-size 2") != nullptr);
  CHECK(with_flag(on_80, "--tensor-parallel-size 2")->fits);
}

TEST_CASE("four bits are advised as the version has them") {
  EngineArgs args;
  const auto four_bits = [](const std::vector<Suggestion>& advice) {
    return std::find_if(advice.begin(), advice.end(), [](const Suggestion& s) {
      return s.change.find("4-bit") != std::string::npos && s.change.find("with") == s.change.npos;
    });
  };
  const auto recent = advice_for("llama-2-70b", "a100-40gb", args);
  REQUIRE(four_bits(recent) != recent.end());
  CHECK(four_bits(recent)->flag.empty());  // another checkpoint, not a flag
  // 0.5 B and its share of scales and zero points, of 2 B.
  CHECK(static_cast<double>(four_bits(recent)->saves) == Approx(0.73 * 137.9e9).epsilon(0.03));
  args.version = {0, 27, 0};
  const auto earlier = advice_for("llama-2-70b", "a100-40gb", args);
  CHECK(with_flag(earlier, "--quantization bitsandbytes") != nullptr);
}

TEST_CASE("a card that a quantization method does not take is refused as vLLM refuses it") {
  const Json json = test::vllm_config(kConfigs + "llama-2-7b.json");
  EngineArgs args;
  args.quantization = "fp8";
  const auto plan_on = [&](const char* card) {
    return plan_vllm({json, "config.json"}, args, &hardware::find_gpu(card));
  };
  CHECK_NOTHROW(plan_on("t4"));
  CHECK_THROWS_WITH(plan_on("v100-32gb"),
                    "The quantization method fp8 is not supported for the current GPU. Minimum "
                    "capability: 75. Current capability: 70.");
  args.version = {0, 11, 0};
  CHECK_THROWS_AS(plan_on("t4"), Error);
}

TEST_CASE("of models that see, images are advised smaller by their own settings, with tokens") {
  const auto qwen = advice_for("qwen2.5-vl-3b", "t4", {});
  const Suggestion* pixels = with_flag(qwen, R"(--mm-processor-kwargs '{"max_pixels": 1003520}')");
  REQUIRE(pixels != nullptr);
  CHECK(pixels->saves > int64_t{64} << 20);
  CHECK(pixels->change.find("at most 1280 tokens, not 16384") != std::string::npos);
  CHECK(with_flag(qwen, R"(--mm-processor-kwargs '{"max_dynamic_patch": 4}')") == nullptr);
  const auto intern = advice_for("internvl2-2b", "t4", {});
  const Suggestion* tiles =
      with_flag(intern, R"(--mm-processor-kwargs '{"max_dynamic_patch": 4}')");
  REQUIRE(tiles != nullptr);
  CHECK(tiles->saves > 0);
  CHECK(tiles->change.find("at most 1280 tokens, not 3328") != std::string::npos);
  EngineArgs small;
  small.processor["max_pixels"] = 50176;
  CHECK(with_flag(advice_for("qwen2.5-vl-3b", "t4", small), pixels->flag) == nullptr);
}
