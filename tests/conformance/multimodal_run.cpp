// Prompts with pictures through the engine against transformers: positions, log probabilities,
// greedy tokens in float32, and the same bits in any company.
#include <catch2/catch.hpp>

#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "conformance/image_golden.h"
#include "engine/engine.h"
#include "engine/vision/picture_processor.h"
#include "engine/vision/rope_positions.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

constexpr int64_t kContext = 512;

class PictureModel {
 public:
  PictureModel(const fs::path& golden, const fs::path& recipe)
      : golden_(golden),
        name(recipe.filename().string()),
        folder_(fs::temp_directory_path() / fmt::format("plimsoll-run-{}-{}", name, getpid())) {
    write_checkpoint(recipe, folder_);
    spec_ = model::make_model_spec(model::read_config(folder_));
    const bool own = spec_.vision->kind == model::VisionKind::internvl;
    settings_ = engine::read_processor_settings(*spec_.vision, own ? folder_ : recipe);
    known = Json::parse(read_maybe_xz(recipe / "golden.json"));
    checkpoint_.emplace(checkpoint::Checkpoint::open(folder_));
  }
  ~PictureModel() { fs::remove_all(folder_); }

  engine::Request request(const Json& c, uint64_t tag) {
    engine::Request request;
    request.tag = tag;
    request.key = c["name"];
    request.prompt = c["prompt_token_ids"].get<Ids>();
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = static_cast<int64_t>(c["greedy_token_ids"].size());
    request.sampling.prompt_logprobs = 0;
    request.sampling.logprobs = 0;
    request.sampling.detokenize = false;
    if (c.contains("placeholder_range")) request.pictures = pictures(c, request.prompt);
    return request;
  }

  struct Limits {
    int64_t batched_tokens = kContext;
    int64_t cache_tokens = kContext;
  };

  std::unique_ptr<engine::Engine> engine(Limits limits) {
    engine::EngineOptions options;
    options.dtype = DType::f32;
    options.max_model_len = kContext;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = limits.batched_tokens;
    options.num_kv_blocks = 512;
    options.pictures = {largest_, limits.cache_tokens};
    return std::make_unique<engine::Engine>(spec_, checkpoint::WeightReader(*checkpoint_, spec_),
                                            *backend_, nullptr, options);
  }

  /// Makes all requests, and with them knows the largest picture.
  std::vector<engine::Request> requests() {
    std::vector<engine::Request> all;
    for (const Json& c : known["cases"]) all.push_back(request(c, all.size()));
    return all;
  }

 private:
  std::shared_ptr<const engine::Pictures> pictures(const Json& c, const Ids& prompt);
  engine::Picture picture(image::Pixels pixels);

  fs::path golden_;

 public:
  std::string name;
  Json known;

 private:
  fs::path folder_;
  model::ModelSpec spec_;
  Json settings_;
  image::Layout largest_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<backend::Backend> backend_ = cpu_backend();
};

engine::Picture PictureModel::picture(image::Pixels pixels) {
  if (pixels.layout.tokens > largest_.tokens) largest_ = pixels.layout;
  const auto bytes = std::as_bytes(std::span(pixels.levels));
  engine::Picture picture{.key = engine::siphash128({}, bytes), .pixels = {}, .runs = {}};
  picture.pixels = std::make_shared<const image::Pixels>(std::move(pixels));
  return picture;
}

std::shared_ptr<const engine::Pictures> PictureModel::pictures(const Json& c, const Ids& prompt) {
  const auto processor = engine::make_picture_processor(
      *spec_.vision, settings_, c.value("mm_processor_kwargs", Json::object()));
  const auto decoded = [&](const Json& file) {
    return image::decode(bytes_of(golden_picture(golden_, file)));
  };
  engine::Pictures result;
  for (const Json& file : c.value("images", Json::array())) {
    result.items.push_back(picture(processor->process(decoded(file))));
  }
  for (const Json& video : c.value("videos", Json::array())) {
    std::vector<image::Image> frames;
    for (const Json& file : video) frames.push_back(decoded(file));
    result.items.push_back(picture(processor->process_video(frames)));
  }
  const auto counts = c["embeddings_per_image"].get<std::vector<int64_t>>();
  const int32_t placeholder = prompt[c["placeholder_range"][0].get<size_t>()];
  const auto runs = engine::find_runs(prompt, placeholder, counts);
  REQUIRE(runs.size() == result.items.size());
  CHECK(runs.back().back().end() == c["placeholder_range"][1].get<int64_t>() + 1);
  std::vector<engine::PictureGrid> grids;
  for (size_t i = 0; i < runs.size(); ++i) {
    result.items[i].runs = runs[i];
    const image::Layout& layout = result.items[i].pixels->layout;
    grids.push_back(
        {.first = runs[i].front().first,
         .frames = layout.frames,
         .rows = layout.rows / spec_.vision->merge,
         .columns = layout.columns / spec_.vision->merge,
         .frame_step = spec_.vision->positions_per_second > 0
                           ? spec_.vision->positions_per_second * c.value("second_per_grid_ts", 1.0)
                           : 1.0});
  }
  result.two_way = spec_.vision->kind == model::VisionKind::gemma3;
  if (c.contains("mrope_positions")) {
    const auto turned = engine::rope_positions(std::ssize(prompt), grids);
    Ids expected;
    for (const Json& kind : c["mrope_positions"]) {
      for (const Json& position : kind) expected.push_back(position);
    }
    CHECK(turned.positions == expected);
    CHECK(turned.delta == c["mrope_position_delta"]);
    result.rope_positions = turned.positions;
    result.rope_delta = turned.delta;
  }
  return std::make_shared<const engine::Pictures>(std::move(result));
}

/// Runs the requests together; outputs by tag.
std::vector<engine::RequestOutput> run(engine::Engine& engine,
                                       const std::vector<engine::Request>& requests) {
  std::vector<engine::RequestOutput> finished, sorted(requests.size());
  for (const engine::Request& request : requests) engine.add(request);
  while (!engine.idle()) engine.step(finished);
  for (engine::RequestOutput& output : finished) {
    const auto at = output.tag;
    sorted[at] = std::move(output);
  }
  return sorted;
}

double check_case(const Json& c, const engine::RequestOutput& output) {
  if (output.failure) FAIL(output.failure->message);
  const auto expected = c["prompt_logprobs"].get<std::vector<double>>();
  REQUIRE(output.prompt_logprobs.size() == expected.size() + 1);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(output.prompt_logprobs[i + 1]->front().logprob - expected[i]);
    INFO("prompt token " << i + 1);
    CHECK(error <= 5e-4 + 5e-5 * std::abs(expected[i]));
    worst = std::max(worst, error);
  }
  const auto greedy = c["greedy_token_ids"].get<Ids>();
  const auto margins = c["greedy_margins"].get<std::vector<double>>();
  for (size_t i = 0; i < greedy.size() && margins[i] >= 0.005; ++i) {
    CHECK(output.completions[0].token_ids[i] == greedy[i]);
  }
  return worst;
}

bool same(const engine::RequestOutput& a, const engine::RequestOutput& b) {
  if (a.completions.size() != 1 || b.completions.size() != 1) return false;
  const engine::Completion &x = a.completions[0], &y = b.completions[0];
  if (x.token_ids != y.token_ids || x.logprobs.size() != y.logprobs.size()) return false;
  for (size_t i = 0; i < x.logprobs.size(); ++i) {
    if (x.logprobs[i].front().logprob != y.logprobs[i].front().logprob) return false;
  }
  return true;
}

std::vector<fs::path> folders() {
  std::vector<fs::path> all;
  const auto golden = golden_folder();
  if (!golden) {
    WARN("skipped: no golden results (PLIMSOLL_GOLDEN)");
    return all;
  }
  for (const auto& entry : fs::directory_iterator(*golden / "multimodal_run")) {
    all.push_back(entry.path());
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

TEST_CASE("prompts with pictures in float32") {
  for (const fs::path& folder : folders()) {
    PictureModel subject(*golden_folder(), folder);
    const auto requests = subject.requests();
    const auto engine = subject.engine({});
    double worst = 0;
    for (const engine::Request& request : requests) {
      const Json& c = subject.known["cases"][request.tag];
      INFO(subject.name << ", " << c["name"]);
      engine::Request alone = request;
      alone.tag = 0;
      worst = std::max(worst, check_case(c, run(*engine, {alone})[0]));
    }
    fmt::print("{:<24} F32   logprobs {:.1e}\n", subject.name, worst);
  }
}

TEST_CASE("an answer to pictures has the same bits in any company, chunk and cache") {
  for (const fs::path& folder : folders()) {
    PictureModel subject(*golden_folder(), folder);
    std::vector<engine::Request> requests = subject.requests();
    for (engine::Request& request : requests) request.sampling.prompt_logprobs.reset();
    std::vector<engine::RequestOutput> alone;
    for (const engine::Request& request : requests) {
      engine::Request one = request;
      one.tag = 0;
      alone.push_back(std::move(run(*subject.engine({}), {one})[0]));
    }
    // Small steps, and a cache of embeddings with room for little more than the largest picture.
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
