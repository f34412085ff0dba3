// Lines with images against transformers: prompts after expansion, positions, log probabilities
// and greedy tokens in float32, and the same bits in any company.
#include <catch2/catch.hpp>

#include "conformance/cpu.h"
#include "conformance/image_model.h"
#include "conformance/rank_parts.h"
#include "conformance/rounded_weights.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

/// Models on the CPU, on ranks too.
class CpuSubject : public ImageModel {
 public:
  using ImageModel::ImageModel;

  /// Lives until the next one is made.
  std::unique_ptr<engine::Engine> engine(const Limits& limits, const Width& width = {}) {
    engine::EngineOptions asked = options(limits);
    asked.tensor_ranks = width.tensor;
    asked.replicas = width.replicas;
    parts_.emplace(spec(), weights(), width, limits.dtype);
    return std::make_unique<engine::Engine>(spec(), parts_->ranks(), nullptr, asked);
  }

  [[nodiscard]] bool has_width(const Width& width) const {
    try {
      (void)shard::stage_models(
          spec(), {.tensor_parallel = width.tensor, .pipeline_parallel = width.stages});
      return true;
    } catch (const Error& error) {  // stages, that is: vLLM has none of some classes
      CHECK((width.stages > 1 &&
             std::string(error.what()).find("has no stages") != std::string::npos));
      return false;
    }
  }

 private:
  std::optional<RankParts> parts_;  // of the last engine
};

bool same(const engine::RequestOutput& a, const engine::RequestOutput& b) {
  if (a.completions.size() != 1 || b.completions.size() != 1) return false;
  const engine::Completion &x = a.completions[0], &y = b.completions[0];
  if (x.token_ids != y.token_ids || x.logprobs.size() != y.logprobs.size()) return false;
  for (size_t i = 0; i < x.logprobs.size(); ++i) {
    if (x.logprobs[i].front().logprob != y.logprobs[i].front().logprob) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("prompts with images in float32") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject subject(folder);
    const auto requests = subject.requests();
    const auto engine = subject.engine({});
    double worst = 0;
    for (const engine::Request& request : requests) {
      const OrderedJson& c = subject.known["cases"][request.tag];
      INFO(subject.name << ", " << c["name"]);
      engine::Request alone = request;
      alone.tag = 0;
      worst = std::max(worst, check_case(c, run(*engine, {alone})[0]));
    }
    fmt::print("{:<24} F32   logprobs {:.1e}\n", subject.name, worst);
  }
}

TEST_CASE("prompts with images in the stored half type") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject subject(folder);
    const auto requests = subject.requests();
    const auto engine = subject.engine({.dtype = subject.stored()});
    double logit_error = 0, worst = 0;
    for (const OrderedJson& c : subject.known["cases"]) {
      logit_error =
          std::max(logit_error, c["half_precision_reference"]["max_abs_logit_error"].get<double>());
    }
    for (const engine::Request& request : requests) {
      const OrderedJson& c = subject.known["cases"][request.tag];
      INFO(subject.name << ", " << c["name"]);
      engine::Request alone = request;
      alone.tag = 0;
      worst = std::max(worst, check_half(c, run(*engine, {alone})[0], logit_error));
    }
    fmt::print("{:<24} {:<5} median of logprobs {:.2f}\n", subject.name,
               safetensors_name(subject.stored()), worst);
  }
}

TEST_CASE("an answer to images has the same bits in any company, chunk and cache") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject subject(folder);
    std::vector<engine::Request> requests = subject.requests();
    for (engine::Request& request : requests) request.sampling.prompt_logprobs.reset();
    std::vector<engine::RequestOutput> alone;
    for (const engine::Request& request : requests) {
      engine::Request one = request;
      one.tag = 0;
      alone.push_back(std::move(run(*subject.engine({}), {one})[0]));
    }
    // Small steps, and a cache of embeddings with room for little more than the largest image.
    const auto engine = subject.engine({.batched_tokens = 40, .cache_tokens = 70});
    for (int round = 0; round < 2; ++round) {
      std::ranges::reverse(requests);
      const auto together = run(*engine, requests);
      for (size_t i = 0; i < together.size(); ++i) {
        INFO(subject.name << ", " << subject.known["cases"][i]["name"] << ", round " << round);
        CHECK(same(together[i], alone[i]));
      }
    }
    CHECK(engine->stats().cached_prompt_tokens > 0);
  }
}

TEST_CASE("ranks answer lines with images with the bits of one rank") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject subject(folder);
    std::vector<engine::Request> requests = subject.requests();
    for (engine::Request& request : requests) request.sampling.prompt_logprobs.reset();
    for (const DType dtype : {DType::f32, subject.stored()}) {
      const auto alone = run(*subject.engine({.dtype = dtype}), requests);
      for (const Width& width : {Width{.tensor = 2}, Width{.tensor = 2, .replicas = 2},
                                 Width{.tensor = 2, .stages = 2}, Width{.stages = 2}}) {
        if (!subject.has_width(width) || (dtype != DType::f32 && width.replicas > 1)) continue;
        const auto engine = subject.engine({.cache_tokens = 70, .dtype = dtype}, width);
        for (size_t rank = 0; rank < engine->ranks(); ++rank) {
          for (const engine::MeasuredRegion& region : engine->measured(rank)) {
            CHECK(region.placed_bytes == region.planned_bytes);
          }
        }
        const auto shared = run(*engine, requests);
        for (size_t i = 0; i < shared.size(); ++i) {
          INFO(subject.name << ", " << subject.known["cases"][i]["name"] << ", " << width.tensor
                            << " x " << width.stages << " ranks");
          CHECK(same(shared[i], alone[i]));
        }
      }
    }
  }
}

TEST_CASE("embeddings of many images are kept where nobody says how many") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject subject(folder);
    (void)subject.requests();  // which know the largest image
    const auto kept = [&](int64_t tokens) {
      const auto engine = subject.engine({.cache_tokens = tokens});
      const auto& regions = engine->plan().regions;
      return std::ranges::find(regions, "image embeddings", &memory::Region::name)->bytes;
    };
    CHECK(kept(0) >= 50 * kept(1));  // at least one
  }
}

TEST_CASE("layers of models that see are stored in fp8, their towers' too") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    CpuSubject stored(folder, [](const fs::path& written) {
      const TempFolder plain;
      for (const char* name : {"config.json", "model.safetensors"})
        fs::copy_file(written / name, plain.path / name);
      write_rounded(plain.path, written);
    });
    const std::vector<engine::Request> requests = stored.requests();
    const auto found = run(*stored.engine({}), requests);
    const std::set<std::string> names = packed_weights(stored.spec());
    const auto towers = std::ranges::count_if(stored.spec().towers, &model::WeightSpec::is_packed);
    INFO(stored.name << ": " << names.size() << " of fp8, " << towers << " in towers");
    CHECK(towers > 4);
    CHECK(std::ssize(names) > towers + 4);
    CpuSubject plain(folder);
    (void)plain.requests();  // which know the largest image
    const RoundedRows rounded(plain.weights(), names);
    const auto cpu = cpu_backend();
    engine::Engine engine(plain.spec(), rounded, *cpu, nullptr, plain.options({}));
    const auto expected = run(engine, requests);
    double worst = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      INFO(requests[i].key);
      REQUIRE_FALSE(found[i].failure);
      CHECK(found[i].completions[0].token_ids == expected[i].completions[0].token_ids);
      for (size_t at = 1; at < found[i].prompt_logprobs.size(); ++at) {
        worst = std::max(worst, std::abs(double{found[i].prompt_logprobs[at]->front().logprob} -
                                         expected[i].prompt_logprobs[at]->front().logprob));
      }
    }
    // The weights are equal, and only summed up in another order: the golden results' own
    // tolerance.
    CHECK(worst <= 5e-4);
    fmt::print("{:<24} fp8   logprobs {:.1e}\n", stored.name, worst);
  }
}
