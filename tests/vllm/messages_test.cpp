// What vLLM says where memory or a class is missing, word for word, release by release.
#include "vllm/launch/messages.h"

#include <catch2/catch.hpp>

#include "base/amount.h"
#include "vllm/launch/served.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

TEST_CASE("messages on memory, as each release has them") {
  const std::string increase = "Try increasing `gpu_memory_utilization`";
  const std::string none = "No available memory for the cache blocks. ";
  const std::string see =
      " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.";
  CHECK(no_memory_message({0, 12, 9}) == none + increase + " when initializing the engine.");
  CHECK(no_memory_message({0, 13, 0}) == none + increase + " when initializing the engine." + see);
  CHECK(no_memory_message({0, 22, 0}) ==
        none + increase +
            " when initializing the engine (this flag also controls CPU memory reservation on the "
            "CPU backend, despite its name)." +
            see);
  CHECK(no_length_message() ==
        "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single "
        "token. " +
            increase + ".");
  const auto too_long = [](VllmVersion version) {
    EngineArgs args;
    args.version = version;
    return too_long_message(args, 8192, 3 * kGiB, kGiB, 2048);
  };
  const std::string end = " or decreasing `max_model_len` when initializing the engine.";
  CHECK(too_long({0, 7, 3}) ==
        "The model's max seq len (8192) is larger than the maximum number of tokens that can be "
        "stored in KV cache (2048). " +
            increase + end);
  CHECK(too_long({0, 12, 0}) ==
        "To serve at least one request with the models's max seq len (8192), (3.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (1.00 GiB). Based on the "
        "available memory, the estimated maximum model length is 2048. " +
            increase + end);
  CHECK(too_long({0, 22, 0}) ==
        "To serve at least one request with the model's max seq len (8192), (3.0 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (1.0 GiB). Based on the "
        "available memory, the estimated maximum model length is 2048. " +
            increase + " (which also controls CPU memory on the CPU backend)" + end + see);
  const auto not_free = [](VllmVersion version) {
    return not_free_message(version, 10 * kGiB, 24 * kGiB, 0.9, 22 * kGiB);
  };
  CHECK(not_free({0, 14, 0}) ==
        "Free memory on device cuda:0 (10.0/24.0 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 22.0 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.");
  CHECK_THAT(not_free({0, 13, 9}), Catch::StartsWith("Free memory on device (10.0/24.0 GiB)"));
  CHECK(format_gib(kGiB) == "1.0");
  CHECK(format_gib(kGiB + kGiB / 4) == "1.25");
  CHECK(format_gib(kGiB / 2) == "0.5");
  CHECK(format_gib(kGiB * 3 / 1000) == "0.0");
  CHECK(format_gib(kGiB * 6 / 1000) == "0.01");
}

TEST_CASE("notes on classes that a release has not") {
  CHECK(served_refusal("Qwen3ForCausalLM", {0, 8, 2}) ==
        "Model architectures ['Qwen3ForCausalLM'] are not supported for now: vLLM 0.8.4 is the "
        "first release with them. Use that one, and --vllm-version 0.8.4.");
  CHECK(served_note("WombatForCausalLM", {0, 33, 0}) ==
        "no release of vLLM known here (0.4 to 0.33) has a class for WombatForCausalLM: it runs "
        "the one of transformers or of the checkpoint's own code where that allows it, or refuses "
        "the model");
  CHECK(served_note("BambaForCausalLM", {0, 24, 0}) ==
        "this release has no class for BambaForCausalLM (0.23.0 was the last that did): it runs "
        "the one of transformers, if the installed version has it, in about the same memory");
  CHECK(served_note("Qwen3ForCausalLM", {0, 8, 3}) ==
        "this release has no class for Qwen3ForCausalLM (0.8.4 is the first that does): it runs "
        "the one of transformers, if the installed version has it, in about the same memory");
}
