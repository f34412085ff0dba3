// Lines with pictures against transformers: prompts after expansion, positions, log probabilities
// and greedy tokens in float32, and the same bits in any company.
#include <catch2/catch.hpp>

#include "batch/prompt_builder.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "conformance/picture_lines.h"
#include "conformance/rank_parts.h"
#include "engine/engine.h"
#include "engine/vision/picture_processor.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

constexpr int64_t kContext = 512;

class PictureModel {
 public:
  explicit PictureModel(const fs::path& recipe)
      : name(recipe.filename().string()),
        known(parse_json<OrderedJson>(read_maybe_xz(recipe / "golden.json"))),
        pictures_(pictures_folder()),
        folder_(fs::temp_directory_path() / fmt::format("plimsoll-run-{}-{}", name, getpid())),
        tokenizer_(text::Tokenizer::load(recipe)) {
    write_checkpoint(recipe, folder_);
    spec_ = model::make_model_spec(model::read_config(folder_));
    batch::PictureRules rules;
    rules.vision = spec_.vision;
    const bool own = spec_.vision->kind == model::VisionKind::internvl;
    rules.settings = engine::read_processor_settings(*spec_.vision, own ? folder_ : recipe);
    rules.most_images = rules.most_videos = 8;
    rules.allowed_folder = pictures_.string();
    batch::ChatOptions chat;
    chat.templates = text::folder_templates(recipe);
    chat.special_tokens = text::special_token_texts(recipe);
    builder_.emplace(
        batch::PromptOptions{.tokenizer = &tokenizer_,
                             .max_model_len = kContext,
                             .pictures = std::make_shared<batch::PictureLoader>(rules)},
        chat);
    checkpoint_.emplace(checkpoint::Checkpoint::open(folder_));
    reader_.emplace(*checkpoint_, spec_);
  }
  ~PictureModel() { fs::remove_all(folder_); }

  struct Limits {
    int64_t batched_tokens = kContext;
    int64_t cache_tokens = kContext;
    DType dtype = DType::f32;
    Width width{};
  };
  [[nodiscard]] DType stored() const { return spec_.dtype; }

  /// Lives until the next one is made.
  std::unique_ptr<engine::Engine> engine(Limits limits) {
    engine::EngineOptions options;
    options.dtype = limits.dtype;
    options.max_model_len = kContext;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = limits.batched_tokens;
    options.num_kv_blocks = 512;
    options.pictures = engine::PictureOptions{layouts_, limits.cache_tokens};
    options.tensor_ranks = limits.width.tensor;
    options.copies = limits.width.copies;
    parts_.emplace(spec_, *reader_, limits.width, limits.dtype);
    return std::make_unique<engine::Engine>(spec_, parts_->ranks(), nullptr, options);
  }

  [[nodiscard]] bool has_width(const Width& width) const {
    try {
      (void)shard::stage_models(
          spec_, {.tensor_parallel = width.tensor, .pipeline_parallel = width.stages});
      return true;
    } catch (const Error& error) {  // stages, that is: vLLM has none of some classes
      CHECK((width.stages > 1 &&
             std::string(error.what()).find("has no stages") != std::string::npos));
      return false;
    }
  }

  /// Makes all requests as lines of a batch, and with them knows the largest picture.
  std::vector<engine::Request> requests() {
    std::vector<engine::Request> all;
    for (const OrderedJson& c : known["cases"]) all.push_back(request(c, all.size()));
    return all;
  }

  std::string name;
  OrderedJson known;

 private:
  engine::Request request(const OrderedJson& c, uint64_t tag);
  void check_pictures(const OrderedJson& c, const engine::Request& request);

  fs::path pictures_, folder_;
  text::Tokenizer tokenizer_;
  model::ModelSpec spec_;
  std::vector<image::Layout> layouts_;  // of the cases' pictures, the largest first
  std::optional<batch::PromptBuilder> builder_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::optional<checkpoint::WeightReader> reader_;
  std::optional<RankParts> parts_;  // of the last engine
};

engine::Request PictureModel::request(const OrderedJson& c, uint64_t tag) {
  INFO(name << ", " << c["name"]);
  batch::LineHead head;
  head.number = 1;
  const OrderedJson body = picture_line(c, pictures_);
  head.endpoint = body.contains("messages") ? batch::Endpoint::chat : batch::Endpoint::completions;
  const batch::LineRequest asked =
      batch::read_request(head, body, {}, {.vocab_size = spec_.vocab_size},
                          [](std::string_view field, std::string_view) { FAIL(field); });
  const batch::BuiltRequest built = builder_->build(head, asked);
  engine::Request request;
  request.tag = tag;
  request.key = c["name"].get<std::string>();
  request.prompt = built.prompts.front().parts.front();
  request.pictures = built.prompts.front().pictures;
  CHECK(request.prompt == c["prompt_token_ids"].get<Ids>());
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = static_cast<int64_t>(c["greedy_token_ids"].size());
  request.sampling.prompt_logprobs = 0;
  request.sampling.logprobs = 0;
  request.sampling.detokenize = false;
  REQUIRE((request.pictures != nullptr) == c.contains("placeholder_range"));
  if (request.pictures) check_pictures(c, request);
  return request;
}

void PictureModel::check_pictures(const OrderedJson& c, const engine::Request& request) {
  const engine::Pictures& pictures = *request.pictures;
  std::vector<int64_t> counts;
  for (const engine::Picture& picture : pictures.items) {
    counts.push_back(picture.tokens());
    layouts_.push_back(picture.pixels->layout);
  }
  std::ranges::sort(layouts_, std::ranges::greater{}, &image::Layout::tokens);
  CHECK(counts == c["embeddings_per_image"].get<std::vector<int64_t>>());
  CHECK(pictures.items.front().runs.front().first == c["placeholder_range"][0]);
  CHECK(pictures.items.back().runs.back().end() == c["placeholder_range"][1].get<int64_t>() + 1);
  if (!c.contains("mrope_positions")) return;
  Ids expected;
  for (const OrderedJson& kind : c["mrope_positions"]) {
    for (const OrderedJson& position : kind) expected.push_back(position.get<int32_t>());
  }
  CHECK(pictures.rope_positions == expected);
  CHECK(pictures.rope_delta == c["mrope_position_delta"]);
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

double check_case(const OrderedJson& c, const engine::RequestOutput& output) {
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

/// The rules of golden/README.md for 16-bit arithmetic: the median error of log probabilities, and
/// greedy tokens up to the first close race.
double check_half(const OrderedJson& c, const engine::RequestOutput& output, double logit_error) {
  if (output.failure) FAIL(output.failure->message);
  const auto expected = c["prompt_logprobs"].get<std::vector<double>>();
  std::vector<double> errors;
  for (size_t i = 0; i < expected.size(); ++i) {
    errors.push_back(std::abs(output.prompt_logprobs[i + 1]->front().logprob - expected[i]));
  }
  std::ranges::nth_element(errors, errors.begin() + std::ssize(errors) / 2);
  const double median = errors[errors.size() / 2];
  CHECK(median <= 0.5);
  const auto greedy = c["greedy_token_ids"].get<Ids>();
  const auto margins = c["greedy_margins"].get<std::vector<double>>();
  for (size_t i = 0; i < greedy.size() && margins[i] >= 1.5 * logit_error; ++i) {
    CHECK(output.completions[0].token_ids[i] == greedy[i]);
  }
  return median;
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

}  // namespace

TEST_CASE("prompts with pictures in float32") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    PictureModel subject(folder);
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

TEST_CASE("prompts with pictures in the stored half type") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    PictureModel subject(folder);
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

TEST_CASE("an answer to pictures has the same bits in any company, chunk and cache") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    PictureModel subject(folder);
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

TEST_CASE("ranks answer lines with pictures with the bits of one rank") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    PictureModel subject(folder);
    std::vector<engine::Request> requests = subject.requests();
    for (engine::Request& request : requests) request.sampling.prompt_logprobs.reset();
    for (const DType dtype : {DType::f32, subject.stored()}) {
      const auto alone = run(*subject.engine({.dtype = dtype}), requests);
      for (const Width& width : {Width{.tensor = 2}, Width{.tensor = 2, .copies = 2},
                                 Width{.tensor = 2, .stages = 2}, Width{.stages = 2}}) {
        if (!subject.has_width(width) || (dtype != DType::f32 && width.copies > 1)) continue;
        const auto engine = subject.engine({.cache_tokens = 70, .dtype = dtype, .width = width});
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

TEST_CASE("embeddings of many pictures are kept where nobody says how many") {
  for (const fs::path& folder : model_folders("multimodal_run")) {
    PictureModel subject(folder);
    (void)subject.requests();  // which know the largest picture
    const auto kept = [&](int64_t tokens) {
      const auto engine = subject.engine({.cache_tokens = tokens});
      const auto& regions = engine->plan().regions;
      return std::ranges::find(regions, "picture embeddings", &memory::Region::name)->bytes;
    };
    CHECK(kept(0) >= 50 * kept(1));  // at least one
  }
}
