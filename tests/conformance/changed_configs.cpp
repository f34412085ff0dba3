// Configs of every kind and headers of GGUF files, their values changed at random, and every config
// in every release of vLLM: they are read and planned as when tests/data/digests was written
// (README there).
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "batch/scratch.h"
#include "checkpoint/gguf/config.h"
#include "conformance/launch_digests.h"
#include "plan/engines/engine_plan.h"
#include "plan/vllm_plan.h"
#include "reference/gguf_bytes.h"
#include "vllm/items/item_sizes.h"
#include "vllm_releases.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

constexpr int kChanges = 24;  // of a config
constexpr int kItems = 100;   // of a config

/// What a value of a config may be instead; null: the key is left out.
Json other_value(Draw& draw, const Json& value) {
  if (value.is_boolean() && draw.below(4) > 0) return !value.get<bool>();
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    const int64_t others[] = {number * 2, number / 2, number + 1, number - 1, 0, 1};
    if (draw.below(4) > 0) return draw.of(others);
  }
  if (value.is_number_float() && draw.below(4) > 0)
    return value.get<double>() * (draw.below(2) == 0 ? 2 : 0.5);
  return nullptr;
}

/// A config with up to three of its values changed, but for its name, and what was changed.
std::pair<Json, std::string> changed(Draw& draw, Json config) {
  std::vector<Json::json_pointer> places;
  const Json flat = config.flatten();
  for (const auto& [place, value] : flat.items()) {
    const bool names = place.starts_with("/architectures") || place.ends_with("model_type");
    const bool late_in_list = std::isdigit(place.back()) && !place.ends_with("/0");
    if (!names && !late_in_list) places.emplace_back(place);
  }
  std::string made;
  for (size_t count = 1 + draw.below(3); count > 0 && !places.empty(); --count) {
    const Json::json_pointer place = draw.of(places);
    std::erase(places, place);
    const Json value = other_value(draw, config.at(place));
    made += fmt::format("{} {}, ", place.to_string(), value.dump());
    Json& holder = config.at(place.parent_pointer());
    if (value.is_null() && holder.is_object()) {
      holder.erase(place.back());
    } else {
      config.at(place) = value;
    }
  }
  return {std::move(config), std::move(made)};
}

std::vector<Answered> ask_changed(const std::string& name, const Json& config) {
  Draw draw("changed " + name);
  std::vector<Answered> all;
  for (int i = 0; i < kChanges; ++i) {
    const auto [other, made] = changed(draw, config);
    plan::EngineArgs args;
    args.tensor_parallel = 1 + static_cast<int64_t>(draw.below(2));
    all.push_back(planned(fmt::format("{}{} ranks", made, args.tensor_parallel), [&] {
      return plan::plan_vllm({other, "config.json"}, args, &hardware::find_gpu("h100"));
    }));
    if (i % 4 != 0) continue;
    for (const engines::Engine& engine : engines::engines()) {
      if (engine.name == "llamacpp") continue;  // asks for a GGUF file
      const engines::Question question = question_of(name, other, "h100");
      all.push_back(planned(std::string(engine.name), [&] {
        return plan::plan_engine(engine, question, {other, "config.json"}, false);
      }));
    }
  }
  return all;
}

/// A recipe of a GGUF file with some of its values changed or left out, and one time in four
/// without one of its tensors.
Json changed_header(Draw& draw, Json recipe) {
  Json& values = recipe["kv"];
  for (size_t count = 1 + draw.below(3); count > 0 && !values.empty(); --count) {
    const size_t at = draw.below(values.size());
    Json& value = values[at][2];
    const Json other = other_value(draw, value);
    const bool fits = other.is_boolean() || other.is_number_float() ||
                      (other.is_number_integer() && other >= 0 && other < 1 << 30);
    if (fits) {
      value = other;
    } else {
      values.erase(at);
    }
  }
  if (draw.below(4) == 0) recipe["tensors"].erase(draw.below(recipe["tensors"].size()));
  return recipe;
}

std::vector<Answered> ask_headers(const std::string& name, const Json& recipe,
                                  const fs::path& file) {
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < kChanges; ++i) {
    const Json other = i == 0 ? recipe : changed_header(draw, recipe);
    write_gguf_header(other, file);
    Answered& one = all.emplace_back(answered(other["kv"].dump(), [&] {
      return checkpoint::gguf::make_config(checkpoint::gguf::Model::open(file)).dump();
    }));
    if (one.answer.starts_with(file.string())) one.answer.erase(0, file.string().size());
  }
  return all;
}

/// The largest items that a model's processors make of drawn sizes and settings.
std::vector<Answered> ask_items(const std::string& name, const Json& config) {
  constexpr const char* kSettings[] = {"max_pixels",
                                       "min_pixels",
                                       "size.longest_edge",
                                       "size.shortest_edge",
                                       "longest_edge",
                                       "max_dynamic_patch",
                                       "max_image_size.longest_edge",
                                       "do_pan_and_scan",
                                       "num_frames",
                                       "max_soft_tokens",
                                       "in_token_limit",
                                       "crop_to_patches"};
  constexpr int64_t kNumbers[] = {1, 3, 12, 100, 400, 1500, 300000, 9000000};
  constexpr int64_t kSides[] = {0, 1, 100, 333, 700, 2000, 9000};
  const vllm::ModelShape shape = shape_of(config);
  Draw draw(name);
  std::vector<Answered> all;
  for (int i = 0; i < kItems; ++i) {
    vllm::EngineArgs args;
    const int64_t width = draw.of(kSides), height = draw.of(kSides), samples = draw.of(kNumbers);
    const int64_t frames = i % 2 == 0 ? 0 : draw.of(kNumbers), context = 200 << draw.below(12);
    args.limits["image"] = {1, width, height};
    args.limits["video"] = {1, width, height, frames};
    args.limits["audio"].samples = samples;
    for (size_t count = draw.below(3); count > 0; --count)
      args.processor[draw.of(kSettings)] = draw.of(kNumbers);
    std::string answer;
    const vllm::LargestItem items[] = {
        largest_image(shape.vision, args),          profiled_image(shape.vision, args),
        largest_video(shape.vision, args, context), profiled_video(shape.vision, args, context),
        largest_sound(shape.sound, context),        profiled_sound(shape.sound, args, context)};
    for (const vllm::LargestItem& item : items)
      answer += fmt::format("{} {} {}, ", item.tokens, item.rows, item.elements);
    all.push_back({fmt::format("{} x {}, {} frames, {} samples, context {}, {}", width, height,
                               frames, samples, context, Json(args.processor).dump()),
                   answer});
  }
  return all;
}

std::vector<Answered> ask_releases(const Json& config) {
  std::vector<Answered> all;
  for (const model::VllmVersion& version : known_releases()) {
    all.push_back(planned(model::version_text(version), [&] {
      plan::EngineArgs args;
      args.version = version;
      return plan::plan_vllm({config, "config.json"}, args, &hardware::find_gpu("a100-80gb"));
    }));
  }
  return all;
}

}  // namespace

TEST_CASE("configs with values changed at random are planned as they were") {
  Digests digests("changed");
  for (const auto& [name, config] : configs()) digests.compare(name, ask_changed(name, config));
  digests.finish();
}

TEST_CASE("the largest images, videos and clips of sound are as they were") {
  Digests digests("items");
  for (const auto& [name, config] : configs())
    if (sees_or_hears(config)) digests.compare(name, ask_items(name, config));
  digests.finish();
}

TEST_CASE("configs are planned by every release as they were") {
  Digests digests("releases");
  for (const auto& [name, config] : configs()) digests.compare(name, ask_releases(config));
  digests.finish();
}

TEST_CASE("GGUF headers with values changed at random become the configs that they were") {
  Digests digests("headers");
  const test::Scratch scratch;
  std::map<std::string, Json> recipes;
  for (const auto& entry : fs::directory_iterator(kData / "engines/headers"))
    recipes[entry.path().stem()] = read_json_file(entry.path());
  for (const auto& entry : fs::directory_iterator(kData / "golden/gguf/run"))
    if (fs::exists(entry.path() / "recipe.json"))
      recipes[entry.path().filename()] = read_json_file(entry.path() / "recipe.json");
  REQUIRE(recipes.size() > 40);
  for (auto& [name, recipe] : recipes) {
    recipe["data"] = false;
    std::erase_if(recipe["kv"].get_ref<Json::array_t&>(), [](const Json& pair) {
      return pair[0].get<std::string>().starts_with('@');  // a tokenizer, in short
    });
    digests.compare(name, ask_headers(name, recipe, scratch.path("m.gguf")));
  }
  digests.finish();
}
