// Launches of our own engine on cards drawn at random, over configs of every kind: `plan` answers
// them as it did when tests/data/digests/plimsoll.txt was written (README there).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "conformance/launch_digests.h"
#include "launch/model_source.h"
#include "launch/parameters.h"
#include "plan/plimsoll/plimsoll_plan.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

using Words = std::vector<std::string>;

constexpr int kLaunches = 6;  // of a config
constexpr int kReported = 2;  // of them, in every form that is printed

constexpr const char* kCards[] = {"h100", "h200", "a100-80gb", "l4", "rtx4090", "t4", "b200"};

const std::vector<Words> kFlags = {
    {"--tensor-parallel-size", "2", "4", "8"},
    {"--pipeline-parallel-size", "2", "3"},
    {"--data-parallel-size", "2"},
    {"--enable-expert-parallel", "true"},
    {"--max-model-len", "1000", "8192", "100000", "auto"},
    {"--max-num-seqs", "1", "33", "700"},
    {"--max-num-batched-tokens", "777", "4096", "20000"},
    {"--gpu-memory-utilization", "0.5", "0.97"},
    {"--kv-cache-memory-bytes", "7GiB"},
    {"--num-gpu-blocks-override", "1000"},
    {"--block-size", "8", "32", "64"},
    {"--dtype", "float16", "float32", "bfloat16"},
    {"--quantization", "fp8", "bitsandbytes"},
    {"--kv-cache-dtype", "fp8", "fp8_e5m2", "bfloat16"},
    {"--enable-chunked-prefill", "false"},
    {"--enable-prefix-caching", "false"},
    {"--enforce-eager", "true"},
    {"--cudagraph-capture-sizes", "1,2,48"},
    {"--max-cudagraph-capture-size", "40"},
    {"--language-model-only", "true"},
    {"--limit-mm-per-prompt", R"({"image": 0})", R"({"image": 3})"},
    {"--reserved-memory", "5GiB"},
    {"--speculative-config", R"({"method": "ngram", "num_speculative_tokens": 4})"},
    {"--rope-theta", "5000"},
    {"--hf-overrides", R"({"num_hidden_layers": 6})"}};

std::vector<Answered> ask(const std::string& name, const Json& config) {
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < kLaunches; ++i) {
    const hardware::Gpu& gpu = hardware::find_gpu(draw.of(kCards));
    Words words;
    for (size_t flags = i == 0 ? 0 : draw.below(5); flags > 0; --flags) {
      const Words& flag = draw.of(kFlags);
      words.insert(words.end(), {flag.front(), flag[1 + draw.below(flag.size() - 1)]});
    }
    launch::Arguments arguments;
    arguments.lone_config = &config;
    if (draw.below(4) == 0) arguments.ceiling = int64_t{11} << 30;
    arguments.deterministic = draw.below(4) == 0;
    arguments.threads = 1 + static_cast<int>(draw.below(3));
    arguments.has_prompts = draw.below(2) == 0;
    const std::string launch =
        fmt::format("{} {} {} {} {} {}", gpu.name, arguments.ceiling, arguments.deterministic,
                    arguments.threads, arguments.has_prompts, fmt::join(words, " "));
    all.push_back(planned(
        launch,
        [&] {
          for (size_t at = 0; at < words.size(); at += 2)
            launch::change(arguments.args, words[at], words[at + 1]);
          launch::ModelSource model(plan::own::read_spec({config, "config.json"}, arguments.args),
                                    config, {}, launch::Experts::first_alone);
          return plan::own::make_plan(model, arguments, &gpu);
        },
        i < kReported));
  }
  return all;
}

}  // namespace

TEST_CASE("launches of our own engine drawn at random are planned as they were") {
  Digests digests("plimsoll");
  for (const auto& [name, config] : configs()) digests.compare(name, ask(name, config));
  digests.finish();
}
