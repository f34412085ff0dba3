// Lines with images on a device, against transformers; in emulation where the program is built
// so.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/cuda/footprint.h"
#include "backend/device.h"
#include "conformance/image_model.h"
#include "device/on_device.h"
#include "kernels/runtime/device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#include "emulation/streams.h"
#endif

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

enum class Numbers : uint8_t { float32, stored };

/// Cases of a family that are asked.
struct Part {
  std::string family;
  std::vector<std::string> cases;  // none: all
};

/// The emulator takes seconds for each line: unless it does everything it does one family and a few
/// cases, whose answers end early.
[[maybe_unused]] const std::vector<std::string> kEmulatedCases{"one_image", "twice", "wide",
                                                               "video_4_frames"};

/// Kernels start before the ones ahead have ended, and copies when they are waited for: what is
/// read or written too early shows.
class StrictStreams {
 public:
#ifdef PLIMSOLL_EMULATION
  StrictStreams() {
    emulation::set_streams(emulation::Streams::when_awaited);
    emulation::card = emulation::kHopper;
  }
  ~StrictStreams() {
    emulation::set_streams(emulation::Streams::at_once);
    emulation::card = {};
  }
#else
  StrictStreams() = default;
#endif
  StrictStreams(const StrictStreams&) = delete;
  StrictStreams& operator=(const StrictStreams&) = delete;
};

/// A plan for such a card, made without one, is what the launch took.
void check_plan(const engine::Engine& engine, const ImageModel& subject,
                engine::EngineOptions options) {
  const backend::DeviceInfo card = backend::list_devices().front();
  const backend::CudaFootprint sizes(
      {.compute_capability = card.compute_capability, .processors = card.processors});
  const engine::EnginePlan plan = engine::plan_engine(subject.spec(), options, sizes);
  CHECK(plan.regions == engine.plan().regions);
  CHECK(plan.host_regions == engine.plan().host_regions);
  for (const engine::MeasuredRegion& region : engine.measured(0)) {
    INFO(region.name);
    CHECK(region.placed_bytes == region.planned_bytes);
  }
  const auto bytes_of = [](const engine::EnginePlan& of, std::string_view name) {
    const auto found = std::ranges::find(of.regions, name, &memory::Region::name);
    return found == of.regions.end() ? size_t{0} : found->bytes;
  };
  CHECK(bytes_of(plan, "vision weights") > 0);
  CHECK(bytes_of(plan, "image embeddings") > 0);
  options.images.reset();
  const engine::EnginePlan blind = engine::plan_engine(subject.spec(), options, sizes);
  CHECK(bytes_of(blind, "vision weights") == 0);
  CHECK(bytes_of(blind, "image embeddings") == 0);
  CHECK(blind.host_bytes < plan.host_bytes);
}

void shorten([[maybe_unused]] engine::Request& request, [[maybe_unused]] OrderedJson& known) {
#ifdef PLIMSOLL_EMULATION
  constexpr int64_t kTokens = 5;
  request.sampling.max_tokens = std::min(request.sampling.max_tokens, kTokens);
  OrderedJson& greedy = known["greedy_token_ids"];
  greedy.erase(greedy.begin() + kTokens, greedy.end());
#endif
}

void check_images(const fs::path& folder, const std::vector<std::string>& cases, Numbers numbers) {
  ImageModel subject(folder);
  const bool half = numbers == Numbers::stored;
  const DType dtype = half ? subject.stored() : DType::f32;
  const std::vector<engine::Request> requests = subject.requests(cases);
  double logit_error = 0, worst = 0;
  for (OrderedJson& c : subject.known["cases"]) {
    logit_error =
        std::max(logit_error, c["half_precision_reference"]["max_abs_logit_error"].get<double>());
  }
  [[maybe_unused]] const StrictStreams streams;
  const auto device = backend::make_device_backend({.index = 0, .threads = 2});
  int64_t longest = 0;
  for (const engine::Request& request : requests) {
    longest = std::max(longest, std::ssize(request.prompt));
  }
  auto options = subject.options({.batched_tokens = longest, .dtype = dtype});
  options.max_num_seqs = 2;
  options.capture_sizes = std::vector<int64_t>{1};
  const auto engine = subject.engine_on(*device, options);
  check_plan(*engine, subject, options);
  for (const engine::Request& request : requests) {
    OrderedJson c = subject.known["cases"][request.tag];
    INFO(subject.name << ", " << c["name"]);
    engine::Request alone = request;
    alone.tag = 0;
    shorten(alone, c);
    // First as the device draws, in recorded steps, then with rows that the host reads.
    engine::Request drawn = alone;
    drawn.sampling.prompt_logprobs.reset();
    drawn.sampling.logprobs.reset();
    const auto by_device = run(*engine, {drawn})[0];
    const auto by_host = run(*engine, {alone})[0];
    worst = std::max(worst, half ? check_half(c, by_host, logit_error) : check_case(c, by_host));
    REQUIRE_FALSE(by_device.failure);
    const auto margins = c["greedy_margins"].get<std::vector<double>>();
    const double close = half ? 1.5 * logit_error : 0.005;
    const auto& tokens = by_device.completions[0].token_ids;
    for (size_t i = 0; i < tokens.size() && margins[i] >= close; ++i) {
      CHECK(tokens[i] == c["greedy_token_ids"][i]);
    }
  }
  // No memory was taken from the device or pinned since the launch, and no kernel was new.
  CHECK(kernels::allocations_since_seal() == kernels::AllocationCount{});
  fmt::print("{:<24} {:<5} {} {:.1e}\n", subject.name, safetensors_name(dtype),
             half ? "median of logprobs" : "logprobs", worst);
  for (const std::string& note : backend::device_notes(*device)) fmt::print("    {}\n", note);
}

/// All families, or in the emulator the one.
void check_families([[maybe_unused]] const Part& alone, Numbers numbers) {
  if (!has_device()) return;
  for (const fs::path& folder : model_folders("multimodal_run")) {
#ifdef PLIMSOLL_EMULATION
    const bool is_asked = folder.filename() == alone.family;
    if (!is_asked && !does_everything()) continue;
    check_images(folder, does_everything() ? kEmulatedCases : alone.cases, numbers);
#else
    check_images(folder, {}, numbers);
#endif
  }
}

}  // namespace

TEST_CASE("lines with images in float32 on a device") {
  check_families({"qwen2_5_vl", {"one_image", "video_2_frames"}}, Numbers::float32);
}

TEST_CASE("lines with images in the stored half type on a device") {
  check_families({"gemma3", {"one_image"}}, Numbers::stored);
}
