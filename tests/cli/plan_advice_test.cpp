// Advice as a user follows it: the same line with the flag that was named.
#include "cli/planned.h"

using namespace plimsoll;
using test::kConfigs;
using test::plan_of;
using test::Scratch;

namespace {

/// Bytes of a card that a launch needs while one request of the longest length runs.
int64_t needed_bytes(const Json& plan) {
  int64_t bytes = 0;
  for (const char* name :
       {"weights_bytes", "activation_peak_bytes", "non_torch_bytes", "cuda_graph_bytes"}) {
    bytes += plan[name].get<int64_t>();
  }
  bytes += plan.value("persistent_bytes", int64_t{0});  // absent where the release takes none
  for (const Json& part : plan["parts"]) {
    if (part["name"] == "weights: offloaded to the host") bytes += part["bytes"].get<int64_t>();
  }
  const auto block = plan["block_size"].get<int64_t>();
  const int64_t blocks = (plan["max_model_len"].get<int64_t>() + block - 1) / block;
  return bytes + blocks * block * plan["kv_bytes_per_token"].get<int64_t>();
}

}  // namespace

TEST_CASE("a suggested flag changes the launch as the suggestion says") {
  const Scratch scratch;
  const std::string rows[] = {"llama-2-70b.json --gpu a100-80gb --engine vllm",
                              "llama-3.1-8b.json --gpu 4090 --engine vllm",
                              "qwen2.5-vl-3b.json --gpu t4 --engine vllm",
                              "llama-3.1-8b.json --gpu 4090"};
  for (const std::string& row : rows) {
    const std::string line = kConfigs + row + " --advise ";
    const Json before = plan_of(scratch, line);
    int followed = 0;
    bool halved = false;
    for (const Json& advice : before["advice"]) {
      const auto flag = advice["flag"].get<std::string>();
      if (flag.empty() || !advice["helps"].get<bool>()) continue;
      INFO(row << " " << flag);
      const Json after = plan_of(scratch, line + flag);
      ++followed;
      CHECK(advice["saves_bytes"] == needed_bytes(before) - needed_bytes(after) +
                                         after["budget_bytes"].get<int64_t>() -
                                         before["budget_bytes"].get<int64_t>());
      CHECK(advice["fits"] == after["fits"]);
      CHECK(advice["requests"] == after["max_concurrency"]);
      if (advice["change"] != "half the context") continue;
      halved = true;
      CHECK(after["max_model_len"].get<int64_t>() * 2 == before["max_model_len"].get<int64_t>());
    }
    INFO(row);
    CHECK(followed >= 5);
    CHECK(halved);
  }
}
