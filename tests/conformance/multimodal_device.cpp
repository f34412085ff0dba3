// Lines with images on a device of its own memory, without hardware (engine/test_device.h): the
// same answers as on the CPU.
#include <catch2/catch.hpp>

#include "conformance/cpu.h"
#include "conformance/image_model.h"
#include "engine/test_device.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

struct Device {
  explicit Device(TestDeviceFootprint::Habits habits)
      : footprint(backend::cpu_footprint(), habits) {}
  std::unique_ptr<backend::Backend> cpu = cpu_backend();
  TestDeviceFootprint footprint;
  TestDevice backend{footprint, *cpu};
};

/// Lines whose tokens are drawn where the logits are.
std::vector<engine::Request> drawn_requests(ImageModel& subject) {
  std::vector<engine::Request> requests = subject.requests();
  for (engine::Request& request : requests) {
    request.sampling.prompt_logprobs.reset();
    request.sampling.logprobs.reset();
  }
  return requests;
}

std::vector<Ids> tokens_of(const std::vector<engine::RequestOutput>& outputs) {
  std::vector<Ids> tokens;
  for (const engine::RequestOutput& output : outputs) {
    INFO((output.failure ? output.failure->message : ""));
    REQUIRE_FALSE(output.failure);
    tokens.push_back(output.completions[0].token_ids);
  }
  return tokens;
}

/// Checks that the planned memory was taken, of the device and of the host.
void check_regions(const engine::Engine& engine) {
  for (const engine::MeasuredRegion& region : engine.measured(0)) {
    INFO(region.name);
    CHECK(region.placed_bytes == region.planned_bytes);
  }
  const auto has = [](const std::vector<memory::Region>& regions, std::string_view name) {
    return std::ranges::find(regions, name, &memory::Region::name) != regions.end();
  };
  CHECK(has(engine.plan().regions, "vision weights"));
  CHECK(has(engine.plan().regions, "image embeddings"));
  CHECK(has(engine.plan().host_regions, "image staging"));
}

}  // namespace

TEST_CASE("a device gives the CPU's answers to lines with images") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    ImageModel subject(folder);
    std::vector<engine::Request> requests = drawn_requests(subject);
    const auto cpu = cpu_backend();
    const auto expected = tokens_of(run(*subject.engine_on(*cpu, subject.options({})), requests));
    int64_t replays = 0, overlaps = 0;
    for (int run_number = 0; run_number < 4; ++run_number) {
      const bool small = run_number % 2 == 1;
      Device device({.ahead = run_number == 3 ? 0 : 1, .records = run_number < 2});
      // Small steps, and a cache of embeddings with room for little more than the largest image.
      auto options =
          subject.options(small ? ImageModel::Limits{.batched_tokens = 40, .cache_tokens = 70}
                                : ImageModel::Limits{});
      options.capture_sizes = std::vector<int64_t>{1, 3, 8};
      const auto engine = subject.engine_on(device.backend, options);
      check_regions(*engine);
      for (int round = 0; round < 2; ++round) {
        INFO(subject.name << ", run " << run_number << ", round " << round);
        std::ranges::reverse(requests);
        CHECK(tokens_of(run(*engine, requests)) == expected);
      }
      CHECK(engine->stats().encoded_images > 0);
      CHECK(engine->stats().kv_blocks_used == 0);
      replays += device.backend.replays();
      overlaps += device.backend.overlaps();
    }
    CHECK(replays > 20);
    CHECK(overlaps > 20);
  }
}

TEST_CASE("rows that the host reads have the CPU's bits beside images") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    ImageModel subject(folder);
    const std::vector<engine::Request> requests = subject.requests();
    const auto cpu = cpu_backend();
    const auto expected = run(*subject.engine_on(*cpu, subject.options({})), requests);
    Device device({});
    const auto found = run(*subject.engine_on(device.backend, subject.options({})), requests);
    for (size_t i = 0; i < found.size(); ++i) {
      INFO(subject.name << ", " << subject.known["cases"][i]["name"]);
      REQUIRE_FALSE(found[i].failure);
      REQUIRE(found[i].prompt_logprobs.size() == expected[i].prompt_logprobs.size());
      for (size_t t = 1; t < found[i].prompt_logprobs.size(); ++t) {
        CHECK(found[i].prompt_logprobs[t]->front().logprob ==
              expected[i].prompt_logprobs[t]->front().logprob);
      }
    }
  }
}

// The step could pass for a decode step of one row, but for its embedding.
TEST_CASE("a step of one image's token alone is not a recorded one") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    ImageModel subject(folder);
    if (subject.spec().vision->two_way()) continue;  // an image's tokens are one piece
    std::vector<engine::Request> requests = drawn_requests(subject);
    std::erase_if(requests, [](const engine::Request& r) { return r.images == nullptr; });
    engine::Request request = requests.front();
    const int64_t end = request.images->items.front().runs.front().end();
    auto images = *request.images;
    images.items.resize(1);
    images.items.front().runs.resize(1);
    if (!images.rope_positions.empty()) {
      const auto whole = request.prompt.size(), cut = static_cast<size_t>(end);
      std::vector<int32_t> positions;
      for (size_t kind = 0; kind < 3; ++kind) {
        for (size_t at = 0; at < cut; ++at) {
          positions.push_back(images.rope_positions[kind * whole + at]);
        }
      }
      images.rope_positions = positions;
    }
    request.prompt.resize(static_cast<size_t>(end));
    request.images = std::make_shared<const engine::Images>(std::move(images));
    request.tag = 0;
    const auto cpu = cpu_backend();
    const auto expected = tokens_of(run(*subject.engine_on(*cpu, subject.options({})), {request}));
    Device device({});
    auto options = subject.options({.batched_tokens = end - 1});
    options.max_num_seqs = 1;
    options.capture_sizes = std::vector<int64_t>{1};
    INFO(subject.name);
    CHECK(tokens_of(run(*subject.engine_on(device.backend, options), {request})) == expected);
  }
}
