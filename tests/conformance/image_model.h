// Tiny models with a vision tower, with lines of a batch and transformers' answers.
#pragma once

#include <catch2/catch.hpp>
#include <functional>

#include "batch/prompt_builder.h"
#include "conformance/golden_models.h"
#include "conformance/image_lines.h"
#include "engine/engine.h"
#include "engine/vision/image_processor.h"

namespace plimsoll::testing {

inline constexpr int64_t kContext = 512;

class ImageModel {
 public:
  /// `change` is called with the written checkpoint's folder before it is read.
  explicit ImageModel(
      const fs::path& recipe,
      const std::function<void(const fs::path&)>& change = [](const auto&) {})
      : name(recipe.filename().string()),
        known(parse_json<OrderedJson>(read_maybe_xz(recipe / "golden.json"))),
        images_(images_folder()),
        folder_(fs::temp_directory_path() / fmt::format("plimsoll-run-{}-{}", name, getpid())),
        tokenizer_(text::Tokenizer::load(recipe)) {
    write_checkpoint(recipe, folder_);
    change(folder_);
    const Json config = model::read_config(folder_);
    spec_ = model::make_model_spec(config);
    checkpoint_.emplace(checkpoint::Checkpoint::open(folder_));
    checkpoint::resolve_stored(*checkpoint_, spec_);
    checkpoint::resolve_kept(config, &*checkpoint_,
                             {.activations = quantization::Activations::whole}, spec_);
    reader_.emplace(*checkpoint_, spec_);
    batch::ImageRules rules;
    rules.vision = spec_.vision;
    const bool own = spec_.vision->kind == model::VisionKind::internvl;
    rules.settings = engine::read_processor_settings(*spec_.vision, own ? folder_ : recipe);
    rules.most_images = rules.most_videos = 8;
    rules.allowed_folder = images_.string();
    batch::ChatOptions chat;
    chat.templates = text::folder_templates(recipe);
    chat.special_tokens = text::special_token_texts(recipe);
    builder_.emplace(batch::PromptOptions{.tokenizer = &tokenizer_,
                                          .max_model_len = kContext,
                                          .images = std::make_shared<batch::ImageLoader>(rules)},
                     chat);
  }
  ~ImageModel() { fs::remove_all(folder_); }

  struct Limits {
    int64_t batched_tokens = kContext;
    int64_t cache_tokens = kContext;
    DType dtype = DType::f32;
  };
  [[nodiscard]] DType stored() const { return spec_.dtype; }
  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  [[nodiscard]] const checkpoint::WeightReader& weights() const { return *reader_; }

  [[nodiscard]] engine::EngineOptions options(const Limits& limits) const {
    engine::EngineOptions options;
    options.dtype = limits.dtype;
    options.max_model_len = kContext;
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = limits.batched_tokens;
    options.num_kv_blocks = 512;
    options.images = engine::ImageOptions{layouts_, limits.cache_tokens};
    return options;
  }
  /// The backend outlives it.
  [[nodiscard]] std::unique_ptr<engine::Engine> engine_on(
      backend::Backend& backend, const engine::EngineOptions& options) const {
    return std::make_unique<engine::Engine>(spec_, *reader_, backend, nullptr, options);
  }

  /// Makes requests of the cases as lines of a batch, which also determines the largest image.
  /// Tags are places among all cases; `only` names the wanted ones, none: all.
  std::vector<engine::Request> requests(const std::vector<std::string>& only = {}) {
    std::vector<engine::Request> made;
    for (size_t i = 0; i < known["cases"].size(); ++i) {
      const OrderedJson& c = known["cases"][i];
      const bool wanted =
          only.empty() || std::ranges::find(only, c["name"].get<std::string>()) != only.end();
      if (wanted) made.push_back(request(c, i));
    }
    return made;
  }

  std::string name;
  OrderedJson known;

 private:
  engine::Request request(const OrderedJson& c, uint64_t tag);
  void check_images(const OrderedJson& c, const engine::Request& request);

  fs::path images_, folder_;
  text::Tokenizer tokenizer_;
  model::ModelSpec spec_;
  std::vector<image::Layout> layouts_;  // of the cases' images, the largest first
  std::optional<batch::PromptBuilder> builder_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::optional<checkpoint::WeightReader> reader_;
};

inline engine::Request ImageModel::request(const OrderedJson& c, uint64_t tag) {
  INFO(name << ", " << c["name"]);
  batch::LineHead head;
  head.number = 1;
  const OrderedJson body = image_line(c, images_);
  head.endpoint = body.contains("messages") ? batch::Endpoint::chat : batch::Endpoint::completions;
  const batch::LineRequest asked =
      batch::read_request(head, body, {}, {.vocab_size = spec_.vocab_size},
                          [](std::string_view field, std::string_view) { FAIL(field); });
  const batch::BuiltRequest built = builder_->build(head, asked);
  engine::Request request;
  request.tag = tag;
  request.key = c["name"].get<std::string>();
  request.prompt = built.prompts.front().parts.front();
  request.images = built.prompts.front().images;
  CHECK(request.prompt == c["prompt_token_ids"].get<Ids>());
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = static_cast<int64_t>(c["greedy_token_ids"].size());
  request.sampling.prompt_logprobs = 0;
  request.sampling.logprobs = 0;
  request.sampling.detokenize = false;
  REQUIRE((request.images != nullptr) == c.contains("placeholder_range"));
  if (request.images) check_images(c, request);
  return request;
}

inline void ImageModel::check_images(const OrderedJson& c, const engine::Request& request) {
  const engine::Images& images = *request.images;
  std::vector<int64_t> counts;
  for (const engine::Image& image : images.items) {
    counts.push_back(image.tokens());
    layouts_.push_back(image.pixels->layout);
  }
  std::ranges::sort(layouts_, std::ranges::greater{}, &image::Layout::tokens);
  CHECK(counts == c["embeddings_per_image"].get<std::vector<int64_t>>());
  CHECK(images.items.front().runs.front().first == c["placeholder_range"][0]);
  CHECK(images.items.back().runs.back().end() == c["placeholder_range"][1].get<int64_t>() + 1);
  if (!c.contains("mrope_positions")) return;
  Ids expected;
  for (const OrderedJson& kind : c["mrope_positions"]) {
    for (const OrderedJson& position : kind) expected.push_back(position.get<int32_t>());
  }
  CHECK(images.rope_positions == expected);
  CHECK(images.rope_delta == c["mrope_position_delta"]);
}

/// Runs the requests together; outputs by tag.
inline std::vector<engine::RequestOutput> run(engine::Engine& engine,
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

inline double check_case(const OrderedJson& c, const engine::RequestOutput& output) {
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

/// Checks by the rules of golden/README.md for 16-bit arithmetic: the median error of log
/// probabilities, and greedy tokens up to the first close race.
inline double check_half(const OrderedJson& c, const engine::RequestOutput& output,
                         double logit_error) {
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

}  // namespace plimsoll::testing
