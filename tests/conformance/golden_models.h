// Tiny models of every family against transformers: logits, log probabilities and greedy tokens.
// The rules of what counts as a pass are golden/README.md's.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/read_model.h"
#include "checkpoint/resolve_model.h"
#include "conformance/golden.h"
#include "conformance/model_runner.h"
#include "like_cases.h"
#include "model/config.h"
#include "reference/gguf_bytes.h"
#include "reference/gguf_tokenizer.h"
#include "reference/recipe.h"
#include "skipped.h"

namespace plimsoll::testing {

namespace fs = std::filesystem;
using Logits = std::vector<float>;
using Ids = std::vector<int32_t>;

struct Case {
  Ids prompt;
  std::vector<double> prompt_logprobs;
  std::vector<double> last_logits;
  Ids greedy;
  std::vector<double> margins;
  double half_logit_error = 0;
  double half_relative_error = 0;
  double half_median_error = 0;  // of log probabilities; 0: not told

  [[nodiscard]] int64_t length() const {
    return static_cast<int64_t>(prompt.size() + greedy.size());
  }
};

struct Golden {
  std::string name;
  std::vector<Case> cases;
  double smallest_router_margin = 1;  // of the last that was chosen before the first that was not

  explicit Golden(const fs::path& folder) : name(folder.filename().string()) {
    const Json file = parse_json(read_maybe_xz(folder / "golden.json"));
    smallest_router_margin = file.value("smallest_router_margin", smallest_router_margin);
    for (const Json& from : file.at("cases")) {
      static const Json none = {{"max_abs_logit_error", 0}, {"relative_error", 0}};
      const Json& half = from.value("half_precision_reference", none);
      cases.push_back({from.at("prompt_token_ids").get<Ids>(),
                       from.at("prompt_logprobs").get<std::vector<double>>(),
                       from.at("last_logits").get<std::vector<double>>(),
                       from.at("greedy_token_ids").get<Ids>(),
                       from.at("greedy_margins").get<std::vector<double>>(),
                       half.at("max_abs_logit_error").get<double>(),
                       half.at("relative_error").get<double>(),
                       half.value("median_logprob_error", 0.0)});
    }
  }

  [[nodiscard]] double worst(double Case::*figure) const {
    double most = 0;
    for (const Case& c : cases) most = std::max(most, c.*figure);
    return most;
  }
};

/// The models' folders of a set of the golden results ("models", "more_models"), and our own
/// folders whose names that set lacks; a plain clone has its own alone. One in five under
/// sanitizers, where not all cases are run.
inline std::vector<fs::path> model_folders(const char* set = "models") {
  const fs::path own = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden";
  const std::optional<fs::path> larger = golden_folder();
  std::vector<fs::path> folders;
  const auto add_from = [&](const fs::path& golden, const auto& is_wanted) {
    if (!fs::is_directory(golden / set)) return;
    for (const auto& entry : fs::directory_iterator(golden / set)) {
      const bool is_model = fs::exists(entry.path() / "recipe.json");
      if (is_model && is_wanted(entry.path().filename())) folders.push_back(entry.path());
    }
  };
  if (larger) add_from(*larger, [](const fs::path&) { return true; });
  add_from(own, [&](const fs::path& name) {
    return !larger ||
           !(fs::exists(*larger / "models" / name) || fs::exists(*larger / "more_models" / name) ||
             fs::exists(*larger / set / name));
  });
  if (folders.empty()) skip(std::string("there are no golden results of ") + set);
  std::ranges::sort(folders, {}, &fs::path::filename);
  size_t number = 0;
  const size_t few = kSanitized && folders.size() > 12 ? 5 : 1;
  std::erase_if(folders, [&](const fs::path&) { return !is_taken(number++, few); });
  return folders;
}

/// True when `run` computes a model. Models that it does not compute are refused by name or by a
/// key's name.
inline bool is_served(const fs::path& folder) {
  const Json config = model::read_config(folder);
  try {
    model::make_model_spec(config);
    return true;
  } catch (const Error& error) {
    const std::string what = error.what();
    const auto architecture = config.at("architectures").at(0).get<std::string>();
    fmt::print("{:<24} refused: {}\n", folder.filename().string(), what.substr(0, 90));
    CHECK((what.find(architecture + " is not supported") != std::string::npos ||
           what.starts_with("config.json: \"")));
    return false;
  }
}

/// The metadata of a GGUF recipe, with those of its tokenizer in place of "@tokenizer".
inline Json complete_pairs(const Json& recipe, const fs::path& data) {
  Json pairs = Json::array();
  for (const Json& pair : recipe.at("kv")) {
    if (pair.at(0) != "@tokenizer") {
      pairs.push_back(pair);
      continue;
    }
    fs::path file = data / pair.at(2).at("source").get<std::string>();
    if (!fs::exists(file)) file += ".xz";
    const Json tokenizer = parse_json(read_maybe_xz(file));
    for (const Json& own : tokenizer_pairs(tokenizer, pair.at(1), pair.at(2).at("pre")))
      pairs.push_back(own);
  }
  return pairs;
}

/// Writes the model of a recipe, whose "kv" makes it a GGUF file; returns the folder or file.
inline fs::path write_model(const fs::path& folder, const fs::path& out) {
  Json recipe = read_json_file(folder / "recipe.json");
  if (!recipe.contains("kv")) {
    write_checkpoint(folder, out);
    return out;
  }
  fs::create_directories(out);
  fs::path file = out / "model.gguf";
  // Tokenizers are beside the golden results, GOLDEN/../data; in a plain clone tests/data.
  const fs::path beside = folder / "../../../..";
  recipe["kv"] = complete_pairs(recipe, fs::exists(beside / "data") ? beside / "data" : beside);
  std::ofstream(file, std::ios::binary) << gguf_bytes(recipe);
  return file;
}

/// A model of the golden results, from a checkpoint that is written for it.
class Subject {
 public:
  Subject(const fs::path& folder, std::unique_ptr<backend::Backend> backend,
          quantization::Activations activations = quantization::Activations::whole)
      : golden(folder),
        backend_(std::move(backend)),
        folder_(fs::temp_directory_path() / fmt::format("plimsoll-{}-{}", golden.name, getpid())) {
    const fs::path model = write_model(folder, folder_);
    auto [config, spec] = checkpoint::read_model(model);
    spec_ = std::move(spec);
    for (const Case& c : golden.cases) {
      longest_ = std::max(longest_, c.length());
    }
    // The reference goes on past the end of a RoPE model's context; so does this comparison.
    if (spec_.position_embedding == model::kNoWeight) {
      spec_.max_position = std::max(spec_.max_position, longest_);
    }
    checkpoint_.emplace(checkpoint::Checkpoint::open(model));
    checkpoint::resolve_stored(*checkpoint_, spec_);
    checkpoint::resolve_kept(config, &*checkpoint_, {.activations = activations}, spec_);
  }
  ~Subject() { fs::remove_all(folder_); }

  [[nodiscard]] DType half_type() const {
    return spec_.dtype == DType::f32 ? DType::bf16 : spec_.dtype;
  }

  ModelRunner runner(DType dtype, std::optional<DType> kv_dtype = std::nullopt) {
    return {spec_,
            checkpoint::WeightReader(*checkpoint_, spec_),
            *backend_,
            dtype,
            {.length = longest_,
             .sequences = static_cast<int64_t>(golden.cases.size()),
             .kv_dtype = kv_dtype}};
  }

  /// Chooses longrope's table by the length that the request may reach.
  void choose_rope(ModelRunner& runner, int32_t sequence, const Case& c) const {
    for (const model::RopeSpec& rope : spec_.ropes) {
      if (rope.long_table && c.length() > rope.original_max_position)
        runner.use_long_rope(sequence);
    }
  }

  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }

  Golden golden;

 private:
  std::unique_ptr<backend::Backend> backend_;
  fs::path folder_;
  model::ModelSpec spec_;
  int64_t longest_ = 0;  // tokens of a case with its answer
  std::optional<checkpoint::Checkpoint> checkpoint_;
};

inline double log_probability(const Logits& logits, int32_t token) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value) - most);
  return logits[static_cast<size_t>(token)] - most - std::log(sum);
}

inline double relative_error(const Logits& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(found[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / norm);
}

/// Answer of a model to a case.
struct Answer {
  std::vector<Logits> prompt;  // by row
  Ids greedy;

  [[nodiscard]] std::vector<double> logprob_errors(const Case& c) const {
    std::vector<double> errors;
    for (size_t i = 0; i + 1 < c.prompt.size(); ++i) {
      errors.push_back(
          std::abs(log_probability(prompt[i], c.prompt[i + 1]) - c.prompt_logprobs[i]));
    }
    return errors;
  }
  /// Tokens until which greedy text must agree: up to the first margin below `least`.
  static size_t sure_tokens(const Case& c, double least) {
    size_t count = 0;
    while (count < c.margins.size() && c.margins[count] >= least) ++count;
    return count;
  }
};

inline Answer answer(ModelRunner& runner, const Subject& subject, const Case& c) {
  runner.restart();
  subject.choose_rope(runner, 0, c);
  Answer answer{runner.run(std::vector<Feed>{{0, c.prompt}}), {}};
  Logits last = answer.prompt.back();
  while (true) {
    const auto best = std::max_element(last.begin(), last.end()) - last.begin();
    answer.greedy.push_back(static_cast<int32_t>(best));
    if (answer.greedy.size() == c.greedy.size()) return answer;
    last = runner.run(std::vector<Feed>{{0, {answer.greedy.back()}}}).back();
  }
}

inline void check_greedy(const Answer& answer, const Case& c, double least_margin) {
  const size_t sure = Answer::sure_tokens(c, least_margin);
  const auto count = static_cast<std::ptrdiff_t>(sure);
  CHECK(Ids(answer.greedy.begin(), answer.greedy.begin() + count) ==
        Ids(c.greedy.begin(), c.greedy.begin() + count));
}

/// Checks logits, log probabilities and greedy tokens in float32.
inline void check_float32(Subject& subject) {
  ModelRunner runner = subject.runner(DType::f32);
  double worst_logits = 0, worst_logprob = 0;
  for (const Case& c : subject.golden.cases) {
    INFO(subject.golden.name << ", prompt of " << c.prompt.size());
    const Answer found = answer(runner, subject, c);
    REQUIRE(found.prompt.back().size() == c.last_logits.size());
    const double logits_error = relative_error(found.prompt.back(), c.last_logits);
    CHECK(logits_error <= 1e-4);
    const std::vector<double> errors = found.logprob_errors(c);
    REQUIRE(errors.size() == c.prompt_logprobs.size());
    for (size_t i = 0; i < errors.size(); ++i) {
      INFO("prompt token " << i + 1);
      CHECK(errors[i] <= 5e-4 + 5e-5 * std::abs(c.prompt_logprobs[i]));
      worst_logprob = std::max(worst_logprob, errors[i]);
    }
    check_greedy(found, c, 0.005);
    worst_logits = std::max(worst_logits, logits_error);
  }
  fmt::print("{:<24} F32   logits {:.1e}  logprobs {:.1e}\n", subject.golden.name, worst_logits,
             worst_logprob);
}

/// Checks a GGUF model in float32. The reference's steps of Mamba-2 differ from ours and from
/// llama.cpp's in nemotron_h: both are as far from it (llama.cpp 0.9e-4 to 1.8e-4), while the same
/// layers agree elsewhere.
inline void check_gguf_float32(Subject& subject) {
  if (subject.golden.name != "nemotron_h") return check_float32(subject);
  ModelRunner runner = subject.runner(DType::f32);
  for (const Case& c : subject.golden.cases) {
    const Answer found = answer(runner, subject, c);
    CHECK(relative_error(found.prompt.back(), c.last_logits) <= 2e-4);
    check_greedy(found, c, 0.005);
  }
}

/// Checks the model in the type that the weights are stored in, against the errors that
/// transformers itself makes in it.
inline void check_half(Subject& subject) {
  const Golden& golden = subject.golden;
  ModelRunner runner = subject.runner(subject.half_type());
  double worst_logits = 0, worst_median = 0;
  // Which of two experts (or keys) is chosen on a near tie depends on the sums' order, and the
  // row's logits differ then: transformers itself reaches 1.64 there. Choices are proved in
  // float32.
  const double flipped = golden.smallest_router_margin < 1e-3 ? 1.64 : 0;
  const double allowed = std::max(2.5 * golden.worst(&Case::half_relative_error), flipped);
  for (const Case& c : golden.cases) {
    INFO(golden.name << ", prompt of " << c.prompt.size());
    const Answer found = answer(runner, subject, c);
    std::vector<double> errors = found.logprob_errors(c);
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    CHECK(*middle <= std::max(0.5, 2 * golden.worst(&Case::half_median_error)));
    const double logits_error = relative_error(found.prompt.back(), c.last_logits);
    CHECK(logits_error <= allowed);
    check_greedy(found, c, 1.5 * golden.worst(&Case::half_logit_error));
    worst_median = std::max(worst_median, *middle);
    worst_logits = std::max(worst_logits, logits_error);
  }
  fmt::print("{:<24} {:<4}  logits {:.1e} of {:.1e}  median logprob {:.1e}\n", golden.name,
             safetensors_name(subject.half_type()), worst_logits, allowed, worst_median);
}

/// How far the rounding of inputs may move the last logits of a quantized model's cases; 0: its
/// format rounds none.
inline double allowed_by_rounding(const fs::path& folder) {
  const Json golden = parse_json(read_maybe_xz(folder / "golden.json"));
  double allowed = 0;
  for (const Json& each : golden.at("cases")) {
    const auto found = each.find("activations_quantised_reference");
    if (found == each.end()) continue;
    allowed = std::max(allowed, 1.5 * found->at("last_logits_relative_error").get<double>());
  }
  return allowed;
}

/// Checks a quantized model whose inputs of products are rounded as its format asks.
inline void check_rounded(Subject& subject, double allowed) {
  ModelRunner runner = subject.runner(DType::f32);
  double worst = 0;
  for (const Case& c : subject.golden.cases) {
    worst =
        std::max(worst, relative_error(answer(runner, subject, c).prompt.back(), c.last_logits));
  }
  fmt::print("{:<28} rounded inputs: logits {:.1e} of {:.1e}\n", subject.golden.name, worst,
             allowed);
  CHECK(worst <= allowed);
  // Without rounding the error would be a hundred times smaller.
  CHECK(worst > 1e-3);
}

/// Checks a quantized model in its half type. The references are in float32: rounding activations
/// to bf16 moves the plain llama's logits by up to 0.022, and to f16, of three more bits, by an
/// eighth of it; half of that is added.
inline void check_quantized_half(Subject& subject) {
  const DType dtype = subject.half_type();
  ModelRunner runner = subject.runner(dtype);
  const double allowed = dtype == DType::f16 ? 0.033 / 8 : 0.033;
  double worst = 0;
  for (const Case& c : subject.golden.cases) {
    const Answer found = answer(runner, subject, c);
    worst = std::max(worst, relative_error(found.prompt.back(), c.last_logits));
  }
  CHECK(worst <= allowed);
  fmt::print("{:<28} {:<4}  logits {:.1e} of {:.1e}\n", subject.golden.name,
             safetensors_name(dtype), worst, allowed);
}

}  // namespace plimsoll::testing
