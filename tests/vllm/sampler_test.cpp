// What sampling takes while vLLM measures, by the rows that are sampled at once.
#include "vllm/launch/sampler.h"

#include <catch2/catch.hpp>

using namespace plimsoll;
using namespace plimsoll::vllm;

TEST_CASE("the buffer of top-k has a row for each multiprocessor, or for fewer sequences") {
  const hardware::Gpu& gpu = hardware::find_gpu("h100");
  constexpr int64_t kVocabulary = 1000, kHidden = 64;
  const auto bytes = [&](int64_t rows, bool flashinfer) {
    EngineArgs args;
    args.version = {0, 28, 0};
    args.flashinfer_sampler = flashinfer;
    const Step step{.tokens = 1024,
                    .rows = rows,
                    .hidden = kHidden,
                    .vocabulary = kVocabulary,
                    .intermediate = 256,
                    .element = 2,
                    .int8_activations = false};
    return first_runner_sampler(args, step, &gpu).bytes;
  };
  REQUIRE(gpu.processors == 132);
  for (const int64_t rows : {2, 131, 132, 133, 256}) {
    INFO(rows);
    // Logits, their copy in float32 and two arrays beside them; hidden states of a row twice.
    const int64_t more = (rows - 1) * (kVocabulary * (2 + 4 + 8) + kHidden * 2 * 2);
    CHECK(bytes(rows, true) - bytes(1, true) == more);
    CHECK(bytes(rows, false) - bytes(1, false) ==
          more + (std::min<int64_t>(rows, 132) - 1) * kVocabulary * 4);
    CHECK(bytes(rows, false) - bytes(rows, true) == std::min<int64_t>(rows, 132) * kVocabulary * 4);
  }
}
