// Greedy answers of real chat models against transformers, through the public classes: template,
// tokenizer, engine. Float32 on the BF16 weights: everything is equal up to the first near tie.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "conformance/cpu.h"
#include "conformance/golden.h"
#include "engine/engine.h"
#include "model/config.h"
#include "skipped.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fs = std::filesystem;
using namespace plimsoll;
using Ids = std::vector<int32_t>;

namespace {

constexpr double kNearTie = 0.01;

fs::path results_folder() {
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden";
  return testing::golden_folder().value_or(own) / "real";
}

bool is_smollm2(const std::string& model) {
  return model.starts_with("SmolLM2");
}

/// SmolLM2 is where $PLIMSOLL_SMOLLM2 says; other models are samples.
std::optional<fs::path> model_folder(const std::string& model) {
  if (is_smollm2(model)) {
    const char* named = std::getenv("PLIMSOLL_SMOLLM2");
    return named ? std::optional<fs::path>(named) : std::nullopt;
  }
  for (const fs::path& folder :
       {fs::path(PLIMSOLL_SOURCE_DIR) / "samples" / model, results_folder() / "../.." / model}) {
    if (fs::exists(folder / "config.json")) return folder;
  }
  return std::nullopt;
}

/// A model folder with all that answers a conversation.
class ChatModel {
 public:
  explicit ChatModel(const fs::path& folder)
      : spec_(model::make_model_spec(model::read_config(folder))),
        tokenizer_(text::Tokenizer::load(folder)),
        template_(text::ChatTemplate::parse(
            text::choose_template(text::folder_templates(folder), "", false))),
        special_tokens_(text::special_token_texts(folder)),
        backend_(testing::cpu_backend()) {
    const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(folder);
    engine::EngineOptions options;
    options.dtype = DType::f32;
    options.max_model_len = std::min<int64_t>(spec_.max_position, 2048);
    options.eos_token_ids =
        model::read_generation_config(folder, model::read_config(folder)).eos_token_ids;
    engine_.emplace(spec_, checkpoint::WeightReader(checkpoint, spec_), *backend_, &tokenizer_,
                    options);
  }

  [[nodiscard]] std::string render(const Json& messages) const {
    text::ChatInput input;
    input.messages = OrderedJson::parse(messages.dump());
    input.add_generation_prompt = true;
    input.special_tokens = special_tokens_;
    return template_.render(input);
  }
  [[nodiscard]] Ids encode(const std::string& text) const {
    return tokenizer_.encode(text, text::AddSpecials::no);
  }

  /// Greedy answers to all prompts, run together; by index.
  std::vector<engine::RequestOutput> answer(const std::vector<Ids>& prompts, int64_t max_tokens) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      engine::Request request;
      request.tag = i;
      request.key = std::to_string(i);
      request.prompt = prompts[i];
      request.sampling.temperature = 0;
      request.sampling.max_tokens = max_tokens;
      request.sampling.prompt_logprobs = 0;
      engine_->add(std::move(request));
    }
    std::vector<engine::RequestOutput> finished;
    while (!engine_->idle()) engine_->step(finished);
    std::vector<engine::RequestOutput> answers(prompts.size());
    for (engine::RequestOutput& output : finished) answers.at(output.tag) = std::move(output);
    return answers;
  }

 private:
  model::ModelSpec spec_;
  text::Tokenizer tokenizer_;
  text::ChatTemplate template_;
  std::map<std::string, std::string> special_tokens_;
  std::unique_ptr<backend::Backend> backend_;
  std::optional<engine::Engine> engine_;
};

void check_prompt_logprobs(const engine::RequestOutput& found, const Json& expected) {
  REQUIRE(found.prompt_logprobs.size() == expected.size() + 1);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("prompt token " << i + 1);
    const auto& position = found.prompt_logprobs[i + 1];
    REQUIRE(position.has_value());
    const auto value = expected[i].get<double>();
    CHECK(std::abs(static_cast<double>(position->front().logprob) - value) <=
          5e-4 + 5e-5 * std::abs(value));
  }
}

void check_completion(const engine::RequestOutput& found, const Json& expected) {
  REQUIRE(found.completions.size() == 1);
  const engine::Completion& completion = found.completions.front();
  const auto ids = expected.at("greedy_token_ids").get<Ids>();
  const auto margins = expected.at("greedy_margins").get<std::vector<double>>();
  const auto tie =
      std::find_if(margins.begin(), margins.end(), [](double margin) { return margin < kNearTie; });
  if (tie != margins.end()) {
    const auto sure = tie - margins.begin();
    REQUIRE(completion.token_ids.size() >= static_cast<size_t>(sure));
    CHECK(Ids(completion.token_ids.begin(), completion.token_ids.begin() + sure) ==
          Ids(ids.begin(), ids.begin() + sure));
    return;
  }
  CHECK(completion.token_ids == ids);
  CHECK(completion.text == expected.at("text").get<std::string>());
  const bool stopped = completion.finish == engine::FinishReason::stop;
  CHECK((stopped ? "stop" : "length") == expected.at("finish_reason").get<std::string>());
}

void check_model(const fs::path& folder, const Json& golden) {
  ChatModel model(folder);
  const Json& cases = golden.at("cases");
  std::vector<Ids> prompts;
  for (const Json& c : cases) {
    const std::string rendered = model.render(c.at("messages"));
    CHECK(rendered == c.at("rendered").get<std::string>());
    prompts.push_back(model.encode(rendered));
    CHECK(prompts.back() == c.at("prompt_token_ids").get<Ids>());
  }
  const auto answers = model.answer(prompts, golden.at("max_tokens").get<int64_t>());
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    CHECK_FALSE(answers[i].failure.has_value());
    check_prompt_logprobs(answers[i], cases[i].at("prompt_logprobs"));
    check_completion(answers[i], cases[i]);
  }
}

/// Compares with the golden results of the models that `is_chosen` by name.
void check_models(const std::function<bool(const std::string&)>& is_chosen) {
  if (!fs::is_directory(results_folder())) {
    testing::skip("there is no folder " + results_folder().string());
    return;
  }
  bool are_there = false;
  for (const auto& entry : fs::directory_iterator(results_folder())) {
    const Json golden = parse_json(testing::read_maybe_xz(entry.path()));
    const auto name = golden.at("model").get<std::string>();
    if (!is_chosen(name)) continue;
    are_there = true;
    const std::optional<fs::path> folder = model_folder(name);
    if (!folder) {
      testing::skip(name + ": its folder is not here (PLIMSOLL_SMOLLM2 names SmolLM2's)");
      continue;
    }
    INFO(name);
    check_model(*folder, golden);
    fmt::print("{}: {} conversations\n", name, golden.at("cases").size());
  }
  if (!are_there) testing::skip("no results of these models in " + results_folder().string());
}

}  // namespace

TEST_CASE("samples answer as transformers does") {
  check_models([](const std::string& name) { return !is_smollm2(name); });
}

TEST_CASE("SmolLM2 answers as transformers does", "[smollm2]") {
  check_models(is_smollm2);
}
